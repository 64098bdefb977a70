"""All vectors anew: beside the old ones, changed over in one step, and never mixed."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import ModelUnavailable, StoreBusy, StoreMismatch
from mem2evolve.memory import manifest as manifests
from mem2evolve.memory import reembed as module
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.backends.server import ServerStore
from mem2evolve.memory.manifest import Manifest
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.recall import Calibration, Need
from mem2evolve.memory.records import (
    AgentRecord,
    ExperienceRecord,
    RunRecord,
    ToolRecord,
    stable_id,
)
from mem2evolve.memory.reembed import Generations, reembed

from .conftest import WordsEmbedder
from .processes import HOLDER, start

OLD, NEW = "words", "longer"
SHM = Path("/dev/shm")  # noqa: S108 - folders in it are made by `tempfile`
TOOLS = [ToolRecord(name=f"tool_{n}", description=f"Does {n}.", input_schema={}) for n in range(9)]
OTHERS = [
    AgentRecord(name="Chess Analyst", expertise="Evaluates positions.", strategy="Look deep."),
    ExperienceRecord(
        scope="tool", title="t", description="d", applies_when="a", knowledge="k",
        outcome="success", run_id="r",
    ),
    RunRecord(id=stable_id("run"), task="A task", mode="full", model="m", learned=("x",)),
]  # fmt: skip
NEED = Need(kind="tool", name="tool_3", description="Does 3.")


class Longer(WordsEmbedder):
    """A model of another dimension, which may fail."""

    dim = 96

    def __init__(self, name: str = NEW, *, calls: int = 1000) -> None:
        super().__init__(name)
        self.left = calls

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed, or fail."""
        self.left -= 1
        if self.left < 0:
            raise ModelUnavailable("The model is gone.", hint="Wait.")
        return await super().embed(texts)


def quiet(_done: int, _total: int) -> None:
    """Nobody looks."""


@pytest.fixture(params=["edge", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Generations]:
    """Each back-end that a re-embedding works on, with records in it."""
    made: Generations = (
        EdgeStore(tmp_path / "memory", alone="which makes its vectors anew")
        if request.param == "edge"
        else ServerStore(location=":memory:")
    )
    await Memory(made, WordsEmbedder()).put(*TOOLS, *OTHERS)
    yield made
    await made.close()


async def check(store: Generations, embedder: WordsEmbedder) -> None:
    """All records are there, and found by this model's vectors."""
    await check_tools(store, embedder)
    memory = Memory(store, embedder)
    assert await memory.get("agent", OTHERS[0].id) == OTHERS[0]
    assert await memory.get("experience", OTHERS[1].id) == OTHERS[1]
    assert await memory.list("run", {"learned": "x"}) == [OTHERS[2]]


async def check_tools(store: Generations, embedder: WordsEmbedder) -> None:
    """All tools are there, and found by this model's vectors."""
    memory = Memory(store, embedder)
    assert {tool.id: tool for tool in await memory.list("tool")} == {
        tool.id: tool for tool in TOOLS
    }
    [[best, *_]] = await memory.recall_assets([NEED])
    assert (best.name, round(best.score, 3)) == ("tool_3", 1.0)
    [row] = await store.get("tools", [TOOLS[0].id])
    assert len(row.vector) == embedder.dim


async def test_every_record_gets_a_vector_of_the_new_model(
    store: Generations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else changes; the old model is refused afterwards, and there is a way back."""
    monkeypatch.setattr(module, "PAGE", 4)
    told: list[tuple[int, int]] = []
    done = await reembed(store, Longer(), lambda *at: told.append(at))

    assert (done.before, done.after, done.records) == (OLD, NEW, 12)
    assert (done.embedded, done.changed) == (12, True)
    assert told[-1] == (12, 12)
    await check(store, Longer())
    with pytest.raises(StoreMismatch, match="longer") as refused:
        await Memory(store, WordsEmbedder()).count("tool")
    assert "mem2evolve memory reembed" in refused.value.hint

    assert (await reembed(store, WordsEmbedder(), quiet)).changed
    await check(store, WordsEmbedder())
    assert (await store.read_manifest() or {})["generation"] == 2


async def test_nothing_is_done_twice(store: Generations) -> None:
    """A memory of this model already, or one that is empty, is left as it is."""
    await reembed(store, Longer(), quiet)
    before = await store.read_manifest()
    done = await reembed(store, Longer(), quiet)

    assert (done.changed, done.embedded) == (False, 0)
    assert await store.read_manifest() == before
    empty = await reembed(ServerStore(location=":memory:"), Longer(), quiet)
    assert (empty.before, empty.changed) == ("", False)


async def test_one_that_was_broken_off_goes_on(
    store: Generations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old vectors serve meanwhile, also changes; the second call embeds only what is lacking."""
    monkeypatch.setattr(module, "PAGE", 4)
    with pytest.raises(ModelUnavailable):
        await reembed(store, Longer(calls=3), quiet)  # the dimension, and two pages
    await check(store, WordsEmbedder())
    memory = Memory(store, WordsEmbedder())
    page, _ = await store.scroll("tools", limit=8)  # in the order in which they are copied
    await memory.set_status("tool", page[0].id, "active", "good")
    await memory.delete("tool", page[1].id)

    done = await reembed(store, Longer(), quiet)
    assert (done.records, done.embedded) == (11, 4 + 1)
    memory = Memory(store, Longer())
    assert await memory.count("tool") == 8
    assert await memory.get("tool", page[1].id) is None
    assert (await memory.list("tool", {"status": "active"}))[0].id == page[0].id


async def test_what_another_model_left_is_not_gone_on_with(
    store: Generations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a set of a third model is thrown away."""
    monkeypatch.setattr(module, "PAGE", 4)
    with pytest.raises(ModelUnavailable):
        await reembed(store, Longer("third", calls=3), quiet)
    done = await reembed(store, Longer(), quiet)
    assert done.embedded == 12
    await check(store, Longer())


async def test_a_calibration_goes_with_its_model(store: Generations) -> None:
    """It is kept when only the card text has another version."""
    memory = Memory(store, WordsEmbedder())
    await memory.keep_calibration(Calibration(delta=0.4, low=0.3, high=0.8))
    stored = await store.read_manifest()
    await store.write_manifest({**(stored or {}), "card_version": 0})
    with pytest.raises(StoreMismatch, match="card text") as refused:
        await Memory(store, WordsEmbedder()).count("tool")
    assert "mem2evolve memory reembed" in refused.value.hint

    assert (await reembed(store, WordsEmbedder(), quiet)).embedded == 12
    kept = Manifest.from_json(await store.read_manifest() or {})
    assert kept.calibration is not None
    assert kept.card_version == manifests.CARD_VERSION
    await reembed(store, Longer(), quiet)
    assert Manifest.from_json(await store.read_manifest() or {}).calibration is None


class Busy:
    """A store that somebody writes to all the time."""

    def __init__(self, store: Generations) -> None:
        self._store, self._n = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def scroll(self, collection: Any, **given: Any) -> Any:
        """Write something, and read on."""
        self._n += 1
        [row] = await self._store.get("tools", [TOOLS[0].id])
        payload = {**row.payload, "documentation": str(self._n)}
        await self._store.put("tools", [type(row)(id=row.id, vector=row.vector, payload=payload)])
        return await self._store.scroll(collection, **given)


async def test_others_who_never_stop_writing_are_not_overtaken(store: Generations) -> None:
    """Nothing that they wrote is lost: the old vectors stay in use."""
    busy: Any = Busy(store)
    with pytest.raises(StoreBusy, match="old vectors are still in use"):
        await reembed(busy, Longer(), quiet)
    assert (await store.read_manifest() or {}).get("generation", 0) == 0


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder without a disk behind it, where there is one: shards made by the dozen are slow on a disk."""
    if not os.access(SHM, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=SHM, prefix="mem2evolve-") as folder:
        yield Path(folder)


KILLED = """
import asyncio, os, shutil, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
left = int(sys.argv[2])

def deadly(real):
    def call(*given, **named):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    return call

from tests.memory.test_reembed import Longer, quiet
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.reembed import reembed

for owner, name in ((Path, "rename"), (Path, "replace"), (shutil, "rmtree")):
    setattr(owner, name, deadly(getattr(owner, name)))

async def main():
    store = EdgeStore(Path(sys.argv[1]), alone="which makes its vectors anew")
    await reembed(store, Longer(), quiet)
    await store.close()

asyncio.run(main())
"""
ROOT = str(Path(__file__).parents[2])


async def test_a_kill_between_any_two_changes_of_the_files_leaves_one_set_whole(
    in_memory: Path,
) -> None:
    """After each, the old or the new model finds everything, and a second call ends the work and cleans up."""
    ended: set[str] = set()
    for moment in range(100):
        folder = in_memory / str(moment)
        async with Memory(EdgeStore(folder), WordsEmbedder()) as memory:
            await memory.put(*TOOLS)
        killed = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", KILLED, str(folder), str(moment), ROOT],
            check=False,
            capture_output=True,
        )
        assert killed.returncode in (0, -signal.SIGKILL), killed.stderr.decode()
        found = (manifests.read_file(folder) or {})["embedding"]
        ended.add(found)
        store = EdgeStore(folder, alone="which is looked at")
        await check_tools(store, WordsEmbedder() if found == OLD else Longer())
        await reembed(store, Longer(), quiet)
        await check_tools(store, Longer())
        await store.close()
        left = {path.name for path in folder.iterdir()}
        assert left == {"generation-1", "manifest.json", "owner.lock"}
        if killed.returncode == 0:
            break
    assert moment >= 5
    assert ended == {OLD, NEW}


async def test_it_is_refused_while_another_process_has_the_memory(tmp_path: Path) -> None:
    """The holder is named, at once."""
    child = start(HOLDER, str(tmp_path), stable_id("held"), "wait")
    assert await asyncio.to_thread(child.line) == "ready"
    store = EdgeStore(tmp_path, alone="which makes its vectors anew")
    with pytest.raises(StoreBusy, match=f"process {child.pid} .*cannot be shared"):
        await reembed(store, Longer(), quiet)
    await store.close()
    await asyncio.to_thread(child.process.communicate, timeout=20)


async def test_nobody_else_gets_in_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in this process, and not from another one, which is told why."""
    monkeypatch.setattr("mem2evolve.memory.backends.access.PATIENCE_SECONDS", 0.2)
    alone = EdgeStore(tmp_path, alone="which makes its vectors anew")
    await alone.read_manifest()
    with pytest.raises(StoreBusy):
        await EdgeStore(tmp_path).count("tools")
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom mem2evolve.memory.backends import access, edge\n"
        "access.PATIENCE_SECONDS = 0.2\n"
        "try:\n    asyncio.run(edge.EdgeStore(Path(sys.argv[1])).count('tools'))\n"
        "except Exception as exc:\n    print(type(exc).__name__, exc)\n"
    )
    other = start(script, str(tmp_path))
    said = await asyncio.to_thread(other.line)
    await asyncio.to_thread(other.process.communicate, timeout=20)
    assert said.startswith("StoreBusy")
    assert "which makes its vectors anew" in said
    await alone.close()


async def test_a_program_that_knew_the_old_vectors_does_not_use_the_new_ones(
    tmp_path: Path,
) -> None:
    """It lost its owner, and meanwhile all vectors were made anew: it is stopped, not served nonsense."""
    child = start(HOLDER, str(tmp_path), TOOLS[0].id, "wait")
    assert await asyncio.to_thread(child.line) == "ready"
    program = EdgeStore(tmp_path)
    await program.delete("tools", [TOOLS[0].id])  # through the owner
    await asyncio.to_thread(child.process.communicate, timeout=20)
    held = await asyncio.to_thread(start, REEMBEDDER, str(tmp_path), ROOT)
    assert await asyncio.to_thread(held.line) == "done"
    await asyncio.to_thread(held.process.communicate, timeout=20)

    with pytest.raises(StoreMismatch, match="made anew meanwhile"):
        await program.count("tools")
    await program.close()
    assert await program.count("tools") == 0  # opened again, it begins anew
    await program.close()


REEMBEDDER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.memory.test_reembed import Longer, quiet
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.manifest import Manifest
from mem2evolve.memory.reembed import reembed

async def main():
    store = EdgeStore(Path(sys.argv[1]), alone="which makes its vectors anew")
    await store.write_manifest(Manifest(embedding="words", dim=2).to_json())
    await reembed(store, Longer(), quiet)
    await store.close()
    print("done", flush=True)

asyncio.run(main())
"""
