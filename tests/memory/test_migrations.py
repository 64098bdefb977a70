"""Stores of an older schema are taken along, by whoever meets them."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import StoreError, StoreMismatch
from mem2evolve.memory import migrations
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.backends.server import ServerStore
from mem2evolve.memory.manifest import SCHEMA_VERSION, Manifest
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.migrations import MIGRATIONS, migrate
from mem2evolve.memory.records import RunRecord
from mem2evolve.memory.rows import payload_of
from mem2evolve.memory.store import INDEXED, MemoryStore, Record

from .conftest import WordsEmbedder
from .processes import Child

FIRST = ("namespace", "status", "verdict", "assets", "won", "lessons", "helped")
"""What version 1 indexed of a run."""
LESSON = str(uuid.uuid4())
RUNS = [
    RunRecord(
        id=str(uuid.uuid4()), task=f"Task {n}", mode="full", model="m", learned=(LESSON,) * (n % 2)
    )
    for n in range(7)
]


async def write_first(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write runs as version 1 packed them."""
    with monkeypatch.context() as old:
        old.setitem(INDEXED, "runs", FIRST)  # type: ignore[arg-type]
        [vector] = await WordsEmbedder().embed(["task"])
        rows = []
        for run in RUNS:
            payload = {key: value for key, value in payload_of(run).items() if key != "confirmed"}
            rows.append(Record(id=run.id, vector=vector, payload=payload))
        await store.put("runs", rows)
        manifest = Manifest(embedding="words", dim=64, schema_version=1).to_json()
        await store.write_manifest(manifest)


@pytest.fixture(params=["edge", "remote", "memory"])
async def first(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MemoryStore]:
    """A store of version 1 on each back-end; "remote" is owned by another process."""
    made: MemoryStore = (
        ServerStore(location=":memory:") if request.param == "memory" else EdgeStore(tmp_path)
    )
    await write_first(made, monkeypatch)
    if request.param != "memory":
        await made.close()
    if request.param == "remote":
        owner: Child = request.getfixturevalue("keeper")
        assert owner.ask(f"open {tmp_path}") == "done"
    yield made
    await made.close()
    if request.param == "remote":
        assert request.getfixturevalue("keeper").ask(f"close {tmp_path}") == "done"


async def version_of(store: MemoryStore) -> Any:
    """Return the schema version that the store says it has."""
    return (await store.read_manifest() or {})["schema_version"]


async def test_old_runs_are_found_by_what_they_taught(
    first: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, no index copy names the lesson; after the first call each run is found, and is as it was."""
    where = {"learned": LESSON}
    assert await first.count("runs", where=where) == 0
    monkeypatch.setattr(migrations, "PAGE", 2)
    async with Memory(first, WordsEmbedder()) as memory:
        found = await memory.list("run", where, limit=None)
        assert {run.id for run in found} == {run.id for run in RUNS if run.learned}
        assert {run.id: run for run in await memory.list("run", limit=None)} == {
            run.id: run for run in RUNS
        }
        assert await first.facet("runs", "learned", where=where) == {LESSON: 3}
        assert await memory.confirmed([LESSON]) == {}
        assert await version_of(first) == SCHEMA_VERSION


class Breaking:
    """A store whose writes fail after so many."""

    def __init__(self, store: MemoryStore, writes: int) -> None:
        self._store, self._left = store, writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, *given: Any) -> None:
        """Write, or fail."""
        self._left -= 1
        if self._left < 0:
            raise StoreError("The disk broke.", hint="Mend it.")
        await self._store.put(*given)


async def test_one_broken_off_is_done_again(
    first: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version is raised last, so a second try goes through all of it."""
    monkeypatch.setattr(migrations, "PAGE", 2)
    broken: Any = Breaking(first, 2)
    with pytest.raises(StoreError, match="disk broke"):
        await Memory(broken, WordsEmbedder()).count("run")
    assert await version_of(first) == 1
    assert await Memory(first, WordsEmbedder()).count("run", {"learned": LESSON}) == 3
    assert await version_of(first) == SCHEMA_VERSION


async def test_another_model_leaves_an_old_store_as_it_is(first: MemoryStore) -> None:
    """It is refused before anything is rewritten."""
    with pytest.raises(StoreMismatch, match="embedding model"):
        await Memory(first, WordsEmbedder("other")).count("run")
    assert await version_of(first) == 1


async def test_a_later_schema_is_refused(store: MemoryStore) -> None:
    """And nothing is written."""
    later = Manifest(embedding="words", dim=64, schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(StoreMismatch, match="schema version"):
        await migrate(store, later)
    assert await store.read_manifest() is None


def test_the_steps_lead_to_this_version() -> None:
    """One for each version after the first, in order."""
    assert [step.to for step in MIGRATIONS] == [*range(2, SCHEMA_VERSION + 1)]
    assert all(step.name for step in MIGRATIONS)
