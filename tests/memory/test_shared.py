"""One folder, many processes: who owns it, who takes over, and what is never lost."""

import asyncio
import contextlib
import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from mem2evolve.errors import StoreBusy, StoreDamaged, StoreUnavailable
from mem2evolve.memory.backends import access, remote
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.backends.wire import Lost
from mem2evolve.memory.store import Record

from .processes import HOLDER, WRITER, Child, owner_pid, start, write_to

ID_CHARS = 36


def row(name: str) -> Record:
    """Return a record."""
    return Record(id=str(uuid.uuid4()), vector=[1.0, 2.0], payload={"name": name})


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Child]:
    """Another process that owns `tmp_path / "memory"`; one record is in it."""
    child = start(HOLDER, str(tmp_path / "memory"), str(uuid.uuid4()), "wait")
    assert child.line() == "ready"
    yield child
    child.process.send_signal(signal.SIGCONT)
    child.process.communicate(timeout=30)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a silent owner for a moment only."""
    monkeypatch.setattr(access, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(remote, "SILENCE_SECONDS", 0.5)


async def test_threads_and_tasks_share_a_connection(holder: Child, tmp_path: Path) -> None:
    """Eight threads and fifty tasks write and read through another process: exact counts."""
    store = EdgeStore(tmp_path / "memory")

    async def some(name: str, n: int) -> None:
        for _ in range(n):
            await store.put("tools", [row(name)])
            await store.count("tools")

    threads = [threading.Thread(target=lambda: asyncio.run(some("thread", 10))) for _ in range(8)]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(some("task", 3) for _ in range(50)))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert await store.facet("tools", "name") == {"held": 1, "thread": 80, "task": 150}
    assert owner_pid(tmp_path / "memory") == holder.pid
    await store.close()


async def test_four_processes_write_at_once(tmp_path: Path) -> None:
    """They begin together and end as they come, the owner among them: nothing is lost."""
    writers = [start(WRITER, str(tmp_path), "60") for _ in range(4)]
    told = [await asyncio.to_thread(w.process.communicate, timeout=100) for w in writers]
    acknowledged = [line for out, _ in told for line in out.splitlines()]
    store = EdgeStore(tmp_path)
    assert len(acknowledged) == 240
    assert len(await store.get("tools", acknowledged)) == await store.count("tools") == 240
    await store.close()


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
async def test_killed_owners_lose_nothing(tmp_path: Path, kills: int) -> None:
    """While three processes write, the owner is killed again and again; another takes over."""
    folder = tmp_path / "memory"
    files = [tmp_path / f"ids{n}" for n in range(kills + 3)]
    running = {child.pid: child for child in (write_to(file, folder) for file in files[:3])}
    victims: set[int] = set()
    for file in files[3:]:
        known = sum(f.stat().st_size for f in files if f.exists())
        deadline = time.monotonic() + 60
        while owner_pid(folder) in {0, *victims} or sum(
            f.stat().st_size for f in files if f.exists()
        ) < known + 10 * (ID_CHARS + 1):
            assert time.monotonic() < deadline, "nobody took over"
            await asyncio.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - test data
        pid = owner_pid(folder)
        if pid in running:
            victims.add(pid)
            victim = running.pop(pid)
            victim.kill()
            victim.wait()
            child = write_to(file, folder)
            running[child.pid] = child
    for child in running.values():
        child.kill()
        child.wait()
    lines = [x for f in files if f.exists() for x in f.read_text().splitlines()]
    acknowledged = [line for line in lines if len(line) == ID_CHARS]
    store = EdgeStore(folder)
    found = await store.get("tools", acknowledged)
    assert len(victims) >= kills - 1
    assert [record.payload["name"] for record in found] == acknowledged
    assert len(acknowledged) <= await store.count("tools") <= len(acknowledged) + len(files)
    await store.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_another_takes_over(holder: Child, tmp_path: Path, number: int) -> None:
    """When the owner is killed, its client owns the folder, with all that was acknowledged."""
    store = EdgeStore(tmp_path / "memory")
    await store.put("tools", [row("before")])
    holder.process.send_signal(number)
    async with asyncio.timeout(5):
        await store.put("tools", [row("after")])
    assert await store.facet("tools", "name") == {"held": 1, "before": 1, "after": 1}
    assert owner_pid(tmp_path / "memory") == os.getpid()
    await store.close()


async def test_an_owner_that_leaves_hands_over(holder: Child, tmp_path: Path) -> None:
    """The owner closes amid the writes of another process, which takes over: none is lost."""
    store = EdgeStore(tmp_path / "memory")
    rows = [row(str(n)) for n in range(100)]
    writing = asyncio.gather(*(store.put("tools", [one]) for one in rows))
    leaving = asyncio.to_thread(holder.process.communicate, timeout=30)
    await asyncio.gather(writing, leaving)
    assert holder.process.returncode == 0
    assert len(await store.get("tools", [one.id for one in rows])) == 100
    assert owner_pid(tmp_path / "memory") == os.getpid()
    await store.close()


@pytest.mark.usefixtures("impatient")
def wait_until_stopped(pid: int) -> None:
    """Wait until each thread of a process is stopped: until then one may still answer."""
    while True:
        stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
        if all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats):
            return
        time.sleep(0.01)


async def test_a_hung_owner_is_named(holder: Child, tmp_path: Path) -> None:
    """The refusal names pid, command, time and ways out. What was refused is not done later."""
    store, given_up = EdgeStore(tmp_path / "memory"), row("given up")
    assert await store.count("tools") == 1
    holder.process.send_signal(signal.SIGSTOP)
    await asyncio.to_thread(wait_until_stopped, holder.pid)
    for _ in range(2):
        with pytest.raises(StoreBusy, match="does not answer") as busy:
            await store.put("tools", [given_up])
    assert f"process {holder.pid} (" in str(busy.value)
    assert "-c" in str(busy.value)
    assert " since 20" in str(busy.value)
    assert "\n" not in str(busy.value)
    for way_out in (f"Stop process {holder.pid}", "MEM2EVOLVE_HOME", "QDRANT_URL"):
        assert way_out in busy.value.hint
    holder.process.send_signal(signal.SIGCONT)
    await store.put("tools", [row("later")])
    assert await store.facet("tools", "name") == {"held": 1, "later": 1}
    await store.close()


async def test_damage_is_told_to_the_others(holder: Child, tmp_path: Path) -> None:
    """A damaged file has the same type, text and hint in every process."""
    store = EdgeStore(tmp_path / "memory")
    (tmp_path / "memory" / "manifest.json").write_text("{")
    with pytest.raises(StoreDamaged, match=r"manifest\.json is not JSON") as damaged:
        await store.read_manifest()
    assert "Nothing was changed" in damaged.value.hint
    await store.close()


async def test_a_request_that_kills_owners_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not tried on one process after the other without end."""
    store, tries = EdgeStore(tmp_path), []

    def die(*_: object) -> int:
        tries.append(1)
        raise Lost("gone")

    await store.put("tools", [row("x")])
    monkeypatch.setattr("mem2evolve.memory.backends.engine.Engine.count", die)
    with pytest.raises(StoreUnavailable, match="lost 5 times"):
        await store.count("tools")
    assert len(tries) == 5
    monkeypatch.undo()
    assert await store.count("tools") == 1
    await store.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_forked_child_holds_no_connection(holder: Child, tmp_path: Path) -> None:
    """Neither of a client nor of an owner: else a dead owner would seem alive to its clients."""
    client, owner = EdgeStore(tmp_path / "memory"), EdgeStore(tmp_path / "own")
    await client.count("tools")
    await owner.count("tools")
    assert client._access is not None
    assert owner._access is not None
    end, service = client._access._end, owner._access._service
    assert isinstance(end, remote.Remote)
    assert service is not None
    peer = remote.Remote(service.path, patience=5)
    await asyncio.to_thread(peer.count, "tools", None)
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            copies = [end._sock, service._listener, *service._peers]
            os._exit(0 if len(copies) == 3 and all(s.fileno() == -1 for s in copies) else 1)
        os._exit(2)
    _, status = os.waitpid(pid, 0)  # noqa: ASYNC222 - it ends at once
    assert os.waitstatus_to_exitcode(status) == 0
    assert await client.count("tools") == 1
    assert await asyncio.to_thread(peer.count, "tools", None) == 0
    peer.close()
    await client.close()
    await owner.close()
