"""The memory as nodes use it, on every back-end."""

import asyncio
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import ConfigError, NotFoundError, StoreDamaged
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.backends.server import ServerStore
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.recall import UNCALIBRATED, Need, Usage
from mem2evolve.memory.records import (
    AgentRecord,
    Case,
    ExperienceRecord,
    RunRecord,
    Status,
    ToolRecord,
)
from mem2evolve.memory.store import MemoryStore, Record
from mem2evolve.settings import Settings

from .conftest import WordsEmbedder


def tool(name: str = "word_count", **fields: Any) -> ToolRecord:
    """Return a tool."""
    fields.setdefault("description", f"Does {name}.")
    return ToolRecord(name=name, input_schema={"type": "object"}, **fields)


def lesson(title: str = "Paginate", **fields: Any) -> ExperienceRecord:
    """Return a lesson."""
    values: dict[str, Any] = {
        "scope": "agent",
        "title": title,
        "description": f"about {title}",
        "applies_when": f"when {title}",
        "knowledge": "read all pages",
        "outcome": "success",
        "run_id": "r1",
    }
    return ExperienceRecord(**values | fields)


def run(**fields: Any) -> RunRecord:
    """Return a run."""
    return RunRecord(id=str(uuid.uuid4()), task="t", mode="full", model="m", **fields)


NEED = Need(kind="tool", name="word_count", description="Does word_count.")


async def test_records_come_back_equal(memory: Memory) -> None:
    """Every kind of record survives storage, numbers of any size included."""
    case = Case(args={"n": 2**80, "x": 1.0, "s": "\ud800"}, expected=[1, 1.0], origin="model")
    a_tool = tool(cases=(case,), code="def f(): ...")
    agent = AgentRecord(name="A", expertise="e", strategy="s", tools=("t",))
    a_lesson, a_run = lesson(), run(assets=("x",), tokens={"plan": {"calls": 1}})
    ids = await memory.put(a_tool, agent, a_lesson, a_run)
    assert ids == [a_tool.id, agent.id, a_lesson.id, a_run.id]
    back = await memory.get("tool", a_tool.id)
    assert back == a_tool
    assert back.digest == a_tool.digest
    assert await memory.get("agent", agent.id) == agent
    assert await memory.get("experience", a_lesson.id) == a_lesson
    assert await memory.get("run", a_run.id) == a_run
    assert await memory.get("run", a_tool.id) is None


async def test_put_embeds_in_one_batch(memory: Memory, words: WordsEmbedder) -> None:
    """All cards of a call go to the model at once; no records, no call."""
    await memory.put(tool("a"), lesson(), tool("b"))
    await memory.put()
    assert words.calls == [[tool("a").card, lesson().card, tool("b").card]]


async def test_put_again_keeps_the_status(memory: Memory) -> None:
    """A resumed run that writes its tool again does not undo what was decided since."""
    first = tool()
    await memory.put(first)
    await memory.set_status("tool", first.id, "active", "kept", "r1")
    later = first.model_copy(update={"created_at": "2099-01-01", "run_id": "r2"})
    await memory.put(later, later)
    found = await memory.get("tool", first.id)
    assert found is not None
    assert (found.status, found.created_at, found.run_id) == ("active", first.created_at, "")
    assert [change.reason for change in found.history] == ["kept"]
    assert await memory.count("tool") == 1


async def test_a_run_is_replaced(memory: Memory) -> None:
    """A run is written while it goes on; the last state counts."""
    going = run()
    await memory.put(going)
    await memory.put(going.model_copy(update={"status": "done", "verdict": "success"}))
    [found] = await memory.list("run")
    assert (found.status, found.verdict) == ("done", "success")


async def test_set_status_appends_to_the_history(memory: Memory) -> None:
    """Content, id and vector stay; each change is logged once, however often it is made."""
    record = tool(code="x = 1")
    await memory.put(record)
    await memory.set_status("tool", record.id, "active", "kept", "r1")
    for _ in range(2):
        changed = await memory.set_status("tool", record.id, "quarantined", "faulted", "r2")
    found = await memory.get("tool", record.id)
    assert found == changed
    assert changed.id == record.id
    assert [(c.status, c.reason, c.run_id) for c in changed.history] == [
        ("active", "kept", "r1"),
        ("quarantined", "faulted", "r2"),
    ]
    assert await memory.recall_assets([NEED]) == [[]]
    with pytest.raises(NotFoundError, match="no agent with the id"):
        await memory.set_status("agent", record.id, "active", "x")


async def test_find_by_name_gives_all_versions(memory: Memory) -> None:
    """Newest first, of that name and namespace only."""
    old, new = tool(version=1), tool(version=2, supersedes="x")
    await memory.put(old, tool("other"), new, tool(namespace="elsewhere", version=3))
    await memory.set_status("tool", old.id, "superseded", "v2")
    found = await memory.find_by_name("tool", "word_count")
    assert [(t.version, t.status) for t in found] == [(2, "candidate"), (1, "superseded")]
    assert [t.version for t in await memory.find_by_name("tool", "word_count", "elsewhere")] == [3]


async def test_list_is_newest_first(memory: Memory) -> None:
    """Filtered and cut after sorting; deleted ones are gone."""
    records = [tool(f"t{n}", created_at=f"2026-01-{n + 1:02}") for n in range(9)]
    await memory.put(*records)
    assert [t.name for t in await memory.list("tool", limit=3)] == ["t8", "t7", "t6"]
    assert [t.name for t in await memory.list("tool", {"name": ["t1", "t2"]})] == ["t2", "t1"]
    await memory.delete("tool", records[8].id, "no such")
    assert len(await memory.list("tool", limit=None)) == 8


async def test_recall_embeds_all_needs_at_once(memory: Memory, words: WordsEmbedder) -> None:
    """One call of the model per plan, and each need searches its own kind and namespace."""
    agent = AgentRecord(name="word_count", expertise="Does word_count.", strategy="s")
    mine, theirs = tool(), tool(namespace="theirs")
    await memory.put(mine, agent, theirs)
    words.calls.clear()
    needs = [NEED, Need(kind="agent", name="word_count", description="Does word_count.")]
    [tools], [agents] = await memory.recall_assets(needs)
    assert words.calls == [[need.card for need in needs]]
    assert (tools.id, tools.kind, tools.card) == (mine.id, "tool", mine.card)
    assert tools.score == pytest.approx(1.0, abs=1e-5)
    assert (agents.id, agents.kind) == (agent.id, "agent")
    [[found]] = await memory.recall_assets([NEED], namespace="theirs")
    assert found.id == theirs.id
    assert await memory.recall_assets([]) == []


async def test_only_recruitable_assets_are_recalled(memory: Memory) -> None:
    """Of all statuses only active and candidate, active first."""
    statuses: list[Status] = ["candidate", "active", "superseded", "quarantined", "retired"]
    await memory.put(*[tool(version=n + 1, status=status) for n, status in enumerate(statuses)])
    [found] = await memory.recall_assets([NEED])
    assert [c.status for c in found] == ["active", "candidate"]


async def test_recall_gives_five_and_the_closest_first(memory: Memory) -> None:
    """Similarity comes before everything else."""
    await memory.put(*[tool(f"{'x ' * n}word_count", status="active") for n in range(9)])
    await memory.put(tool(version=2))
    [found] = await memory.recall_assets([NEED])
    assert len(found) == 5
    assert found[0].version == 1
    assert found[1].version == 2
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)


async def test_wins_are_counted_from_runs(memory: Memory) -> None:
    """A use is a run with a verdict; of equally close tools the one that wins more is first."""
    good, bad, new = (tool(version=n, status="active") for n in (1, 2, 3))
    both = (good.id, bad.id)
    await memory.put(good, bad, new)
    await memory.put(
        run(assets=both, won=(good.id,), verdict="success"),
        run(assets=both, won=(good.id,), verdict="failure"),
        run(assets=both, won=(), verdict="abstained"),
        run(assets=both, status="running"),
        run(assets=both, won=both, verdict="success", namespace="elsewhere"),
    )
    [found] = await memory.recall_assets([NEED])
    assert [(c.version, c.uses, c.wins) for c in found] == [(1, 2, 2), (3, 0, 0), (2, 2, 0)]
    assert await memory.usage("tool") == {good.id: Usage(2, 2), bad.id: Usage(2, 0)}
    assert await memory.usage("tool", ids=[bad.id, new.id]) == {bad.id: Usage(2, 0)}
    assert await memory.usage("agent", ids=[]) == {}


async def test_lessons_are_recalled_by_scope(memory: Memory) -> None:
    """Active ones of the scope and namespace, at most k, none that is about something else."""
    wanted = lesson()
    await memory.put(
        wanted,
        lesson(scope="tool"),
        lesson(namespace="elsewhere"),
        lesson(run_id="r2", status="quarantined"),
        lesson("Zebra crossing"),
    )
    [(found, score)] = await memory.recall_lessons(wanted.card, scope="agent", k=1)
    assert found == wanted
    assert score == pytest.approx(1.0, abs=1e-5)
    assert await memory.recall_lessons("quantum chromodynamics", scope="agent", k=3) == []


async def test_lessons_that_helped_come_first(memory: Memory) -> None:
    """Among equally close lessons the record over runs decides."""
    one, two = lesson(run_id="r1"), lesson(run_id="r2")
    await memory.put(one, two)
    await memory.put(
        run(lessons=(one.id, two.id), helped=(two.id,), verdict="success"),
        run(lessons=(one.id,), verdict="failure"),
    )
    found = await memory.recall_lessons(one.card, scope="agent", k=2)
    assert [record.id for record, _ in found] == [two.id, one.id]


async def test_remember_writes_no_twin(memory: Memory) -> None:
    """What says the same is linked; another outcome, scope or namespace is another lesson."""
    first = lesson()
    assert await memory.remember(first) == (first.id, True)
    assert await memory.remember(first) == (first.id, False)
    assert await memory.remember(lesson(run_id="r2")) == (first.id, False)
    for other in (
        lesson(outcome="failure"),
        lesson(scope="tool"),
        lesson(namespace="elsewhere"),
        lesson("Zebra"),
    ):
        assert await memory.remember(other) == (other.id, True)
    assert await memory.count("experience") == 5


async def test_a_harmful_lesson_does_not_come_back(memory: Memory) -> None:
    """A quarantined lesson stands for its rewordings; a retired one does not."""
    first, again = lesson(), lesson(run_id="r2")
    await memory.remember(first)
    await memory.set_status("experience", first.id, "quarantined", "loses")
    assert await memory.remember(again) == (first.id, False)
    await memory.set_status("experience", first.id, "retired", "unused")
    assert await memory.remember(again) == (again.id, True)


async def test_a_record_of_another_version_is_named(store: MemoryStore, memory: Memory) -> None:
    """A record with fields that this version does not know is an error that names it."""
    record = tool()
    await memory.put(record)
    [row] = await store.get("tools", [record.id])
    await store.put(
        "tools", [Record(id=row.id, vector=row.vector, payload={**row.payload, "new": 1})]
    )
    with pytest.raises(StoreDamaged, match=f"The tool {record.id} cannot be read") as error:
        await memory.get("tool", record.id)
    assert "later version" in error.value.hint


def test_open_is_lazy(tmp_path: Path) -> None:
    """Opening makes no folder and loads no model; the settings choose the back-end."""
    memory = Memory.open(Settings(home=tmp_path / "home"))
    assert isinstance(memory._store, EdgeStore)
    assert memory.calibration.delta == 0.50
    remote = Memory.open(Settings(home=tmp_path, qdrant_url="http://x"), WordsEmbedder())
    assert isinstance(remote._store, ServerStore)
    assert remote.calibration == UNCALIBRATED
    assert not (tmp_path / "home").exists()
    with pytest.raises(ConfigError, match="nonsense"):
        Memory.open(Settings(home=tmp_path, embedding="nonsense"))


def test_a_memory_serves_several_event_loops(tmp_path: Path) -> None:
    """One memory works in one `asyncio.run` after the other, and after `close`."""
    memory = Memory.open(Settings(home=tmp_path), WordsEmbedder())
    asyncio.run(memory.put(tool("a")))
    asyncio.run(memory.put(tool("b")))
    asyncio.run(memory.close())
    assert asyncio.run(memory.count("tool")) == 2
    asyncio.run(memory.close())
    assert not [t for t in threading.enumerate() if t.name == "mem2evolve-memory"]


async def test_it_never_blocks_the_event_loop(tmp_path: Path) -> None:
    """No file, lock or sleep on the loop's thread, from opening to closing."""
    blockbuster = pytest.importorskip("blockbuster")
    memory = Memory.open(Settings(home=tmp_path))
    with blockbuster.blockbuster_ctx():
        record = tool()
        await memory.put(record, run(assets=(record.id,), verdict="success"))
        await memory.remember(lesson())
        await memory.recall_assets([NEED])
        await memory.recall_lessons("pages", scope="agent", k=1)
        await memory.set_status("tool", record.id, "active", "kept")
        await memory.list("tool", {"status": "active"})
        await memory.close()


async def test_a_fit_that_came_with_a_bundle_is_not_believed(memory: Memory) -> None:
    """Only what a run here confirmed is not asked again."""
    pairs = ("pair-of-ours", "pair-of-a-stranger")
    ours = run(confirmed=pairs[:1])
    await memory.put(ours, run(confirmed=pairs[1:], origin="imported"))

    assert await memory.confirmed(pairs) == {pairs[0]: ours.id}
