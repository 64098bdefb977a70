"""The socket of a memory's owner: where it is, who may use it, and what does it no harm."""

# ruff: noqa: ASYNC240 - tests may look at files

import asyncio
import os
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve import errors
from mem2evolve.errors import StoreBusy, StoreError
from mem2evolve.memory.backends import access, address, remote, service, wire
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.backends.operations import Operations
from mem2evolve.memory.backends.owner import owner_of
from mem2evolve.memory.backends.remote import Refused, Remote
from mem2evolve.memory.backends.wire import Frame, Lost
from mem2evolve.memory.store import Record

KEY = "00000000-0000-4000-8000-000000000001"
ROW = Record(id=KEY, vector=[1.0, 2.0], payload={"name": "x"})


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[EdgeStore]:
    """A store of this process that owns `tmp_path / "memory"`; one record is in it."""
    store = EdgeStore(tmp_path / "memory")
    await store.put("tools", [ROW])
    yield store
    await store.close()


def path_of(folder: Path) -> Path:
    """Return where the owner of a folder listens."""
    return Path(owner_of(folder)["socket"])


def ask(folder: Path, job: Callable[[Remote], Any]) -> Any:
    """Do something over a connection of its own, as another process would."""
    end = Remote(path_of(folder), patience=5)
    try:
        return job(end)
    finally:
        end.close()


async def count(folder: Path) -> Any:
    """Count the tools over a connection."""
    return await asyncio.to_thread(ask, folder, lambda end: end.count("tools", None))


async def test_only_this_user_may_connect(owner: EdgeStore, tmp_path: Path) -> None:
    """The socket is for its user alone, and so is the folder; it goes with the owner."""
    path = path_of(tmp_path / "memory")
    assert path == tmp_path / "memory" / "owner.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    await owner.close()
    assert not path.exists()


async def test_another_user_is_refused(
    owner: EdgeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides look at whom the kernel names on the other one."""
    monkeypatch.setattr(wire, "peer_uid", lambda _: os.geteuid() + 1)
    with pytest.raises(Refused, match="another user"):
        await count(tmp_path / "memory")
    path = str(path_of(tmp_path / "memory"))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.settimeout(5)
        assert sock.recv(1) == b""


@pytest.mark.parametrize("sent", [7, "x", None, {}])
async def test_another_version_is_told_apart(
    owner: EdgeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: Any
) -> None:
    """Whatever it says instead of our protocol number, both sides know at once."""
    ours = wire.PROTOCOL
    real = wire.send

    def greet(sock: socket.socket, frame: Frame) -> None:
        mine = threading.current_thread().name == "mem2evolve-memory-peer"
        real(sock, frame if mine else Frame({"protocol": sent}))

    monkeypatch.setattr(wire, "send", greet)
    with pytest.raises(Lost):
        await count(tmp_path / "memory")
    monkeypatch.setattr(wire, "send", lambda sock, _: real(sock, Frame({"protocol": sent})))
    with pytest.raises(Refused, match=f"another version.*protocol is {sent!r}, this one's {ours}"):
        await count(tmp_path / "memory")
    monkeypatch.undo()
    assert await count(tmp_path / "memory") == 1


@pytest.mark.parametrize(
    ("why", "says"),
    [
        (Refused("which runs another version"), "since 2.*, which runs another version"),
        (Lost("nobody"), "which does not answer"),
    ],
)
async def test_a_refused_process_is_told_why(
    keeper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: Exception, says: str
) -> None:
    """The error names the owner and the reason."""
    assert keeper.ask(f"open {tmp_path}") == "done"

    def refuse(*_: object, **__: object) -> None:
        raise why

    monkeypatch.setattr(Remote, "_greet", refuse)
    monkeypatch.setattr(access, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(StoreBusy, match=says) as busy:
        await EdgeStore(tmp_path).count("tools")
    assert f"Stop process {keeper.pid}" in busy.value.hint
    assert keeper.ask(f"close {tmp_path}") == "done"


HEADER = struct.Struct("=4sIQ")
GREETING = b'{"protocol": %d}' % wire.PROTOCOL
GREETED = HEADER.pack(b"m2em", len(GREETING), 0) + GREETING
GARBAGE = {
    "nothing": b"",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "bytes": bytes(range(256)) * 100,
    "half a header": b"m2em\x01",
    "half a greeting": GREETED[:-3],
    "a long greeting": HEADER.pack(b"m2em", 2**20, 0),
    "a frame of 1 GB": GREETED + HEADER.pack(b"m2em", 20, 2**30),
    "a frame of 16 EB": GREETED + HEADER.pack(b"m2em", 20, 2**64 - 1),
    "no JSON": GREETED + HEADER.pack(b"m2em", 3, 0) + b"{{{",
    "no object": GREETED + HEADER.pack(b"m2em", 2, 0) + b"[]",
    "no UTF-8": GREETED + HEADER.pack(b"m2em", 2, 0) + b"\xff\xff",
    "deep": GREETED + HEADER.pack(b"m2em", 10**6, 0) + b"[" * 10**6,
    "half a frame": GREETED + HEADER.pack(b"m2em", 10**6, 10**6) + b"{}",
}


@pytest.mark.parametrize("case", sorted(GARBAGE))
async def test_garbage_does_no_harm(owner: EdgeStore, tmp_path: Path, case: str) -> None:
    """Whoever sends it is hung up on; the others are served."""
    path = str(path_of(tmp_path / "memory"))

    def pester() -> bytes:
        got = b""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(path)
            try:
                sock.sendall(GARBAGE[case])
                if "half" in case or case == "nothing":  # the rest is refused unasked
                    sock.shutdown(socket.SHUT_WR)
                while piece := sock.recv(1000):
                    got += piece
            except ConnectionError:  # hung up on before all was sent
                pass
        return got

    assert await asyncio.to_thread(pester) in (b"", GREETED)
    assert await count(tmp_path / "memory") == 1
    assert await owner.count("tools") == 1


MALFORMED: list[tuple[dict[str, Any], bytes]] = [
    ({}, b""),
    ({"do": "drop", "in": "tools"}, b""),
    ({"do": ["put"]}, b""),
    ({"do": "put", "in": "../tools", "rows": []}, b""),
    ({"do": "put", "in": ["tools"], "rows": []}, b""),
    ({"do": "put", "in": "tools", "rows": [[KEY, 3, {}]]}, b"12345678"),
    ({"do": "put", "in": "tools", "rows": [[KEY, 1, []]]}, b"12345678"),
    ({"do": "put", "in": "tools", "rows": 3}, b""),
    ({"do": "get", "in": "tools", "ids": [7]}, b""),
    ({"do": "search", "in": "tools", "where": 3, "limit": "x"}, b"1"),
    ({"do": "count", "in": "tools"}, b""),
]


@pytest.mark.parametrize("number", range(len(MALFORMED)))
async def test_malformed_requests_are_refused(
    owner: EdgeStore, tmp_path: Path, number: int
) -> None:
    """Each is answered with an error, and the connection goes on."""
    head, numbers = MALFORMED[number]

    def send(end: Remote) -> Any:
        with pytest.raises(Exception) as refusal:  # noqa: PT011 - of any type but one
            end._ask(head, numbers)
        assert not isinstance(refusal.value, Lost)
        return end.get("tools", [KEY])

    [found] = await asyncio.to_thread(ask, tmp_path / "memory", send)
    assert found.payload == ROW.payload
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory"]


async def test_too_much_at_once_is_refused(
    owner: EdgeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request or an answer beyond the limit is an error that says what to do, and no more."""
    big = Record(id=KEY, vector=[1.0, 2.0], payload={"name": "x" * 5000})

    def use(end: Remote) -> Any:
        monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 2000)
        with pytest.raises(StoreError, match="too many") as error:
            end.put("tools", [big])
        assert "fewer records" in error.value.hint
        monkeypatch.undo()
        end.put("tools", [big])
        monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 2000)
        with pytest.raises(StoreError, match="too many"):
            end.get("tools", [KEY])
        return end.count("tools", None)

    assert await asyncio.to_thread(ask, tmp_path / "memory", use) == 1


async def test_a_full_disk_is_told(
    owner: EdgeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner's refusal arrives as it is."""
    room = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room._replace(free=1000))
    with pytest.raises(StoreError, match="full; nothing was written") as error:
        await asyncio.to_thread(ask, tmp_path / "memory", lambda end: end.put("tools", [ROW]))
    assert "Free some space" in error.value.hint


async def test_a_busy_owner_is_waited_for(
    owner: EdgeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner at work says so; however long it takes, it is not taken for hung."""
    monkeypatch.setattr(service, "BEAT_SECONDS", 0.02)
    real, waited, go_on = wire.send, [], threading.Event()

    def send(sock: socket.socket, frame: Frame) -> None:
        if "busy" in frame.head:
            waited.append(1)
            if len(waited) == 5:
                go_on.set()
        real(sock, frame)

    def work(_: Operations) -> None:
        go_on.wait(20)

    monkeypatch.setattr(wire, "send", send)
    assert owner._access is not None
    working = owner._access.submit(work)
    assert await count(tmp_path / "memory") == 1
    assert len(waited) >= 5
    working.result()


async def test_who_hung_up_is_not_served(owner: EdgeStore, tmp_path: Path) -> None:
    """A request still in the queue is dropped: whoever made it may have repeated it elsewhere."""
    go_on = threading.Event()
    assert owner._access is not None
    working = owner._access.submit(lambda _: go_on.wait(20))
    end = Remote(path_of(tmp_path / "memory"), patience=5)
    assert owner._access._service is not None
    [peer] = (
        owner._access._service._peers.values()
    )  # while it is there: it ends when the other side does
    wire.send(end._sock, Frame({"do": "delete", "in": "tools", "ids": [KEY]}))
    end.close()
    while owner._access._worker._jobs.empty():  # until the request waits behind the work
        await asyncio.to_thread(peer.join, 0.01)
    go_on.set()
    await asyncio.to_thread(peer.join)
    working.result()
    assert await owner.count("tools") == 1


def long_folder(below: Path) -> Path:
    """Return a folder whose socket's path would be too long."""
    return below / ("x" * 60) / ("y" * 60)


async def test_a_long_path_has_a_short_address(
    tmp_path: Path, short_folder: Path, keeper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner listens in a private folder of the user; others find it by the lock file."""
    runtime = short_folder / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    folder = long_folder(tmp_path)
    store = EdgeStore(folder)
    await store.put("tools", [ROW])
    assert path_of(folder).parent == runtime
    assert await count(folder) == 1
    await store.close()
    assert list(runtime.iterdir()) == []

    assert keeper.ask(f"open {folder}") == "done"
    assert await store.count("tools") == 1
    await store.close()
    assert keeper.ask(f"close {folder}") == "done"


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


@pytest.mark.parametrize("runtime", ["missing", "open", "link", "file"])
def test_a_folder_open_to_others_is_passed_over(
    tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    """Nothing is put where somebody else could have put something first."""
    place, temporary = tmp_path / "run", short_folder
    if runtime == "open":
        place.mkdir()
        place.chmod(0o755)
    elif runtime == "link":
        (tmp_path / "private").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "private")
    elif runtime == "file":
        place.write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.setattr(address.tempfile, "gettempdir", lambda: str(temporary))
    sock, path = address.listen(long_folder(tmp_path))
    sock.close()
    assert path.parent == temporary / f"mem2evolve-{os.geteuid()}"
    assert path.parent.stat().st_mode & 0o777 == 0o700

    path.parent.chmod(0o777)
    with pytest.raises(OSError, match=r"no place for a Unix socket: .*longer than 107.*private"):
        address.listen(long_folder(tmp_path))


async def test_without_a_place_the_owner_works_alone(
    tmp_path: Path, keeper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system without sockets; the others are told the reason."""

    def nowhere(_: Path) -> None:
        raise OSError("no place for a Unix socket: sockets are not supported")

    monkeypatch.setattr(address, "listen", nowhere)
    monkeypatch.setattr(access, "PATIENCE_SECONDS", 0.1)
    store = EdgeStore(tmp_path)
    await store.put("tools", [ROW])
    other = access.Access(tmp_path)
    with pytest.raises(StoreBusy, match=r"cannot serve others \(no place for a Unix socket: .*\)"):
        await asyncio.to_thread(other.submit(lambda end: end.count("tools", None)).result)
    other.close()
    await store.close()


async def test_what_lies_at_the_address_stays(tmp_path: Path) -> None:
    """A file there is not ours: the owner listens elsewhere. A stale socket is replaced."""
    (tmp_path / "owner.sock").write_text("I was here first")
    store = EdgeStore(tmp_path)
    await store.put("tools", [ROW])
    assert path_of(tmp_path).parent != tmp_path
    assert await count(tmp_path) == 1
    await store.close()
    assert (tmp_path / "owner.sock").read_text() == "I was here first"

    (tmp_path / "owner.sock").unlink()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "owner.sock"))
    assert await store.count("tools") == 1
    assert path_of(tmp_path) == tmp_path / "owner.sock"
    assert await count(tmp_path) == 1
    await store.close()


async def test_a_full_house_is_no_harm(
    owner: EdgeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections beyond the limit are closed at once; when one ends, there is room again."""
    monkeypatch.setattr(service, "MAX_PEERS", 1)

    def crowd(_: Remote) -> None:
        with pytest.raises(Lost):
            ask(tmp_path / "memory", lambda end: end.count("tools", None))

    await asyncio.to_thread(ask, tmp_path / "memory", crowd)
    assert owner._access is not None
    assert owner._access._service is not None
    for peer in list(owner._access._service._peers.values()):
        await asyncio.to_thread(peer.join)
    assert await count(tmp_path / "memory") == 1


@pytest.mark.parametrize(
    "error",
    [
        errors.StoreMismatch("a", hint="b"),
        errors.StoreDamaged("a", hint="b"),
        errors.StoreUnavailable("a", hint="b"),
        errors.StoreBusy("a", hint="b"),
        errors.StoreError("a ü \ud800", hint=""),
        ValueError("the id 'x' is not a UUID"),
        TypeError("no"),
        KeyError("name"),
        OverflowError("too big"),
        RecursionError(),
    ],
)
def test_errors_arrive_as_they_are(error: Exception) -> None:
    """The same type, text and hint."""
    back = wire.unpack_error(wire.pack_error(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert getattr(back, "hint", None) == getattr(error, "hint", None)


class Foreign(Exception):
    """A type that the other side does not know."""


@pytest.mark.parametrize(
    "error", [Foreign("odd"), UnicodeDecodeError("utf-8", b"x", 0, 1, "odd"), SystemExit(3)]
)
def test_other_errors_are_named(error: BaseException) -> None:
    """What cannot be made again is a `StoreError` that names it; nothing else is ever called."""
    back = wire.unpack_error(wire.pack_error(error))
    assert type(back) is StoreError
    assert type(error).__name__ in str(back)


@given(
    st.lists(
        st.builds(
            Record,
            id=st.text(),
            vector=st.lists(st.floats(allow_nan=False), max_size=4),
            payload=st.dictionaries(st.text(), st.integers() | st.text() | st.none()),
        ),
        max_size=4,
    )
)
def test_records_come_through(records: list[Record]) -> None:
    """Records are the same on the other side."""
    assert wire.unpack_records(*wire.pack_records(records)) == records


def test_remote_has_all_operations() -> None:
    """Both ends of a connection know the same operations."""
    names = {name for name in vars(Operations) if not name.startswith("_")}
    assert names <= vars(remote.Remote).keys()
