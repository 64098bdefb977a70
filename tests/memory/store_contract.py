"""What every `MemoryStore` does. Each back-end runs this; the fixture `store` names them."""

import asyncio
import json
import math
import random
import uuid
from typing import Any

import pytest

from mem2evolve.errors import StoreMismatch
from mem2evolve.memory.store import INDEXED, Collection, MemoryStore, Record

ODD_VALUES = [
    2**70, -(2**70), 1.0, 1, True, None, "", "a\x00b", "\ud800", {"": [[]], "a.b": {}}, 1e300, 0.1,
    float("inf"), [float("-inf")], "ü", 5e-324,
]  # fmt: skip


def make(seed: int, **payload: Any) -> Record:
    """Return a record with a vector and an id of its own."""
    rng = random.Random(seed)  # noqa: S311 - test data
    vector = [rng.uniform(-1, 1) for _ in range(8)]
    norm = math.sqrt(sum(x * x for x in vector))
    key = str(uuid.UUID(int=rng.getrandbits(128)))
    return Record(id=key, vector=[x / norm for x in vector], payload=payload)


async def everything(
    store: MemoryStore, collection: Collection, *, page: int = 3, where: Any = None
) -> list[Record]:
    """Read all pages."""
    found: list[Record] = []
    after: str | None = None
    while True:
        rows, after = await store.scroll(collection, where=where, limit=page, after=after)
        found += rows
        if after is None:
            return found


async def test_a_new_store_is_empty(store: MemoryStore) -> None:
    """Nothing is found before anything was written, and reading makes nothing."""
    for collection, fields in INDEXED.items():
        assert await store.get(collection, [make(1).id]) == []
        assert await store.search(collection, [1.0] * 8) == []
        assert await store.scroll(collection) == ([], None)
        assert await store.count(collection) == 0
        assert await store.facet(collection, fields[0]) == {}
        await store.delete(collection, [make(1).id])
    assert await store.read_manifest() is None


async def test_what_is_put_comes_back(store: MemoryStore) -> None:
    """Ids, payloads and vectors come back, in the order asked for."""
    rows = [make(n, name=f"n{n}") for n in range(5)]
    await store.put("tools", rows)
    found = await store.get("tools", [rows[3].id, str(uuid.UUID(int=7)), rows[0].id])
    assert [row.id for row in found] == [rows[3].id, rows[0].id]
    assert [row.payload for row in found] == [rows[3].payload, rows[0].payload]
    back = await store.get("tools", [row.id for row in rows[::-1]])
    assert [row.id for row in back] == [row.id for row in rows[::-1]]
    assert found[0].vector == pytest.approx(rows[3].vector, abs=1e-6)


async def test_payloads_are_exact(store: MemoryStore) -> None:
    """Every JSON value comes back as it was, also in indexed fields; 1 and 1.0 stay apart."""
    payload = {"name": "odd \ud800", "namespace": "", "values": ODD_VALUES}
    row = make(1, **payload)
    await store.put("tools", [row])
    [found] = await store.get("tools", [row.id])
    assert json.dumps(found.payload) == json.dumps(payload)
    assert await store.count("tools", where={"name": "odd \ud800"}) == 1
    assert await store.count("tools", where={"namespace": ""}) == 1


async def test_putting_again_replaces(store: MemoryStore) -> None:
    """The same id is the same record, also twice in one call; the last one stays."""
    row = make(1, name="old", status="active")
    other = Record(id=row.id.upper(), vector=row.vector, payload={"name": "new"})
    await store.put("tools", [row])
    await store.put("tools", [row, other])
    [found] = await everything(store, "tools")
    assert found.payload == {"name": "new"}
    assert await store.count("tools", where={"status": "active"}) == 0


async def test_collections_are_apart(store: MemoryStore) -> None:
    """A record is found in its own collection only."""
    row = make(1, namespace="x")
    await store.put("tools", [row])
    assert await store.get("agents", [row.id]) == []
    assert await store.count("tools") == 1


async def test_search_finds_the_closest(store: MemoryStore) -> None:
    """Hits are sorted by cosine similarity, exact, at most `limit` of those that fit."""
    rows = [make(n, name=f"n{n}", status="active" if n % 2 else "retired") for n in range(40)]
    await store.put("tools", rows)
    query = make(99).vector

    def cosine(row: Record) -> float:
        return sum(a * b for a, b in zip(query, row.vector, strict=True))

    expected = sorted((r for r in rows if r.payload["status"] == "active"), key=cosine)[::-1][:7]
    hits = await store.search("tools", query, where={"status": "active"}, limit=7)
    assert [hit.id for hit in hits] == [row.id for row in expected]
    assert [hit.score for hit in hits] == pytest.approx([cosine(r) for r in expected], abs=1e-5)
    assert hits[0].payload == expected[0].payload
    assert await store.search("tools", query, limit=0) == []


async def test_scroll_reads_everything_once(store: MemoryStore) -> None:
    """Pages do not overlap, leave nothing out, and are the same the next time."""
    rows = [make(n, namespace="a" if n < 8 else "b") for n in range(11)]
    await store.put("agents", rows)
    found = await everything(store, "agents")
    assert sorted(row.id for row in found) == sorted(row.id for row in rows)
    assert await everything(store, "agents", page=100) == found
    assert len(await everything(store, "agents", where={"namespace": "a"})) == 8


async def test_delete_removes(store: MemoryStore) -> None:
    """What is deleted is gone; what never was is passed over."""
    rows = [make(n, name="x") for n in range(3)]
    await store.put("tools", rows)
    await store.delete("tools", [rows[1].id, str(uuid.UUID(int=7)), "no uuid"])
    await store.delete("tools", [rows[1].id])
    assert {row.id for row in await everything(store, "tools")} == {rows[0].id, rows[2].id}
    assert await store.facet("tools", "name") == {"x": 2}


async def test_filters_equal_a_naive_filter(store: MemoryStore) -> None:
    """For random records and filters, count, scroll, search and facet agree with plain Python."""
    rng = random.Random(5)  # noqa: S311 - test data
    values = ["a", "b", "", "A", "a b", "ü"]
    rows = [
        make(
            n,
            namespace=rng.choice(values),
            status=rng.choice(values),
            assets=rng.sample(values, rng.randrange(4)),
        )
        for n in range(60)
    ]
    await store.put("runs", rows)
    for _ in range(40):
        where: dict[str, Any] = {
            field: rng.choice(values)
            if rng.random() < 0.5
            else rng.sample(values, rng.randrange(4))
            for field in rng.sample(["namespace", "status", "assets"], rng.randrange(4))
        }

        def fits(row: Record, where: dict[str, Any] = where) -> bool:
            for field, wanted in where.items():
                held = row.payload[field]
                have = {held} if isinstance(held, str) else set(held)
                if not have & ({wanted} if isinstance(wanted, str) else set(wanted)):
                    return False
            return True

        expected = {row.id for row in rows if fits(row)}
        assert await store.count("runs", where=where) == len(expected), where
        assert {r.id for r in await everything(store, "runs", where=where, page=7)} == expected
        hits = await store.search("runs", rows[0].vector, where=where, limit=100)
        assert {hit.id for hit in hits} == expected
        counted: dict[str, int] = {}
        for row in rows:
            for value in row.payload["assets"] if row.id in expected else ():
                counted[value] = counted.get(value, 0) + 1
        assert await store.facet("runs", "assets", where=where) == counted


async def test_only_indexed_fields_can_be_asked_for(store: MemoryStore) -> None:
    """Another field is a mistake of the caller, not an empty answer."""
    await store.put("tools", [make(1, code="x")])
    with pytest.raises(ValueError, match="code"):
        await store.count("tools", where={"code": "x"})
    with pytest.raises(ValueError, match="code"):
        await store.search("tools", [1.0] * 8, where={"code": "x"})
    with pytest.raises(ValueError, match="code"):
        await store.facet("tools", "code")


async def test_ids_are_uuids(store: MemoryStore) -> None:
    """Another id cannot be written, and is not found."""
    row = make(1)
    with pytest.raises(ValueError, match="not a UUID"):
        await store.put("tools", [row, Record(id="x", vector=row.vector, payload={})])
    assert await store.count("tools") == 0
    assert await store.get("tools", ["x", "../../etc"]) == []


async def test_a_vector_of_another_length_is_refused(store: MemoryStore) -> None:
    """Writing or searching with it says that the model is another one; nothing is written."""
    await store.put("tools", [make(1)])
    with pytest.raises(StoreMismatch, match="another length"):
        await store.put("tools", [Record(id=make(2).id, vector=[1.0, 0.0], payload={})])
    with pytest.raises(StoreMismatch, match="another length"):
        await store.search("tools", [1.0, 0.0])
    assert await store.count("tools") == 1


async def test_large_payloads_are_kept(store: MemoryStore) -> None:
    """A long transcript fits."""
    row = make(1, text="x" * (5 << 20))
    await store.put("runs", [row])
    [found] = await store.get("runs", [row.id])
    assert found.payload == row.payload


async def test_many_tasks_at_once(store: MemoryStore) -> None:
    """Concurrent writes and reads lose nothing, from the first call on."""
    rows = [make(n, name=f"n{n}") for n in range(50)]
    await asyncio.gather(
        *(store.put("tools", [row]) for row in rows),
        *(store.count("tools") for _ in rows),
    )
    assert await store.count("tools") == 50


async def test_the_manifest_is_kept(store: MemoryStore) -> None:
    """What was written last is read, and shows up in no collection."""
    await store.write_manifest({"embedding": "a", "dim": 3})
    await store.write_manifest({"embedding": "b", "dim": 3})
    assert await store.read_manifest() == {"embedding": "b", "dim": 3}


async def test_it_can_be_used_after_close(store: MemoryStore) -> None:
    """Closing twice is fine, and the next call opens it anew with what was in it."""
    row = make(1, name="x")
    await store.put("tools", [row])
    await store.close()
    await store.close()
    assert len(await store.get("tools", [row.id])) == 1
