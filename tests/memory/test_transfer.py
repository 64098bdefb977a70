"""Copying a memory from one store to another."""

import math
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import InputError, StoreError, StoreMismatch
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.backends.server import ServerStore
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.records import Case
from mem2evolve.memory.store import COLLECTIONS, Collection, MemoryStore, Record
from mem2evolve.memory.transfer import compare, transfer

from .bundles import expert, lesson, run, tool
from .conftest import WordsEmbedder

MANY = 150
"""Lessons: more than two pages."""
ODD = Case(args={"a": 2**70, "b": "\ud800"}, expected=math.inf, origin="task")


class Dying:
    """A store that ends after some writes, as a killed program does."""

    def __init__(self, inner: MemoryStore, writes: int) -> None:
        self._inner, self._left = inner, writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """Write, or end."""
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        self.wrote = [record.id for record in records]
        await self._inner.put(collection, records)


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[MemoryStore]:
    """A folder with records of every kind."""
    store = EdgeStore(tmp_path / "source")
    memory = Memory(store, WordsEmbedder())
    await memory.put(tool(), tool(name="odd", cases=(ODD,)), expert(), run())
    await memory.put(*(lesson(title=f"Lesson {n}") for n in range(MANY)))
    yield store
    await store.close()


@pytest.fixture(params=["edge", "memory", pytest.param("server", marks=pytest.mark.qdrant)])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore]:
    """An empty store."""
    store: MemoryStore
    if request.param == "edge":
        store = EdgeStore(tmp_path / "target")
    elif request.param == "memory":
        store = ServerStore(location=":memory:")
    else:
        store = ServerStore(
            url=os.environ["QDRANT_URL"],
            api_key=os.environ.get("QDRANT_API_KEY"),
            prefix=f"test_{uuid.uuid4().hex}_",
        )
    yield store
    await store.close()


async def contents(store: MemoryStore) -> dict[str, Any]:
    """Return all payloads by id, and the manifest."""
    found: dict[str, Any] = {"manifest": await store.read_manifest()}
    for collection in COLLECTIONS:
        after: str | None = None
        while True:
            page, after = await store.scroll(collection, after=after)
            found |= {f"{collection} {row.id}": row.payload for row in page}
            if after is None:
                break
    return found


async def test_everything_is_copied(source: MemoryStore, target: MemoryStore) -> None:
    """Payloads exactly, vectors to single precision, so that recall answers the same."""
    told: list[tuple[str, int, int]] = []
    before = await contents(source)
    found = await transfer(source, target, tell=lambda *one: told.append(one))

    assert found.total == found.missing == {
        "tools": 2, "agents": 1, "experiences": MANY, "runs": 1,
    }  # fmt: skip
    assert await contents(target) == await contents(source) == before
    assert told[-1] == ("compared", MANY + 4, MANY + 4)
    ours, theirs = Memory(source, WordsEmbedder()), Memory(target, WordsEmbedder())
    asked = [await one.recall_lessons("Lesson 7", scope="agent", k=5) for one in (ours, theirs)]
    assert {key.id: pytest.approx(score, abs=1e-5) for key, score in asked[0]} == {
        key.id: score for key, score in asked[1]
    }


async def test_a_second_copy_writes_nothing(source: MemoryStore, target: MemoryStore) -> None:
    """What is equal is left alone, and so is what the target has beside it."""
    await transfer(source, target)
    await Memory(target, WordsEmbedder()).put(lesson(title="Theirs"))
    again = await transfer(source, Dying(target, 0))

    assert again.left == 0
    assert await target.count("experiences") == MANY + 1


@pytest.mark.parametrize("writes", range(6))
async def test_broken_off_it_goes_on(source: MemoryStore, target: MemoryStore, writes: int) -> None:
    """After any number of writes: the next call copies only what is missing."""
    with pytest.raises(KeyboardInterrupt):
        await transfer(source, Dying(target, min(writes, 5)))
    there = sum([await target.count(one) for one in COLLECTIONS])
    found = await transfer(source, target)

    assert found.left == MANY + 4 - there
    assert await contents(target) == await contents(source)


async def test_a_target_that_differs_is_refused(source: MemoryStore, target: MemoryStore) -> None:
    """Nothing is written, not even what is missing; told to, it replaces them."""
    await transfer(source, target)
    await target.delete("agents", [expert().id])
    theirs = Memory(target, WordsEmbedder())
    await theirs.set_status("tool", tool().id, "quarantined", "faulted there")
    before = await contents(target)
    with pytest.raises(StoreMismatch, match=f"1 of these records .* tools {tool().id}") as error:
        await transfer(source, target)
    assert "--overwrite" in error.value.hint
    assert await contents(target) == before

    await transfer(source, target, overwrite=True)
    assert await contents(target) == await contents(source)


async def test_another_vector_differs(source: MemoryStore, target: MemoryStore) -> None:
    """The payload is not all: a record found by another vector is another."""
    await transfer(source, target)
    [row] = await target.get("tools", [tool().id])
    await target.put("tools", [Record(id=row.id, vector=[1.0] * 64, payload=row.payload)])

    assert (await compare(source, target)).differing["tools"] == 1


@pytest.mark.parametrize(
    "change",
    [{"embedding": "other"}, {"dim": 3}, {"schema_version": 99}, {"card_version": 99}],
)
async def test_a_target_made_otherwise_is_refused(
    source: MemoryStore, target: MemoryStore, change: dict[str, Any]
) -> None:
    """Another model, dimension or version: also with --overwrite, since its vectors do not compare."""
    manifest = {**(await source.read_manifest() or {}), **change}
    await target.write_manifest(manifest)
    with pytest.raises(StoreMismatch, match="The target was made with"):
        await transfer(source, target, overwrite=True)
    assert await contents(target) == {"manifest": manifest}


async def test_a_source_of_a_later_version_is_refused(
    source: MemoryStore, target: MemoryStore
) -> None:
    """Its records are not understood here."""
    await source.write_manifest({**(await source.read_manifest() or {}), "schema_version": 99})
    with pytest.raises(StoreMismatch, match="schema version 99"):
        await transfer(source, target)
    assert await target.read_manifest() is None


async def test_records_without_a_manifest_are_not_joined(
    source: MemoryStore, target: MemoryStore
) -> None:
    """Nobody knows what made their vectors; the length alone says nothing."""
    stray = Record(id=str(uuid.uuid4()), vector=[1.0, 0.0], payload={})
    await target.put("agents", [stray])
    with pytest.raises(StoreMismatch, match="records in agents"):
        await transfer(source, target)
    assert await target.count("agents") == 1
    assert await target.read_manifest() is None


async def test_nothing_to_copy(target: MemoryStore, tmp_path: Path) -> None:
    """An empty memory is no success."""
    empty = EdgeStore(tmp_path / "empty")
    with pytest.raises(InputError, match="nothing to copy"):
        await transfer(empty, target)
    await empty.close()


class Forgetful(Dying):
    """A store that loses what it acknowledged."""

    async def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """Write all but one."""
        await self._inner.put(collection, records[1:] if collection == "experiences" else records)


async def test_a_copy_that_is_not_equal_is_found_out(
    source: MemoryStore, target: MemoryStore
) -> None:
    """It is compared at the end, whatever the target said."""
    with pytest.raises(StoreError, match=r"experiences is not equal: 3 records are missing, 0"):
        await transfer(source, Forgetful(target, -1))
