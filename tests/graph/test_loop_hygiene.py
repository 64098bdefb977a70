"""What the loop does for a memory worth having: evidence, links, contradictions, losers, namespaces."""

from typing import Any

import pytest

from mem2evolve.graph.context import Context
from mem2evolve.memory.care.snapshot import Ledger, take_snapshot
from mem2evolve.memory.records import ExperienceRecord, RunRecord
from mem2evolve.nodes.desk import Desk
from mem2evolve.nodes.life.losers import set_aside_losers
from mem2evolve.nodes.toolbox.registry import builtin_records

from ..memory.made import run as run_record
from .conftest import (
    EXPERT,
    LESSON,
    NEXT_TASK,
    TOOL,
    TOOL_LESSON,
    Agent,
    Cast,
    agent_record,
    call,
    first_run,
    lesson_record,
    plan_of,
    subtask,
    tool_record,
    wanted,
)
from .test_loop_corrections import says
from .test_loop_small import small
from .test_loop_verdicts import TROUBLE, impatient

__all__ = ["impatient", "small"]

CUBES = "What is the sum of the cubes of the whole numbers from 1 to 10?"
BOUNDS = {
    "title": "Mind the bounds",
    "applies_when": "A task names a range",
    "knowledge": "Ask whether the last number counts.",
    "learned_from": CUBES,
}
DENIAL = {**LESSON, "title": "By head", "knowledge": f"Never {LESSON['knowledge'].lower()}"}
NONE = {"why": "It adds something.", "opposite": 0}
FIRST = {"why": "They cannot both be followed.", "opposite": 1}


async def lessons(agent: Agent, **where: str) -> dict[str, ExperienceRecord]:
    """Return the lessons by title."""
    return {one.title: one for one in await agent.memory.list("experience", where)}


def next_run(**parts: Any) -> Cast:
    """Return the script of a run that recruits and does the next task."""
    plan = plan_of(subtask(NEXT_TASK, wanted()))
    return Cast(**{"plan": plan, "act": [call(20), "2870"], "second_answer": "2870", **parts})


async def test_two_runs_that_teach_the_same_are_one_lesson(agent: Agent) -> None:
    """The second, which is not shown the lesson, gives it another title; the third confirms it: both are evidence."""
    first = await agent.run(first_run())
    again = {**LESSON, "title": "Sums by a tool"}
    second = await agent.run(next_run(generalise=again), lessons_for_planning=0)
    third = await agent.run(next_run(), NEXT_TASK)

    found = await lessons(agent, scope="agent")
    assert list(found) == [LESSON["title"]]
    ledger = Ledger(await take_snapshot(agent.memory))
    evidence = ledger.evidence(found[LESSON["title"]])
    assert {run.id for run in evidence} == {first["run_id"], second["run_id"], third["run_id"]}


async def test_a_lesson_supports_the_one_it_was_built_on(agent: Agent) -> None:
    """Shown to the run, close, of the same outcome, and not the same."""
    known = lesson_record(**BOUNDS)
    unseen = lesson_record(**{**BOUNDS, "title": "Diagnosed"}, outcome="failure")
    await agent.seed(known, unseen)
    cast = first_run(contradicts=NONE)
    end = await agent.run(cast, lessons_for_planning=2)

    new = (await lessons(agent))[LESSON["title"]]
    assert (new.supports, new.contradicts) == ((known.id,), ())
    assert known.id in (await agent.record(end)).lessons
    [asked] = cast.heard("contradicts")
    assert f". {BOUNDS['applies_when']}: {BOUNDS['knowledge']}" in asked
    assert f"{LESSON['applies_when']}: {LESSON['knowledge']}" in asked


async def test_what_was_not_shown_is_not_supported(agent: Agent) -> None:
    """However close it is: the run did not build on it."""
    await agent.seed(lesson_record(**BOUNDS))
    await agent.run(first_run(contradicts=NONE), lessons_for_planning=0)
    assert (await lessons(agent))[LESSON["title"]].supports == ()


async def test_lessons_that_contradict_each_other_are_shown_together(agent: Agent) -> None:
    """The one that is recalled brings the other, with how each fared; neither is confirmed by the success."""
    known = lesson_record(**BOUNDS)
    await agent.seed(known)
    end = await agent.run(first_run(generalise=DENIAL, contradicts=FIRST))
    new = (await lessons(agent))["By head"]
    assert (new.supports, new.contradicts) == ((), (known.id,))
    assert (await agent.record(end)).learned[0] == new.id

    cast = next_run(generalise=LESSON, contradicts=NONE)
    end = await agent.run(cast, NEXT_TASK)
    for asked in (*cast.heard("plan"), cast.heard("act")[0]):
        assert DENIAL["knowledge"] in asked
        assert (
            f"{BOUNDS['knowledge']}\n  (This contradicts the lesson 1 above: that one has not been used, "
            "this one helped in 1 of 1 judged runs)" in asked
        )
    assert [one["id"] for one in end["lessons"]] == [new.id, known.id]
    assert set((await agent.record(end)).lessons) == {new.id, known.id}

    await agent.memory.set_status("experience", known.id, "superseded", "edited")
    cast = next_run()
    end = await agent.run(cast, NEXT_TASK)
    assert BOUNDS["knowledge"] not in cast.heard("plan")[0]
    assert "contradicts the lesson" not in cast.heard("plan")[0]


async def test_a_denial_is_no_evidence_for_what_it_denies(agent: Agent) -> None:
    """Though its card is as close as that of a twin."""
    known = lesson_record()
    await agent.seed(known)
    end = await agent.run(
        first_run(generalise={**DENIAL, "title": LESSON["title"]}, contradicts=FIRST)
    )

    assert [one["new"] for one in end["learned"]] == [True, True]
    assert known.id not in (await agent.record(end)).learned


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("trouble", [None, "server error"])
async def test_where_no_model_judges_the_words_decide(
    agent: Agent, request: pytest.FixtureRequest, trouble: str | None
) -> None:
    """A small model is not asked; one that is down costs no lesson."""
    parts: dict[str, Any] = {"generalise": DENIAL}
    if trouble:
        parts["contradicts"] = TROUBLE[trouble]
    else:
        request.getfixturevalue("small")
        parts |= {"tool": [first_run()._lines["tool"][0]] * 2}
    known = lesson_record(learned_from=CUBES)
    await agent.seed(known)
    await agent.run(first_run(**parts))

    assert (await lessons(agent))["By head"].contradicts == (known.id,)


def lost(count: int, **used: Any) -> list[RunRecord]:
    """Return runs that failed."""
    return [run_record(n, verdict="failure", **used) for n in range(count)]


async def test_what_loses_is_quarantined_when_the_run_ends(agent: Agent) -> None:
    """Tool, expert and lesson, with the figures as the reason; a built-in tool is not; once."""
    known, given = lesson_record(), builtin_records("default")[0]
    await agent.seed(tool_record(), agent_record(), known, given)
    used = (tool_record().id, agent_record().id, given.id)
    await agent.memory.put(*lost(9, assets=used, lessons=(known.id,)))
    end = await agent.run(Cast(plan=plan_of(), act=[call(), "384"], second_answer="UNKNOWN",
        judge={"evidence": f"{TOOL}(n=10) = 385", "verdict": "failure", "reason": "384"},
        diagnose_run={**LESSON, "title": "Copy it", "knowledge": "Copy the value."}, contradicts=NONE))  # fmt: skip

    assert await agent.statuses() == {f"{TOOL} v1": "quarantined", f"{EXPERT} v1": "quarantined"}
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    [expert] = await agent.memory.find_by_name("agent", EXPERT)
    harm = (await lessons(agent))[LESSON["title"]]
    for one, figures in ((tool, "1 of 10"), (expert, "1 of 10"), (harm, "0 of 10")):
        [change] = one.history
        assert change.reason.startswith(f"loses: {figures} judged runs won; ")
        assert change.run_id == end["run_id"]
    assert (await agent.memory.get("tool", given.id)).status == "active"

    desk = Desk(agent.resources, Context(), "distill")
    again = await set_aside_losers(desk, await agent.record(end))
    assert {one["name"] for one in again} == {f"{TOOL} v1", f"{EXPERT} v1", LESSON["title"]}
    assert (await agent.memory.find_by_name("tool", TOOL)) == [tool]


async def test_a_winner_and_an_unjudged_run_change_nothing(agent: Agent) -> None:
    """Four losses are not enough; an abstention counts for nothing."""
    await agent.seed()
    await agent.memory.put(*lost(4, assets=(tool_record().id,)))
    await agent.run(next_run(second_answer="UNKNOWN", judge={
        "evidence": "nothing", "verdict": "abstained", "reason": "?"}), NEXT_TASK)  # fmt: skip
    assert set((await agent.statuses()).values()) == {"active"}
    await agent.memory.put(*lost(9, assets=(tool_record().id,)))
    await agent.run(next_run(second_answer="UNKNOWN", judge={
        "evidence": "nothing", "verdict": "abstained", "reason": "?"}), NEXT_TASK)  # fmt: skip
    assert set((await agent.statuses()).values()) == {"active"}


async def test_what_a_person_brought_back_stays_for_now(agent: Agent) -> None:
    """Losses before that do not count again."""
    await agent.seed()
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    await agent.memory.put(*lost(9, assets=(tool.id,)))
    for status in ("quarantined", "active"):
        await agent.memory.set_status("tool", tool.id, status, "a person said so")
    await agent.run(next_run(generalise=LESSON), NEXT_TASK)
    assert (await agent.statuses())[f"{TOOL} v1"] == "active"


async def test_lessons_for_making_tools_count_as_used(agent: Agent) -> None:
    """Those shown to the writer of a tool are in the run's record, so that they can win, lose and go unused."""
    cubes = "sum_of_cubes: Computes the sum of the cubes from 1 to n"
    known = lesson_record(**{**TOOL_LESSON, "scope": "tool", "learned_from": cubes})
    await agent.seed(known)
    other = {**TOOL_LESSON, "title": "Test zero", "knowledge": "Return zero for zero."}
    end = await agent.run(first_run(tool_lesson=other, contradicts=NONE))
    record = await agent.record(end)
    assert record.creations[0]["lessons"] == [known.id]
    assert record.lessons == record.helped == (known.id,)
    assert (await lessons(agent))["Test zero"].supports == (known.id,)


async def test_nothing_leaks_between_namespaces(agent: Agent) -> None:
    """What one learned is neither shown, nor evidence, nor contradicted, nor set aside in the other."""
    await agent.run(first_run(), namespace="one")
    known = (await lessons(agent))[LESSON["title"]]
    again = first_run(generalise=DENIAL)
    end = await agent.run(again, namespace="two")
    await agent.memory.put(
        *lost(9, lessons=(known.id,), assets=tuple((await agent.record(end)).assets))
    )
    third = await agent.run(next_run(), NEXT_TASK, namespace="two")

    assert not any(LESSON["knowledge"] in text for text in again.heard("plan"))
    denial = next(one for one in await agent.memory.list("experience") if one.title == "By head")
    assert (denial.namespace, denial.supports, denial.contradicts) == ("two", (), ())
    assert known.id not in (await agent.record(end)).learned
    assert [one["id"] for one in third["lessons"]] == [denial.id]
    ledger = Ledger(await take_snapshot(agent.memory))
    assert {run.namespace for run in ledger.evidence(known)} == {"one"}
    assert {one.status for one in await agent.memory.list("experience")} == {"active"}


async def test_a_correction_works_where_the_run_did(agent: Agent) -> None:
    """A person says it without naming the namespace: lessons are compared, drawn and recalled in that of the run."""
    run = await agent.run(first_run(), namespace="one")
    stranger = lesson_record(**{**BOUNDS, "knowledge": "Trust no tool at all."})
    await agent.seed(stranger)
    critique = {
        "evidence": "x", "verdict": "failure", "reason": "x",
        "faults": [{"name": EXPERT, "why": "It left out the last number."}],
    }  # fmt: skip
    cast = Cast(
        judge=critique,
        improve_agent={"strategy": "Mind the last number."},
        act=[call(), "385"],
        diagnose_run={**LESSON, "title": "Bounds"},
        tool_lesson={**TOOL_LESSON, "title": "Again"},
        contradicts=lambda _: NONE,
    )
    end = await agent.start(cast, says(run, right=False, because="wrong"))

    assert end["verdict"] == "failure"
    assert "act" in cast.order
    told = [text for name in set(cast.order) for text in cast.heard(name)]
    assert not any("Trust no tool at all" in text for text in told)
    assert any(LESSON["knowledge"] in text for text in cast.heard("act"))
    new = (await lessons(agent))["Bounds"]
    assert (new.namespace, new.contradicts) == ("one", ())


@pytest.mark.parametrize("title", [LESSON["title"], "Mind the bounds"])
async def test_a_persons_words_outlast_a_verdict(agent: Agent, title: str) -> None:
    """What a person edited is not superseded when the run is judged anew, and the old words do not come back.

    Those are evidence for the new ones, directly if they are still that close, else by the chain.
    """
    await agent.seed()
    run = await agent.run(
        Cast(plan=plan_of(), act=[call(), "385"], second_answer="385", generalise=LESSON)
    )
    [old] = await agent.memory.list("experience")
    changed = {"title": title, "knowledge": "Call it twice.", "supersedes": old.id}
    edited = old.model_copy(update=changed)
    await agent.memory.put(edited)
    await agent.memory.set_status("experience", old.id, "superseded", "a person edited it: so")
    await agent.start(Cast(generalise=LESSON), says(run, right=True, because="it is"))

    statuses = {one.id: one.status for one in await agent.memory.list("experience")}
    assert statuses == {old.id: "superseded", edited.id: "active"}
    by_hand = edited.id if title == LESSON["title"] else old.id
    assert (await agent.record(run)).learned == (by_hand,)
    evidence = Ledger(await take_snapshot(agent.memory)).evidence(edited)
    assert [one.id for one in evidence] == [run["run_id"]]
