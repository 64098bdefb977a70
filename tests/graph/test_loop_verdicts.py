"""What a verdict does: to the assets, to the lessons, and what happens when there is none."""

from typing import Any

import pytest

from mem2evolve.errors import ModelUnavailable, SandboxUnavailable
from mem2evolve.memory.records import Case
from mem2evolve.models import pool
from mem2evolve.sandbox import bubblewrap

from ..openai_server import reply_error, reply_reset, reply_text
from .conftest import (
    EXPERT,
    FORMULA,
    LESSON,
    NEXT_TASK,
    TASK,
    TOOL,
    Agent,
    Cast,
    Open,
    agent_record,
    call,
    decision_on,
    fenced,
    first_run,
    plan_of,
    subtask,
    tool_record,
    wanted,
)

EVIDENCE = f"{TOOL}(n=10) = 385"
FAULTY = FORMULA.replace("// 6", "// 6 - (n == 10)")
"""Wrong for 10, which its own cases leave out."""
FEW = tuple(
    Case(args={"n": n}, expected=value, origin="agreement")
    for n, value in ((0, 0), (1, 1), (2, 5), (3, 14))
)


def judged(verdict: str, evidence: str = EVIDENCE, **more: Any) -> dict[str, Any]:
    """Return what a judge says."""
    return {"evidence": evidence, "verdict": verdict, "reason": "Cubes were meant.", **more}


def second_run(**parts: Any) -> Cast:
    """Return the script of a run that recruits and then is judged."""
    return Cast(**{"plan": plan_of(), "act": [call(), "385"], "second_answer": "UNKNOWN", **parts})


async def test_evidence_that_is_not_in_the_work_is_no_verdict(agent: Agent) -> None:
    """The judge's success is not believed: nothing is learned, and what was made stays a candidate."""
    cast = first_run(
        second_answer="UNKNOWN",
        judge=judged("success", "sum_of_squares(n=10) = 386"),
        generalise=None,
        tool_lesson=None,
    )
    end = await agent.run(cast)

    assert end["verdict"] == "abstained"
    assert "its evidence is not in the work" in end["judgement"]["reason"]
    assert "386" in end["judgement"]["reason"]
    assert end["learned"] == []
    assert await agent.counts() == {"tool": 1, "agent": 1, "experience": 0, "run": 1}
    assert await agent.statuses() == {f"{TOOL} v1": "candidate", f"{EXPERT} v1": "candidate"}
    assert {one["reason"] for one in end["kept"]} == {"left a candidate: no verdict"}
    assert f"{TOOL}/v1/tool.py" in agent.files()
    record = await agent.record(end)
    assert (record.verdict, record.won, record.transient) == ("abstained", (), "")


async def test_a_candidate_is_recruited_and_promoted_by_a_later_run(agent: Agent) -> None:
    """After an abstention the tool is used again; the verdict of that run makes it active."""
    await agent.seed(tool_record(status="candidate"), agent_record(status="candidate"))
    end = await agent.run(second_run(second_answer="385", generalise=LESSON))

    assert decision_on(end, "tool")["candidates"][0]["status"] == "candidate"
    assert await agent.statuses() == {f"{TOOL} v1": "active", f"{EXPERT} v1": "active"}


async def test_a_failure_is_diagnosed(agent: Agent) -> None:
    """The lesson is drawn from the judge's reason and critique; the tool, not faulted, keeps its place."""
    await agent.seed()
    critique = {"id": "s1", "ok": False, "critique": "It summed squares, not cubes."}
    cast = second_run(judge=judged("failure", subtasks=[critique]), diagnose_run=LESSON)
    end = await agent.run(cast)

    assert end["verdict"] == "failure"
    [told] = cast.heard("diagnose_run")
    assert "Cubes were meant.\nIt summed squares, not cubes." in told
    [lesson] = await agent.memory.list("experience")
    assert (lesson.outcome, lesson.scope, lesson.run_id) == ("failure", "agent", end["run_id"])
    assert await agent.statuses() == {f"{TOOL} v1": "active", f"{EXPERT} v1": "active"}
    record = await agent.record(end)
    assert set(record.won) == set(record.assets)
    assert record.helped == ()


async def test_a_different_second_answer_alone_decides_nothing(agent: Agent) -> None:
    """The judge looks at the work itself."""
    await agent.seed()
    cast = second_run(second_answer="386", judge=judged("success"), generalise=LESSON)
    end = await agent.run(cast)

    assert (end["verdict"], end["judgement"]["reason"]) == ("success", "Cubes were meant.")
    assert f"{EVIDENCE}" in cast.heard("judge")[0]


async def test_a_fault_with_a_case_makes_a_new_version(agent: Agent) -> None:
    """The case is tried, the tool rewritten until it passes all; version 2 supersedes and is used next."""
    await agent.seed(tool_record(code=FAULTY, cases=FEW), agent_record())
    fault = {"name": TOOL, "why": "off by one at 10", "args": {"n": 10}, "expected": 385}
    evidence = f"{TOOL}(n=10) = 384"
    cast = Cast(
        plan=plan_of(),
        act=[call(), "384"],
        second_answer="385",
        judge=judged("failure", evidence, faults=[fault]),
        tool=[fenced(FAULTY), fenced(FORMULA)],
        diagnose_run=LESSON,
    )
    end = await agent.run(cast)

    old, new = sorted(await agent.memory.find_by_name("tool", TOOL), key=lambda one: one.version)
    assert (old.status, new.status, new.version, new.supersedes) == (
        *("superseded", "candidate", 2, old.id),
    )
    assert new.code == FORMULA
    assert new.cases == (*FEW, Case(args={"n": 10}, expected=385, origin="model", tolerance=1e-9))
    assert old.history[-1].reason == "version 2: off by one at 10"
    [kept] = [one for one in end["kept"] if one["kind"] == "tool"]
    assert (kept["to"], kept["new_id"]) == ("superseded", new.id)
    first, second = cast.heard("tool")
    assert "It exists, but is faulty:" in first
    assert "- off by one at 10" in first
    assert 'called with {"n": 10} it returned 384' in second
    assert agent.files()[f"{TOOL}/v2/tool.py"] == FORMULA
    record = await agent.record(end)
    assert old.id in record.assets
    assert old.id not in record.won
    cast = Cast(plan=plan_of(), act=[call(), "385"], second_answer="385", generalise=LESSON)
    again = await agent.run(cast)
    assert decision_on(again, "tool")["asset_id"] == new.id
    assert (await agent.statuses())[f"{TOOL} v2"] == "active"


async def test_a_faulted_candidate_that_cannot_be_mended_is_dropped(agent: Agent) -> None:
    """After the rounds are spent it is retired, and its files are gone."""
    fault = {"name": TOOL, "why": "off by one at 10", "args": {"n": 10}, "expected": 384}
    cast = first_run(
        second_answer="UNKNOWN",
        judge=judged("failure", faults=[fault]),
        tool=[fenced(FORMULA)] * 3,
        diagnose_run=LESSON,
        generalise=None,
    )
    end = await agent.run(cast, debug_rounds=2)

    assert await agent.statuses() == {f"{TOOL} v1": "retired", f"{EXPERT} v1": "active"}
    assert agent.files() == {}
    [kept] = [one for one in end["kept"] if one["kind"] == "tool"]
    assert (kept["to"], kept["reason"]) == ("retired", "faulted: off by one at 10")


async def test_a_fault_that_is_not_there_changes_nothing(agent: Agent) -> None:
    """The judge's case is run first: the tool passes it, so nothing is rewritten."""
    await agent.seed()
    fault = {"name": TOOL, "why": "off by one", "args": {"n": 10}, "expected": 385}
    cast = second_run(judge=judged("failure", faults=[fault]), diagnose_run=LESSON)
    end = await agent.run(cast)

    assert await agent.statuses() == {f"{TOOL} v1": "active", f"{EXPERT} v1": "active"}
    [kept] = [one for one in end["kept"] if one["kind"] == "tool"]
    assert kept["reason"] == "the fault was tried out and is not there"


async def test_arguments_without_a_result_are_no_case(agent: Agent) -> None:
    """A judge who names a call but not its right result does not make `null` the expected value."""
    await agent.seed(tool_record(status="candidate"), agent_record())
    fault = {"name": TOOL, "why": "looks odd", "args": {"n": 10}}
    other = FORMULA.replace("// 6", "// 2 // 3")
    cast = second_run(
        judge=judged("failure", faults=[fault]), tool=fenced(other), diagnose_run=LESSON
    )
    await agent.run(cast, debug_rounds=1)

    new, old = await agent.memory.find_by_name("tool", TOOL)
    assert (new.version, new.code) == (2, other)
    assert new.cases == old.cases


async def test_the_same_code_mends_nothing(agent: Agent) -> None:
    """A rewrite that changes nothing but words is no new version of a tool found faulty."""
    await agent.seed(tool_record(status="candidate"), agent_record())
    cast = second_run(
        judge=judged("failure", faults=[{"name": TOOL, "why": "looks odd"}]),
        tool=fenced(FORMULA.replace("is negative", "must not be negative")),
        diagnose_run=LESSON,
    )
    await agent.run(cast, debug_rounds=1)

    assert (await agent.statuses())[f"{TOOL} v1"] == "retired"


async def test_a_fault_of_what_was_not_used_is_passed_over(agent: Agent) -> None:
    """The judge can only fault assets of this run."""
    await agent.seed()
    fault = {"name": "word_count", "why": "miscounts"}
    end = await agent.run(second_run(judge=judged("failure", faults=[fault]), diagnose_run=LESSON))

    assert end["judgement"]["faults"] == []


def is_385(task: str, answer: str) -> bool:
    """Check an answer."""
    return answer == "385"


async def is_385_async(task: str, answer: str) -> bool:
    """Check an answer, later."""
    return is_385(task, answer)


@pytest.mark.parametrize("checker", [is_385, is_385_async])
@pytest.mark.parametrize(("answer", "verdict"), [("385", "success"), ("386", "failure")])
async def test_a_checker_wins(open_agent: Open, checker: Any, answer: str, verdict: str) -> None:
    """What the caller plugs in decides; the judge is not asked."""
    agent = open_agent(checker=checker)
    await agent.seed(tool_record(status="candidate"), agent_record(status="candidate"))
    lesson = {"generalise" if verdict == "success" else "diagnose_run": LESSON}
    end = await agent.run(Cast(plan=plan_of(), act=[call(), answer], **lesson))

    record = await agent.record(end)
    assert (end["verdict"], record.verdict_by) == (verdict, "checker")
    assert set((await agent.statuses()).values()) == {"active"}


def raising(task: str, answer: str) -> bool:
    """Fail."""
    raise ZeroDivisionError("no ground truth")


def abstaining(task: str, answer: str) -> None:
    """Say nothing."""


@pytest.mark.parametrize(
    ("checker", "reason"),
    [
        (raising, "The checker failed: ZeroDivisionError: no ground truth"),
        (abstaining, "The checker abstained."),
    ],
)
async def test_a_checker_that_does_not_decide_is_an_abstention(
    open_agent: Open, checker: Any, reason: str
) -> None:
    """No opinion is put in its place; nothing is learned."""
    agent = open_agent(checker=checker)
    await agent.seed(tool_record(status="candidate"), agent_record(status="candidate"))
    end = await agent.run(Cast(plan=plan_of(), act=[call(), "385"]))

    assert (end["verdict"], end["judgement"]["reason"]) == ("abstained", reason)
    assert (await agent.counts())["experience"] == 0
    assert set((await agent.statuses()).values()) == {"candidate"}


TROUBLE = {
    "rate limit": reply_error(429, "slow down", retry_after=0.01),
    "server error": reply_error(500, "broken", retry_after=0.01),
    "timeout": reply_text("385", delay=5),
    "reset": reply_reset(),
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests time out soon and are not repeated."""
    monkeypatch.setattr(pool, "TIMEOUT_S", 0.7)
    monkeypatch.setattr(pool, "RETRIES", 0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("trouble", TROUBLE)
async def test_trouble_while_judging_teaches_nothing(agent: Agent, trouble: str) -> None:
    """The answer stands; no lesson, no promotion, and the record says why."""
    await agent.seed(tool_record(status="candidate"), agent_record(status="candidate"))
    end = await agent.run(second_run(second_answer=TROUBLE[trouble]))

    assert (end["answer"], end["verdict"]) == ("385", "abstained")
    assert end["judgement"]["transient"]
    assert end["learned"] == []
    assert set((await agent.statuses()).values()) == {"candidate"}
    record = await agent.record(end)
    assert record.transient.startswith("It could not be judged: ")
    assert (await agent.counts())["experience"] == 0


async def test_a_passing_rate_limit_is_waited_out(agent: Agent) -> None:
    """One 429 is repeated by the client, and the run goes on as if nothing had been."""
    await agent.seed()
    busy = [TROUBLE["rate limit"], "385"]
    end = await agent.run(second_run(second_answer=busy, generalise=LESSON))

    assert end["verdict"] == "success"


@pytest.mark.usefixtures("impatient")
async def test_trouble_while_distilling_costs_the_lesson_only(agent: Agent) -> None:
    """Verdict and promotion stand."""
    await agent.seed(tool_record(status="candidate"), agent_record())
    end = await agent.run(second_run(second_answer="385", generalise=TROUBLE["server error"]))

    assert (end["verdict"], end["learned"]) == ("success", [])
    assert (await agent.statuses())[f"{TOOL} v1"] == "active"
    assert (await agent.record(end)).verdict == "success"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("trouble", TROUBLE)
async def test_without_a_model_nothing_is_written(agent: Agent, trouble: str) -> None:
    """A model that is down at the plan ends the run with an error that says so."""
    with pytest.raises(ModelUnavailable, match="scripted"):
        await agent.run(Cast(plan=TROUBLE[trouble]))

    assert await agent.counts() == {"tool": 0, "agent": 0, "experience": 0, "run": 0}
    assert agent.files() == {}


@pytest.mark.usefixtures("impatient")
async def test_a_model_that_goes_down_while_acting_ends_the_run(agent: Agent) -> None:
    """No half answer is passed off as one, and nothing is learned."""
    await agent.seed()
    with pytest.raises(ModelUnavailable):
        await agent.run(Cast(plan=plan_of(), act=[call(), TROUBLE["server error"]]))

    assert await agent.counts() == {"tool": 1, "agent": 1, "experience": 0, "run": 0}


@pytest.fixture
def boxless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bwrap is found on this machine."""
    monkeypatch.setattr(bubblewrap._choice, "path", "")
    monkeypatch.setattr(bubblewrap, "candidates", lambda: iter(()))


@pytest.mark.usefixtures("boxless")
async def test_without_a_sandbox_no_tool_is_made(agent: Agent) -> None:
    """It is refused, not run some other way, and no run, lesson or tool is written."""
    parts = {"act": None, "second_answer": None, "generalise": None, "tool_lesson": None}
    with pytest.raises(SandboxUnavailable, match="bubblewrap is not installed"):
        await agent.start(first_run(**parts), {"task": TASK})

    counts = await agent.counts()
    assert (counts["tool"], counts["experience"], counts["run"]) == (0, 0, 0)


@pytest.mark.usefixtures("boxless")
async def test_without_a_sandbox_no_tool_is_called(agent: Agent) -> None:
    """A recruited tool is not run either, and the model is not told that the tool failed."""
    await agent.seed()
    cast = Cast(plan=plan_of(subtask(NEXT_TASK, wanted())), act=call(20))
    with pytest.raises(SandboxUnavailable):
        await agent.run(cast, NEXT_TASK)

    assert cast.order == ["plan", "act"]
