"""Deleting with what came of it: nothing that stays names what is gone, also when it was broken off."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mem2evolve.errors import InputError, NotFoundError
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.care.cascade import plan_deletion
from mem2evolve.memory.care.deletion import Deletion, Step, carry_out, steps_of
from mem2evolve.memory.care.snapshot import Snapshot, take_snapshot
from mem2evolve.memory.care.targets import Target, find_target
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.projection import write_projection
from mem2evolve.memory.records import AgentRecord, ExperienceRecord, RunRecord, ToolRecord
from mem2evolve.memory.rows import AnyRecord

from .conftest import WordsEmbedder
from .made import expert, lesson, run, snapshots, tool, went


def every(snapshot: Snapshot) -> dict[str, AnyRecord]:
    """Return the records by id."""
    return {one.id: one for one in (*snapshot.kept, *snapshot.runs)}


def snapshot_of(records: Iterable[AnyRecord]) -> Snapshot:
    """Return records as a snapshot."""
    found = list(records)

    def of(kind: type) -> Any:
        return tuple(one for one in found if isinstance(one, kind))

    return Snapshot(
        tools=of(ToolRecord),
        agents=of(AgentRecord),
        lessons=of(ExperienceRecord),
        runs=of(RunRecord),
    )


def applied(snapshot: Snapshot, steps: Iterable[Step]) -> Snapshot:
    """Return what a store holds after these writes."""
    kept = every(snapshot)
    for step in steps:
        kept |= {record.id: record for key, record in step.written if key in kept}
        for key in step.deleted:
            kept.pop(key, None)
    return snapshot_of(kept.values())


def single(steps: Iterable[Step]) -> list[Step]:
    """Return the same writes one record at a time."""
    return [
        part
        for step in steps
        for part in (
            *(Step(written=(one,)) for one in step.written),
            *(Step(kind=step.kind, deleted=(key,)) for key in step.deleted),
        )
    ]


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a record, wherever it stands."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


def mentions(snapshot: Snapshot, ids: Iterable[str]) -> set[str]:
    """Return which of some ids are still named somewhere."""
    wanted = set(ids)
    return {
        text
        for one in every(snapshot).values()
        for text in texts(json.loads(one.model_dump_json()))
        if text in wanted
    }


def plan_for(snapshot: Snapshot, key: str) -> Deletion:
    """Return the plan for one id."""
    is_run = key in {one.id for one in snapshot.runs}
    return plan_deletion(snapshot, **{"runs" if is_run else "kept": [key]})


@st.composite
def deletions(draw: st.DrawFn) -> tuple[Snapshot, str]:
    """Draw a memory and something in it."""
    snapshot = draw(snapshots())
    return snapshot, draw(st.sampled_from(sorted(every(snapshot))))


@settings(deadline=None, max_examples=150)
@given(deletions())
def test_nothing_names_what_is_gone(drawn: tuple[Snapshot, str]) -> None:
    """Whatever is deleted from whatever memory: ids that are gone stand nowhere, in no field."""
    snapshot, key = drawn
    plan = plan_for(snapshot, key)
    after = applied(snapshot, steps_of(plan))
    gone = every(snapshot).keys() - every(after).keys()

    assert key in gone
    assert mentions(after, gone) == set()
    renamed = [one for one in plan.changed if one.id != one.record.id]
    assert gone == {one.id for one in plan.gone} | {one.id for one in renamed}
    assert len(every(after)) == len(every(snapshot)) - len(plan.gone)
    assert {one.id for one in after.runs} == {one.id for one in snapshot.runs} - {key}


@settings(deadline=None, max_examples=150)
@given(deletions(), st.data())
def test_broken_off_anywhere_it_is_finished_by_asking_again(
    drawn: tuple[Snapshot, str], data: st.DataObject
) -> None:
    """After any number of single writes, the same deletion ends where it would have."""
    snapshot, key = drawn
    writes = single(steps_of(plan_for(snapshot, key)))
    cut = data.draw(st.integers(0, len(writes)))
    broken = applied(snapshot, writes[:cut])
    missing = every(broken).keys() ^ every(snapshot).keys()
    was_run = key in {one.id for one in snapshot.runs}
    again = plan_deletion(broken, **{"runs" if was_run else "kept": [key]})
    end = applied(broken, steps_of(again))

    whole = every(applied(snapshot, writes))
    assert every(end).keys() == whole.keys(), missing
    assert mentions(end, every(snapshot).keys() - whole.keys()) == set()
    assert every(end) == whole


@settings(deadline=None, max_examples=30)
@given(snapshots())
def test_the_memory_drawn_is_whole(snapshot: Snapshot) -> None:
    """Else the properties above would say little."""
    ids = every(snapshot).keys()
    assert {one.run_id for one in snapshot.kept if one.run_id} <= {one.id for one in snapshot.runs}
    assert {one.supersedes for one in snapshot.kept if one.supersedes} <= ids


def test_a_run_takes_what_it_alone_taught_and_made() -> None:
    """A lesson with other evidence stays, told as another run's, and is named by its new id everywhere."""
    first, second = run(1), run(2)
    own, shared = lesson("own", run_id=first.id), lesson("shared", run_id=first.id)
    made, other = tool("made", run_id=first.id), tool("other", run_id=second.id)
    user = expert(tools=("made", "other"), run_id=second.id)
    first = first.model_copy(update={"learned": (own.id, shared.id), "assets": (made.id,)})
    second = second.model_copy(
        update={
            "learned": (shared.id,),
            "lessons": (own.id, shared.id),
            "assets": (made.id, user.id),
        }
    )
    heir = lesson("heir", run_id=second.id, supports=(own.id, shared.id))
    snapshot = snapshot_of([first, second, own, shared, made, other, user, heir])
    plan = plan_deletion(snapshot, runs=[first.id])
    after = applied(snapshot, steps_of(plan))

    assert [(one.name, one.why) for one in plan.gone] == [
        ("own", "only run 00000000 taught it"),
        ("made v1", "made by run 00000000"),
        ("t1", "asked for"),
    ]
    told = next(one for one in after.lessons if one.title == "shared")
    assert (told.run_id, told.id != shared.id) == (second.id, True)
    [left] = after.runs
    [knows] = after.agents
    assert (left.learned, left.lessons) == ((told.id,), (told.id,))
    assert (knows.tools, left.assets) == (("other",), (knows.id,))
    assert next(one for one in after.lessons if one.title == "heir").supports == (told.id,)


def test_an_edit_keeps_the_evidence_of_what_it_replaced() -> None:
    """A lesson that a person reworded goes with the one run that taught the first words."""
    taught = run(1)
    old = lesson("old", run_id=taught.id, status="superseded")
    new = lesson("new", run_id=taught.id, supersedes=old.id)
    taught = taught.model_copy(update={"learned": (old.id,)})
    plan = plan_deletion(snapshot_of([taught, old, new]), runs=[taught.id])
    assert {one.name for one in plan.gone} == {"old", "new", "t1"}


def test_the_chain_of_versions_is_closed() -> None:
    """A version supersedes the next older one; nothing is activated, and the way back is told."""
    one = tool(version=1, status="superseded")
    two = tool(version=2, status="superseded", supersedes=one.id, code="2")
    three = tool(version=3, supersedes=two.id, code="3")
    plan = plan_deletion(snapshot_of([one, two, three]), kept=[two.id])
    [(key, changed, _)] = plan.changed
    assert (key, changed.supersedes) == (three.id, one.id)  # type: ignore[union-attr]
    assert plan.notes == ()

    plan = plan_deletion(snapshot_of([one, two, three]), kept=[three.id])
    [note] = plan.notes
    assert "`mem2evolve tools activate word_count@v2 --because …`" in note
    assert plan.changed == ()


def test_a_tool_takes_the_lesson_from_its_making() -> None:
    """Unless another tool was made of the same wish in that run, or another run taught it as well."""
    by, other = run(1), run(2)
    made = tool(run_id=by.id)
    drawn = lesson("made", scope="tool", learned_from=f"wanted: {made.description}", run_id=by.id)
    free = lesson("free", scope="tool", learned_from="wanted: something else", run_id=by.id)
    by = by.model_copy(update={"learned": (drawn.id, free.id)})
    snapshot = snapshot_of([by, other, made, drawn, free])
    assert [one.name for one in plan_deletion(snapshot, kept=[made.id]).gone] == [
        *("made", "word_count v1")
    ]
    better = tool(version=2, code="2", run_id=by.id)
    snapshot = snapshot_of([by, other, made, better, drawn, free])
    assert [one.name for one in plan_deletion(snapshot, kept=[made.id]).gone] == ["word_count v1"]
    taught = other.model_copy(update={"learned": (drawn.id,)})
    snapshot = snapshot_of([by, taught, made, drawn, free])
    assert [one.name for one in plan_deletion(snapshot, kept=[made.id]).gone] == ["word_count v1"]


def test_a_run_without_a_record_takes_what_it_made() -> None:
    """It was broken off; its candidates are there, its record is not."""
    made = tool(run_id="unrecorded", status="candidate")
    plan = plan_deletion(snapshot_of([made]), runs=["unrecorded"])
    assert [one.name for one in plan.gone] == ["word_count v1"]


@settings(deadline=None, max_examples=3, phases=[Phase.generate])
@given(drawn=deletions())
async def test_a_store_ends_as_planned(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[Snapshot, str]
) -> None:
    """What is read back is what the writes say, vectors of renamed records included."""
    snapshot, key = drawn
    async with Memory(EdgeStore(tmp_path_factory.mktemp("m")), WordsEmbedder()) as memory:
        await memory.put(*every(snapshot).values())
        before = await take_snapshot(memory)
        plan = plan_for(before, key)
        await carry_out(memory, plan, None)
        after = await take_snapshot(memory)
        assert every(after) == every(applied(before, steps_of(plan)))


async def test_files_go_with_their_tool(tmp_path: Path) -> None:
    """Those that a person has edited stay, and are named."""
    tools_dir = tmp_path / "tools"
    plain, edited = tool("plain", code="1"), tool("edited", code="2")
    folders = [write_projection(tools_dir, one) for one in (plain, edited)]
    (folders[1] / "tool.py").write_text("mine")
    async with Memory(EdgeStore(tmp_path / "m"), WordsEmbedder()) as memory:
        await memory.put(plain, edited)
        plan = plan_deletion(await take_snapshot(memory), kept=[plain.id, edited.id])
        left = await carry_out(memory, plan, tools_dir)
        assert await memory.count("tool") == 0
    assert [one.name for one in left] == ["edited"]
    assert [folder.exists() for folder in folders] == [False, True]


def test_what_a_person_may_mean() -> None:
    """A name is all versions of an asset; NAME@v2 one; anything else the start of an id."""
    one, two = tool(version=1, status="superseded"), tool(version=2, code="2")
    away = tool("away", namespace="elsewhere")
    given_tool = tool("python", origin="builtin")
    begun, said = run(1), lesson()
    snapshot = snapshot_of([one, two, away, given_tool, expert(), begun, said])
    assert find_target(snapshot, "word_count", None).kept == (one.id, two.id)
    assert find_target(snapshot, "word_count@v2", None).kept == (two.id,)
    assert find_target(snapshot, two.id[:8], None).kept == (two.id,)
    assert find_target(snapshot, said.id[:9], None).kept == (said.id,)
    assert find_target(snapshot, begun.id, None).runs == (begun.id,)
    assert find_target(snapshot, away.id, None) == Target(what="tool away v1", kept=(away.id,))
    assert find_target(snapshot, "abcd", None, ["abcdef"]).runs == ("abcdef",)
    with pytest.raises(NotFoundError) as missing:
        find_target(snapshot, "away", None)
    assert "--namespace elsewhere" in missing.value.hint
    for wanted in ("", said.id[:3], "nothing", "word_count@v9"):
        with pytest.raises(NotFoundError):
            find_target(snapshot, wanted, None)
    with pytest.raises(InputError, match="builtin tool: the next run would put it back"):
        find_target(snapshot, "python", None)
    both = snapshot_of([tool("same"), expert("same")])
    with pytest.raises(NotFoundError, match="names a tool and an expert"):
        find_target(both, "same", None)


def test_history_forgets_the_run_not_the_reason() -> None:
    """Why a status changed stays readable."""
    gone, other = run(1), run(2)
    line = went("active", "passed its gate").model_copy(update={"run_id": gone.id})
    kept = tool(run_id=other.id, history=(line,))
    plan = plan_deletion(snapshot_of([gone, other, kept]), runs=[gone.id])
    [change] = plan.changed
    [told] = change.record.history  # type: ignore[union-attr]
    assert (told.reason, told.run_id) == ("passed its gate", "")
