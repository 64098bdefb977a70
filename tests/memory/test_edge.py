"""The embedded store: durability, one owner, and folders that cannot be used."""

# ruff: noqa: ASYNC240 - tests may look at files

import asyncio
import contextlib
import json
import os
import random
import shutil
import uuid
from pathlib import Path

import pytest

from mem2evolve.errors import StoreBusy, StoreDamaged, StoreError
from mem2evolve.memory.backends import edge, engine
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.backends.faults import translate
from mem2evolve.memory.store import Record

from .processes import HOLDER, WRITER, start


def row(name: str) -> Record:
    """Return a record."""
    return Record(id=str(uuid.uuid4()), vector=[1.0, 2.0], payload={"name": name})


async def test_a_killed_writer_loses_no_acknowledged_write(tmp_path: Path) -> None:
    """After `kill -9` at random moments every id that `put` returned for is there, whole."""
    folder = tmp_path / "memory"
    acknowledged: list[str] = []
    for _ in range(3):
        child = start(WRITER, str(folder), "-1")
        lines = random.randrange(20, 400)  # noqa: S311 - test data
        acknowledged += [child.line() for _ in range(lines)]
        # The last line may have been cut off; a whole id was acknowledged.
        acknowledged += [line for line in child.kill() if len(line) == 36]
    store = EdgeStore(folder)
    found = await store.get("tools", acknowledged)
    assert [record.payload["name"] for record in found] == acknowledged
    assert len(acknowledged) <= await store.count("tools") <= len(acknowledged) + 3
    await store.close()


async def test_what_is_not_closed_is_closed_at_exit(tmp_path: Path) -> None:
    """A process that ends without `close` ends well, and its writes are there."""
    key = str(uuid.uuid4())
    child = start(HOLDER, str(tmp_path), key, "end")
    await asyncio.to_thread(child.process.communicate, timeout=20)
    assert child.process.returncode == 0
    assert (tmp_path / "owner.lock").read_text() == ""
    store = EdgeStore(tmp_path)
    assert await store.count("tools") == 1
    await store.close()


async def test_stores_of_one_process_share_a_folder(tmp_path: Path) -> None:
    """Two stores see each other's writes, and the folder is held until the last one is closed."""
    (tmp_path / "link").symlink_to(tmp_path / "memory")
    one, two = EdgeStore(tmp_path / "memory"), EdgeStore(tmp_path / "link")
    await one.put("tools", [row("x")])
    assert await two.count("tools") == 1
    await one.close()
    await two.put("tools", [row("y")])
    await two.close()
    assert not edge._OPEN
    assert await one.count("tools") == 2
    await one.close()


def test_it_serves_several_event_loops(tmp_path: Path) -> None:
    """One store works in one `asyncio.run` after the other."""
    store = EdgeStore(tmp_path)
    for n in range(3):
        asyncio.run(store.put("tools", [row(str(n))]))
    assert asyncio.run(store.count("tools")) == 3
    asyncio.run(store.close())


async def test_a_cancelled_call_leaves_the_store_usable(tmp_path: Path) -> None:
    """Cancelling a task that waits for the store harms nothing."""
    store = EdgeStore(tmp_path)
    tasks = [asyncio.create_task(store.put("tools", [row(str(n))])) for n in range(20)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.put("tools", [row("last")])
    assert await store.count("tools", where={"name": "last"}) == 1
    await store.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_forked_child_is_refused(tmp_path: Path) -> None:
    """A child cannot use its parent's store, and does not keep the folder held."""
    store = EdgeStore(tmp_path)
    await store.put("tools", [row("x")])
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            try:
                store.count("tools").send(None)
            except StoreError as error:
                code = 0 if "forked" in str(error) else 2
            os.close(writing)
            os.read(reading, 1)  # until the parent has done the rest
        os._exit(code)
    assert await store.count("tools") == 1
    await store.close()
    assert await store.count("tools") == 1
    await store.close()
    os.close(reading)
    os.close(writing)
    _, status = os.waitpid(pid, 0)  # noqa: ASYNC222 - it ends at once
    assert os.waitstatus_to_exitcode(status) == 0


async def test_writes_are_flushed_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written data reaches the disk without another call, after `FLUSH_SECONDS`."""
    monkeypatch.setattr(engine, "FLUSH_SECONDS", 0.05)
    store = EdgeStore(tmp_path)
    await store.put("tools", [row("x")])
    assert store._access is not None
    assert store._access._end._unflushed == 1
    await asyncio.sleep(0.3)
    assert store._access._end._unflushed == 0
    monkeypatch.setattr(engine, "FLUSH_SECONDS", 3600)
    await store.put("tools", [row(str(n)) for n in range(engine.FLUSH_WRITES)])
    assert await store.count("tools") == engine.FLUSH_WRITES + 1
    assert store._access._end._unflushed == 0
    await store.close()


DAMAGE = {
    "config": ("tools/edge_config.json", b"garbage"),
    "segment": ("tools/segments/*/segment.json", b"garbage"),
    "version": ("tools/segments/*/version.info", b""),
    "vectors": ("tools/segments/*/vector_storage/vectors/chunk_0.mmap", b"garbage!"),
    "payloads": ("tools/segments/*/payload_storage/page_0.dat", b"garbage!"),
    "manifest": ("manifest.json", b'{"embedding": '),
    "no object": ("manifest.json", b"[]"),
}


@pytest.mark.parametrize("case", sorted(DAMAGE))
async def test_damaged_files_are_reported_and_left(tmp_path: Path, case: str) -> None:
    """A damaged folder is a one-line error with a hint; the damaged file stays as it is."""
    pattern, content = DAMAGE[case]
    store = EdgeStore(tmp_path)
    rows = [row(str(n)) for n in range(5)]
    await store.put("tools", rows)
    await store.write_manifest({"embedding": "x", "dim": 2})
    await store.close()
    [file] = tmp_path.glob(pattern)
    file.write_bytes(content)

    async def use() -> None:
        await store.read_manifest()
        await store.get("tools", [r.id for r in rows])

    with pytest.raises(StoreDamaged) as damaged:
        await use()
    assert "\n" not in str(damaged.value)
    assert str(tmp_path) in str(damaged.value)
    assert "Nothing was changed" in damaged.value.hint
    await store.close()
    assert file.read_bytes() == content


LOST = (
    *("tools", "tools/segments", "tools/segments/*", "tools/segments/*/version.info"),
    *("tools/segments/*/segment.json", "tools/segments/*/mutable_id_tracker.mappings"),
)


@pytest.mark.parametrize("lost", LOST)
async def test_lost_files_are_no_empty_memory(tmp_path: Path, lost: str) -> None:
    """The engine would begin anew in their place; here it is refused, and all is there once they are back."""
    store = EdgeStore(tmp_path / "memory")
    await store.put(
        "tools", [Record(id=str(uuid.uuid4()), vector=[1.0, 0.0], payload={"name": "a"})]
    )
    await store.close()
    [path] = (tmp_path / "memory").glob(lost)
    path.rename(tmp_path / "aside")

    with pytest.raises(StoreDamaged, match="tools"):
        await store.count("tools")
    await store.close()
    (tmp_path / "aside").rename(path)
    assert await store.count("tools") == 1
    await store.close()


async def test_an_emptied_collection_is_whole(tmp_path: Path) -> None:
    """Also when it was emptied just before the process was killed, and nothing was noted of it."""
    store, key = EdgeStore(tmp_path / "memory"), str(uuid.uuid4())
    await store.put("tools", [Record(id=key, vector=[1.0, 0.0], payload={"name": "a"})])
    await store.close()
    noted = (tmp_path / "memory" / "contents.json").read_text()
    await store.delete("tools", [key])
    await store.close()
    (tmp_path / "memory" / "contents.json").write_text(noted)

    assert json.loads(noted) == {"tools": 1}
    assert await store.count("tools") == 0
    await store.close()


async def test_an_empty_shard_folder_is_damage(tmp_path: Path) -> None:
    """A shard whose files were lost is not silently replaced by an empty one."""
    store = EdgeStore(tmp_path)
    await store.put("tools", [row("x")])
    await store.close()
    shutil.rmtree(tmp_path / "tools")
    (tmp_path / "tools").mkdir()
    with pytest.raises(StoreDamaged):
        await store.put("tools", [row("y")])
    await store.close()
    assert not [path for path in (tmp_path / "tools").rglob("*") if path.is_file()]


async def test_a_shard_half_made_is_made_anew(tmp_path: Path) -> None:
    """What a process killed while making a shard left behind is in nobody's way."""
    (tmp_path / "tools.new" / "segments").mkdir(parents=True)
    store = EdgeStore(tmp_path)
    await store.put("tools", [row("x")])
    assert await store.count("tools") == 1
    await store.close()
    assert not (tmp_path / "tools.new").exists()


async def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    """A home that cannot be a folder is an error that says so."""
    (tmp_path / "home").write_text("I was here first")
    for folder in (tmp_path / "home", tmp_path / "home" / "memory"):
        with pytest.raises(StoreError, match="a file is in the way") as error:
            await EdgeStore(folder).put("tools", [row("x")])
        assert "MEM2EVOLVE_HOME" in error.value.hint
    assert (tmp_path / "home").read_text() == "I was here first"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_read_only_home_is_named(tmp_path: Path) -> None:
    """A folder that cannot be written is an error that says so."""
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="No permission"):
        await EdgeStore(tmp_path / "memory").put("tools", [row("x")])
    tmp_path.chmod(0o700)


async def test_a_full_disk_is_refused_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little room left nothing is written; reading goes on, and writing once there is."""
    store = EdgeStore(tmp_path)
    await store.put("tools", [row("x")])
    room = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room._replace(free=1000))
    with pytest.raises(StoreError, match="full; nothing was written"):
        await store.put("tools", [row("y")])
    with pytest.raises(StoreError, match="full"):
        await store.write_manifest({})
    assert await store.count("tools") == 1
    await store.close()
    with pytest.raises(StoreError, match="full"):
        await store.count("tools")
    monkeypatch.undo()
    await store.put("tools", [row("y")])
    assert await store.count("tools") == 2
    await store.close()


class PanicException(BaseException):
    """What the engine raises when it fails beyond repair."""


async def test_a_panic_becomes_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A panic of the engine is `StoreDamaged`, from then on; the thread and `close` survive."""
    store = EdgeStore(tmp_path)
    await store.put("tools", [row("x")])

    def panic(*_: object) -> None:
        raise PanicException("range end out of bounds")

    monkeypatch.setattr(engine.Engine, "get", panic)
    with pytest.raises(StoreDamaged, match="range end"):
        await store.get("tools", [row("x").id])
    with pytest.raises(StoreDamaged, match="range end"):
        await store.count("tools")
    await store.close()
    assert await store.count("tools") == 1
    await store.close()


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("x: Read-only file system (os error 30)", StoreError, "No permission to open"),
        ("x: No space left on device (os error 28)", StoreError, "full"),
        ("x: I/O error (os error 5)", StoreError, "Could not open"),
        ("Can't init WAL: Kind(WouldBlock)", StoreBusy, "left no name"),
        ("something new", StoreDamaged, "something new"),
    ],
)
def test_what_the_engine_says_is_understood(text: str, kind: type, says: str) -> None:
    """The engine's bare exceptions are told apart by their text."""
    error = translate(Exception(text), Path("/m"), "open")
    assert type(error) is kind
    assert says in str(error)


def test_other_exceptions_pass() -> None:
    """A programming error is not taken for a fault of the store."""
    for exc in (ValueError("x"), KeyboardInterrupt()):
        assert translate(exc, Path("/m"), "open") is exc


async def test_the_owner_file_is_readable(tmp_path: Path) -> None:
    """While the folder is held, `owner.lock` says by whom, whatever a killed owner left in it."""
    (tmp_path / "owner.lock").write_text("x" * 1000)
    store = EdgeStore(tmp_path)
    await store.count("tools")
    assert json.loads((tmp_path / "owner.lock").read_text())["pid"] == os.getpid()
    await store.close()
