"""No twins: a new tool or expert that does what a known one does, and names that are taken."""

from typing import Any

import pytest

from mem2evolve.memory import recall
from mem2evolve.memory.records import Case

from .conftest import (
    EXPERT,
    EXPERTISE,
    FORMULA,
    LESSON,
    LOOP,
    STRATEGY,
    TOOL,
    Agent,
    Cast,
    agent_record,
    call,
    decision_on,
    fenced,
    first_run,
    making,
    plan_of,
    tool_record,
)
from .test_loop_corrections import correct, says
from .test_loop_creation import creation_of
from .test_loop_small import small
from .test_loop_verdicts import FAULTY, FEW

__all__ = ["small"]

NUMBERED = f"{TOOL}_2"
NO_FIT = {"why": "It leaves out the last number.", "fits": 0}
MADE: dict[str, Any] = {
    "tool": fenced(FORMULA.replace(TOOL, NUMBERED)),
    "oracle": fenced(LOOP.replace(TOOL, NUMBERED)),
}


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """No score is beyond doubt, as with an embedding model that nobody has calibrated."""
    doubt = recall.Calibration(delta=0.5, low=0.35, high=1.1)
    monkeypatch.setitem(recall.CALIBRATED, "minilm", doubt)  # type: ignore[arg-type]


def twin_run(**changed: Any) -> Cast:
    """Return the script of a run that makes the tool again although there is one; the expert is recruited."""
    fit = [NO_FIT, {"why": "It is the one.", "fits": 1}]

    def choose(asked: Any) -> Any:
        return fit[EXPERTISE in str(asked["messages"][-1]["content"])]

    return first_run(**{**MADE, "fit": choose, "agent": None, **changed})


@pytest.mark.usefixtures("decided")
async def test_a_twin_that_does_more_becomes_the_next_version(agent: Agent) -> None:
    """It passes the cases of the other, which fails one of its own: version 2, with the cases of both."""
    await agent.seed(tool_record(code=FAULTY, cases=FEW), agent_record())
    end = await agent.run(twin_run(act=[call(), "385"]))

    new, old = await agent.memory.find_by_name("tool", TOOL)
    assert (new.version, new.supersedes, new.function) == (2, old.id, NUMBERED)
    assert new.cases[: len(FEW)] == FEW
    assert {case.args["n"] for case in new.cases} > {case.args["n"] for case in FEW}
    assert len({case.args["n"] for case in new.cases}) == len(new.cases)
    assert new.history[0].reason == "passed its cases and those of version 1"
    decision = decision_on(end, "tool")
    assert (decision["outcome"], decision["asset_name"]) == ("created", TOOL)
    assert end["results"][0]["calls"][0] == {
        "tool": TOOL, "args": {"n": 10}, "ok": True, "result": "385"
    }  # fmt: skip
    assert (old.status, new.status) == ("superseded", "active")
    assert old.history[-1].reason == "version 2 took its place"
    assert await agent.memory.find_by_name("tool", NUMBERED) == []


@pytest.mark.usefixtures("decided")
async def test_a_candidate_version_pushes_nothing_out(agent: Agent) -> None:
    """Without a verdict both stay, the active one is recruited, and shown once."""
    await agent.seed(tool_record(code=FAULTY, cases=FEW), agent_record())
    parts = {"second_answer": "UNKNOWN", "generalise": None, "tool_lesson": None}
    judge = {"evidence": "?", "verdict": "abstained", "reason": "Unclear."}
    await agent.run(twin_run(judge=judge, **parts))

    new, old = await agent.memory.find_by_name("tool", TOOL)
    assert (old.status, new.status) == ("active", "candidate")
    yes = {"why": "It is the one.", "fits": 1}
    cast = Cast(plan=plan_of(), fit=yes, act=[call(), "384"])  # the expert was confirmed before
    end = await agent.run(cast, evolve=False)
    decision = decision_on(end, "tool")
    assert decision["asset_id"] == old.id
    assert [one["name"] for one in decision["candidates"]].count(TOOL) == 1


@pytest.mark.usefixtures("decided")
async def test_a_twin_that_adds_nothing_is_not_kept(agent: Agent) -> None:
    """Each passes the other's cases: the known one is used, and there is no second record."""
    await agent.seed()
    before = await agent.counts()
    end = await agent.run(twin_run())

    decision = decision_on(end, "tool")
    assert (decision["outcome"], decision["record"]) == ("recruited", None)
    assert decision["why"].endswith("; recruited: it does the same")
    assert creation_of(end)["outcome"] == "recruited: it does the same"
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert decision["asset_id"] == creation_of(end)["asset_id"] == tool.id
    assert (await agent.counts())["tool"] == before["tool"] == 1
    assert tool.id in (await agent.record(end)).won


@pytest.mark.usefixtures("decided")
async def test_a_second_opinion_is_something_gained(agent: Agent) -> None:
    """A tool that never got one is followed by a version that has."""
    await agent.seed(tool_record(second_opinion=False), agent_record())
    await agent.run(twin_run())

    new, old = await agent.memory.find_by_name("tool", TOOL)
    assert (old.second_opinion, new.second_opinion, new.supersedes) == (False, True, old.id)


@pytest.mark.usefixtures("decided")
async def test_one_that_fails_the_cases_of_the_other_is_another_tool(agent: Agent) -> None:
    """However close the cards are."""
    ends_out = tuple(
        Case(args={"n": n}, expected=value, origin="agreement")
        for n, value in ((1, 0), (2, 1), (3, 5), (4, 14))
    )
    await agent.seed(tool_record(cases=ends_out), agent_record())
    await agent.run(twin_run(act=[call(10, NUMBERED), "385"]))

    statuses = await agent.statuses()
    assert statuses[f"{TOOL} v1"] == statuses[f"{NUMBERED} v1"] == "active"
    assert f"{TOOL} v2" not in statuses


@pytest.mark.usefixtures("decided")
async def test_a_frozen_run_keeps_no_version(agent: Agent) -> None:
    """It works with what it made, and writes nothing."""
    await agent.seed(tool_record(code=FAULTY, cases=FEW), agent_record())
    before = await agent.counts(), await agent.statuses()
    cast = twin_run(second_answer=None, generalise=None, tool_lesson=None)
    end = await agent.run(cast, evolve=False)

    assert end["results"][0]["calls"][0]["result"] == "385"
    assert (await agent.counts(), await agent.statuses()) == before


OTHER = {"description": "Counts the words of a text", "cases": ()}
OTHER_PURPOSE: dict[str, Any] = {"fit_check": False, "delta": 0.9}


def renamed(name: str, **changed: Any) -> Cast:
    """Return the script of a run whose tool is called by another name than the plan's."""
    parts = {
        "agent": None,
        "tool": fenced(FORMULA.replace(TOOL, name)),
        "oracle": fenced(LOOP.replace(TOOL, name)),
        "act": [call(10, name), "385"],
    }
    return first_run(**{**parts, **changed})


async def test_a_taken_name_is_made_more_specific(agent: Agent) -> None:
    """Another purpose under the same name is another tool: the model names it, shown who has the name."""
    await agent.seed(tool_record(**OTHER), agent_record())
    cast = renamed("sum_of_squares_to_n", rename={"name": "sumOfSquares to n"})
    end = await agent.run(cast, **OTHER_PURPOSE)

    assert decision_on(end, "tool")["asset_name"] == "sum_of_squares_to_n"
    [asked] = cast.heard("rename")
    assert f"- {TOOL}: Counts the words of a text" in asked
    statuses = await agent.statuses()
    assert statuses[f"{TOOL} v1"] == statuses["sum_of_squares_to_n v1"] == "active"


@pytest.mark.parametrize(
    "said", [TOOL, "python", "I would call it the sum of all the squares.", "?", "x" * 80]
)
async def test_a_name_that_cannot_be_used_gets_a_number(agent: Agent, said: str) -> None:
    """Taken, a sentence, no name, too long: the model is asked once."""
    await agent.seed(tool_record(**OTHER), agent_record())
    cast = renamed(NUMBERED, rename={"name": said})
    end = await agent.run(cast, **OTHER_PURPOSE)

    assert decision_on(end, "tool")["asset_name"] == NUMBERED


async def test_a_small_model_is_not_asked_for_a_name(small: Agent) -> None:
    """The number is put at once."""
    await small.seed(tool_record(**OTHER), agent_record())
    drafts = [fenced(FORMULA.replace(TOOL, NUMBERED))] * 2
    end = await small.run(renamed(NUMBERED, tool=drafts), **OTHER_PURPOSE)

    assert decision_on(end, "tool")["asset_name"] == NUMBERED


@pytest.mark.usefixtures("decided")
async def test_the_twin_of_an_expert_is_recruited(agent: Agent) -> None:
    """A card that says the same is no second expert, even if the model found that it does not fit."""
    await agent.seed()
    cast = Cast(
        plan=plan_of(), fit=lambda _: NO_FIT, **making(agent=None, **twin_code()), act="385"
    )
    end = await agent.run(cast, evolve=False)

    decision = decision_on(end, "agent")
    assert (decision["outcome"], decision["asset_name"]) == ("recruited", EXPERT)
    assert decision["why"].endswith("; recruited: its card is 1.00 close")
    assert STRATEGY in cast.heard("act")[0]


def twin_code() -> dict[str, Any]:
    """Return the code of the twin."""
    return {key: MADE[key] for key in ("tool", "oracle")}


async def test_an_expert_of_another_purpose_gets_another_name(agent: Agent) -> None:
    """As a tool does."""
    await agent.seed(tool_record(), agent_record(expertise="Repairs bicycles and prams"))
    cast = Cast(
        plan=plan_of(),
        rename={"name": "series_arithmetician"},
        agent={"strategy": "  Count twice. "},
        act=[call(), "385"],
        second_answer="385",
        generalise=LESSON,
    )
    end = await agent.run(cast, **OTHER_PURPOSE)

    assert decision_on(end, "agent")["asset_name"] == "series_arithmetician"
    [made, _] = reversed(await agent.memory.find_by_name("agent", "series_arithmetician"))
    assert (made.strategy, made.expertise) == ("Count twice.", EXPERTISE)
    assert f"- {EXPERT}: Repairs bicycles and prams" in cast.heard("rename")[0]


async def test_a_dropped_expert_comes_back_as_its_next_version(agent: Agent) -> None:
    """The same card, none of it recruitable: version 2, not a second version 1."""
    await agent.seed(tool_record(), agent_record(status="retired"))
    cast = Cast(
        plan=plan_of(), agent={"strategy": "Count twice."}, act=[call(), "385"], second_answer="385",
        generalise={**LESSON, "title": "Count"},
    )  # fmt: skip
    end = await agent.run(cast)

    assert decision_on(end, "agent")["outcome"] == "created"
    statuses = await agent.statuses()
    assert statuses[f"{EXPERT} v1"] == "retired"
    assert statuses[f"{EXPERT} v3"] == "active"  # version 2, which the tool then helped


@pytest.mark.parametrize("said", ["", "   ", "x" * 2001])
async def test_a_strategy_that_cannot_be_used_is_no_expert(agent: Agent, said: str) -> None:
    """After one repair the need stays open, with the reason; anybody does the work."""
    await agent.seed(tool_record())
    cast = Cast(
        plan=plan_of(), agent={"strategy": said}, repair={"strategy": said}, act=[call(), "385"]
    )
    end = await agent.run(cast, evolve=False)

    decision = decision_on(end, "agent")
    assert (decision["outcome"], decision["asset_id"]) == ("none", "")
    assert "no expert was made" in decision["why"]


async def test_a_version_confirmed_late_does_not_displace_a_newer_one(agent: Agent) -> None:
    """A person finds a run right whose candidate has an active successor by then: one version stays active."""
    await agent.seed(tool_record(status="candidate"), agent_record())
    judge = {"evidence": "?", "verdict": "abstained", "reason": "Unclear."}
    cast = Cast(plan=plan_of(), act=[call(), "385"], second_answer="UNKNOWN", judge=judge)
    run = await agent.run(cast)
    await agent.seed(tool_record(version=2))
    await correct(agent, Cast(generalise=LESSON), says(run, right=True, because="Yes."))

    new, old = await agent.memory.find_by_name("tool", TOOL)
    assert (old.status, new.status) == ("superseded", "active")
    assert (
        old.history[-1].reason == "version 2 is active; passed its gate; verdict success by person"
    )
