"""How experts evolve: they get to know tools, are offered them, and prove a new strategy in a replay."""

from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from mem2evolve.memory.records import AgentRecord
from mem2evolve.nodes import evolve_assets

from ..openai_server import reply_error
from .conftest import (
    EXPERT,
    FORMULA,
    LESSON,
    NEXT_TASK,
    STRATEGY,
    TASK,
    TOOL,
    Agent,
    Cast,
    Open,
    agent_record,
    call,
    first_run,
    offered,
    plan_of,
    said,
    subtask,
    tool_record,
    wanted,
)
from .test_loop_corrections import correct, says
from .test_loop_small import small
from .test_loop_verdicts import impatient, judged

__all__ = ["impatient", "small"]

CUBES = "sum_of_cubes"
ABOUT_CUBES = "Computes the sum of the cubes of the whole numbers from 1 to n"
BETTER = "Read the bounds first, then call the tool once."
FAULT = {"name": EXPERT, "why": "It left out the last number."}


def cubes_record(**changed: Any) -> Any:
    """Return another tool that is known."""
    by_formula = "(n * (n + 1) // 2) ** 2"
    code = FORMULA.replace(TOOL, CUBES).replace("n * (n + 1) * (2 * n + 1) // 6", by_formula)
    parts = {
        "name": CUBES,
        "description": ABOUT_CUBES,
        "code": code,
        "function": CUBES,
        "cases": (),
    }
    return tool_record(**{**parts, **changed})


async def versions(agent: Agent) -> list[AgentRecord]:
    """Return the versions of the expert, oldest first."""
    found = await agent.memory.find_by_name("agent", EXPERT)
    return sorted(found, key=lambda one: one.version)


def run_to(answer: str = "385", *calls: Any, **parts: Any) -> Cast:
    """Return the script of a run that recruits both."""
    return Cast(**{"plan": plan_of(), "act": [*(calls or (call(),)), answer], **parts})


SUCCESS = {"second_answer": "385", "generalise": LESSON}


async def test_an_expert_gets_to_know_the_tool_that_helped(agent: Agent) -> None:
    """After a success, and once: a new version, which says why; the next success with it changes nothing."""
    await agent.seed(tool_record(), agent_record(tools=()))
    end = await agent.run(run_to(**SUCCESS))

    old, new = await versions(agent)
    assert (old.status, new.status, new.supersedes) == ("superseded", "active", old.id)
    assert (old.tools, new.tools, new.strategy) == ((), (TOOL,), old.strategy)
    assert (new.history[0].reason, new.run_id) == (f"helped by {TOOL}", end["run_id"])
    [kept] = [one for one in end["kept"] if one["kind"] == "agent"]
    assert (kept["to"], kept["new_id"]) == ("superseded", new.id)
    await agent.run(run_to(second_answer="385"))
    assert len(await versions(agent)) == 2


@pytest.mark.parametrize(
    ("called", "parts"),
    [
        (call(-1), SUCCESS),
        (call(), {"second_answer": "UNKNOWN", "judge": judged("abstained")}),
        (call(), {"second_answer": "UNKNOWN", "judge": judged("failure"), "diagnose_run": LESSON}),
    ],
    ids=["a call that failed", "no verdict", "a failure"],
)
async def test_what_did_not_help_is_not_remembered(
    agent: Agent, called: Any, parts: dict[str, Any]
) -> None:
    """Only what worked in a run that succeeded."""
    await agent.seed(tool_record(), agent_record(tools=()))
    if "generalise" in parts:
        parts = {**parts, "second_answer": "UNKNOWN", "judge": judged("success", "385")}
    await agent.run(run_to("385", called, **parts))

    assert [one.tools for one in await versions(agent)] == [()]


async def test_what_an_expert_knows_is_offered_beside_its_tools(agent: Agent) -> None:
    """Those that can be recruited, three at most, the latest first; a call of one counts as its use."""
    names = [f"{CUBES}_{n}" for n in range(5)]
    known = [cubes_record(name=name) for name in names]
    gone = cubes_record(name="gone", status="quarantined")
    expert = agent_record(tools=(*names, "gone", "never_made", TOOL))
    await agent.seed(tool_record(), expert, gone, *known)
    cast = run_to("3025", call(10, names[4]), second_answer="3025", generalise=LESSON)
    end = await agent.run(cast)

    assert offered(cast.requests("act")[0]) == [TOOL, names[4], names[3], names[2]]
    assert end["results"][0]["calls"][0]["result"] == "3025"
    record = await agent.record(end)
    assert known[4].id in record.assets
    assert known[4].id in record.won
    assert known[3].id not in record.assets
    assert {one["id"] for one in end["kept"]} == {known[4].id, expert.id}


async def test_a_fault_of_a_known_tool_is_laid_at_its_door(agent: Agent) -> None:
    """The judge may name it like any tool of the sub-task."""
    cubes = cubes_record(status="candidate")
    await agent.seed(tool_record(), agent_record(tools=(CUBES, TOOL)), cubes)
    fault = {"name": CUBES, "why": "Squares were meant."}
    cast = run_to(
        "3025", call(10, CUBES), second_answer="UNKNOWN", diagnose_run=LESSON,
        judge=judged("failure", "3025", faults=[fault]), tool="nothing",
    )  # fmt: skip
    await agent.run(cast, debug_rounds=1)

    assert (await agent.statuses())[f"{CUBES} v1"] == "retired"


async def test_a_sub_task_without_tools_is_offered_none(agent: Agent) -> None:
    """What needs no tool is answered at once, whatever the expert knows."""
    await agent.seed()
    cast = Cast(plan=plan_of(subtask(TASK)), answer="385")
    await agent.run(cast, evolve=False)


async def test_a_small_model_chooses_among_its_own_tools_only(small: Agent) -> None:
    """It is offered nothing beside them."""
    await small.seed(tool_record(), agent_record(tools=(CUBES, TOOL)), cubes_record())
    cast = run_to()
    await small.run(cast, evolve=False)

    assert offered(cast.requests("act")[0]) == [TOOL]


async def test_made_in_one_run_known_in_the_next(agent: Agent) -> None:
    """The expert of a first run brings its tool to another task."""
    await agent.run(first_run())
    await agent.seed(cubes_record())
    plan = plan_of(subtask("Sum the cubes", wanted(CUBES, ABOUT_CUBES)))
    cast = Cast(plan=plan, act="3025")
    await agent.run(cast, NEXT_TASK, evolve=False)

    assert offered(cast.requests("act")[0]) == [CUBES, TOOL]


def replayed(again: Any, *verdicts: Any, first: Any = None, **parts: Any) -> Cast:
    """Return the script of a run whose expert is faulted, improved, and tried again."""
    blame = judged("failure", "285", faults=[FAULT])
    return Cast(
        **{
            "plan": plan_of(),
            "act": [*(first or [call(9), "285"]), *again],
            "second_answer": "UNKNOWN",
            "judge": [blame, *verdicts],
            "improve_agent": {"strategy": BETTER},
            "diagnose_run": LESSON,
            **parts,
        }
    )


RIGHT = judged("success", f"{TOOL}(n=10) = 385")


@pytest.mark.parametrize("status", ["candidate", "active"])
async def test_a_faulted_expert_that_does_better_again_is_replaced(
    agent: Agent, status: str
) -> None:
    """It works on its sub-task once more, by the new strategy, and the judge is told of the fault."""
    await agent.seed(tool_record(), agent_record(status=status))
    cast = replayed([call(10), "385"], RIGHT)
    end = await agent.run(cast)

    old, new = await versions(agent)
    assert (old.status, new.status, new.version, new.supersedes) == (
        *("superseded", "active", 2, old.id),
    )
    assert (new.strategy, new.tools) == (BETTER, old.tools)
    assert [change.reason for change in new.history] == [
        *("mends: It left out the last number.", "replayed: Cubes were meant."),
    ]
    [asked] = cast.heard("improve_agent")
    assert FAULT["why"] in asked
    assert STRATEGY in asked
    assert BETTER in said(cast.requests("act")[2])
    assert STRATEGY in said(cast.requests("act")[0])
    judge = cast.heard("judge")[1]
    assert "An earlier try was found wrong: It left out the last number." in judge
    assert f"{TOOL}(n=10) = 385" in judge
    assert "n=9" not in judge
    assert end["answer"] == "285"
    [kept] = [one for one in end["kept"] if one["kind"] == "agent"]
    assert (kept["to"], kept["new_id"]) == ("superseded", new.id)
    record = await agent.record(end)
    assert old.id in record.assets
    assert old.id not in record.won
    assert record.tokens["forward"]["calls"] == 3
    assert record.tokens["evolve_assets"]["calls"] == 4


DROPPED = {
    "the same result": ([call(9), "285"], [], "it came to the same result"),
    "faulted again": (
        [call(10), "385"],
        [judged("success", "385", faults=[FAULT])],
        "it was faulted again",
    ),
    "a failure": (
        [call(10), "385"],
        [judged("failure", "385")],
        "it was not judged a success: Cubes were meant.",
    ),
    "evidence that is not there": (
        [call(10), "385"],
        [judged("success", "386")],
        "it was not judged a success: The judge said success, but its evidence is not in the work: '386'",
    ),
}


@pytest.mark.parametrize("how", DROPPED)
async def test_one_that_does_no_better_is_dropped(agent: Agent, how: str) -> None:
    """The new version is retired with the reason; the faulted candidate too, an active one only counts a loss."""
    again, verdicts, reason = DROPPED[how]
    await agent.seed()
    end = await agent.run(replayed(again, *verdicts))

    old, new = await versions(agent)
    assert (old.status, new.status) == ("active", "retired")
    assert new.history[-1].reason == f"replayed: {reason}"
    [kept] = [one for one in end["kept"] if one["kind"] == "agent"]
    assert kept["to"] == "active"
    assert kept["reason"].startswith("faulted, counted as a loss: It left out the last number.")
    assert reason in kept["reason"]


async def test_a_replay_is_one_try(agent: Agent) -> None:
    """One that is not finished within the steps is not begun again."""
    await agent.seed(tool_record(), agent_record(status="candidate"))
    cast = replayed([call(1), call(2)], act_answer="285", first=[call(9), "285"])
    await agent.run(cast, max_steps=2)

    old, new = await versions(agent)
    assert (old.status, new.status) == ("retired", "retired")
    assert new.history[-1].reason == "replayed: it was not finished"


TROUBLE: dict[str, dict[str, Any]] = {
    "strategy": {"improve_agent": reply_error(500, "down"), "again": []},
    "replay": {"again": [call(10), reply_error(500, "down")]},
    "judge": {"again": [call(10), "385"], "verdicts": [reply_error(500, "down")]},
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("where", TROUBLE)
async def test_trouble_in_a_replay_changes_nothing(agent: Agent, where: str) -> None:
    """No version is stored, and the faulted candidate is what it was."""
    await agent.seed(tool_record(), agent_record(status="candidate"))
    parts = dict(TROUBLE[where])
    again, verdicts = parts.pop("again"), parts.pop("verdicts", [])
    end = await agent.run(replayed(again, *verdicts, **parts))

    [expert] = await versions(agent)
    assert (expert.status, expert.history) == ("candidate", ())
    [kept] = [one for one in end["kept"] if one["kind"] == "agent"]
    assert kept["reason"].startswith("left as it was, for passing trouble: ")


async def test_a_small_model_replays_nothing(small: Agent) -> None:
    """An expert that a person faulted is set aside."""
    await small.seed()
    run = await small.run(run_to(second_answer="385", generalise=LESSON))
    await correct(
        small, Cast(diagnose_run=LESSON), says(run, right=False, because=f"{EXPERT} is wrong")
    )

    [expert] = await versions(small)
    assert expert.status == "quarantined"


async def test_a_persons_fault_is_replayed_too(agent: Agent) -> None:
    """Judged by the model, since the person is not asked again."""
    await agent.seed()
    run = await agent.run(run_to("284", call(9), second_answer="284", generalise=LESSON))
    cast = Cast(
        improve_agent={"strategy": BETTER}, act=[call(10), "385"], judge=RIGHT, diagnose_run=LESSON
    )
    await correct(agent, cast, says(run, right=False, because=f"The {EXPERT} left out 10."))

    old, new = await versions(agent)
    assert (old.status, new.status, new.strategy) == ("superseded", "active", BETTER)


async def test_a_person_faults_the_expert_as_it_is_now(agent: Agent) -> None:
    """The version that knows more tools has the same strategy: it is the one that is set aside."""
    await agent.seed(tool_record(), agent_record(tools=()))
    run = await agent.run(run_to(**SUCCESS))
    same = {"strategy": STRATEGY}
    cast = Cast(improve_agent=same, diagnose_run=LESSON)
    await correct(agent, cast, says(run, right=False, because=f"The {EXPERT} is wrong."))

    old, new = await versions(agent)
    assert (old.status, new.status) == ("superseded", "quarantined")
    assert "no better version: no other strategy was found" in new.history[-1].reason


@tool(TOOL)
def host_tool(n: int) -> int:
    """Computes the sum of the squares of the whole numbers from 1 to n."""
    return n * 1000


async def test_what_acts_on_the_world_is_not_repeated(open_agent: Open) -> None:
    """A host's tool is called for the task alone, never for a try."""
    agent = open_agent(tools=[host_tool])
    await agent.seed(agent_record(status="candidate"))
    blame = judged("failure", "9000", faults=[FAULT])
    cast = run_to("9000", call(9), second_answer="UNKNOWN", judge=blame, diagnose_run=LESSON)
    await agent.run(cast)

    [expert] = await versions(agent)
    assert expert.status == "retired"
    assert "a host's tool may act on the world" in expert.history[-1].reason


async def test_an_interrupted_pass_is_repeated_safely(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new version was stored, the old one not yet superseded: the same verdict ends it, without another replay."""
    await agent.seed()
    real = evolve_assets.supersede_older

    async def cut(*_: Any) -> None:
        raise RuntimeError("the machine stopped")

    monkeypatch.setattr(evolve_assets, "supersede_older", cut)
    agent.compile(checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    with pytest.raises(RuntimeError, match="the machine stopped"):
        await agent.start(replayed([call(10), "385"], RIGHT), {"task": TASK}, config=thread)
    monkeypatch.setattr(evolve_assets, "supersede_older", real)
    agent.cast = Cast(diagnose_run=LESSON)
    await agent.graph.ainvoke(None, thread, context={"web": False})

    old, new = await versions(agent)
    assert (old.status, new.status, new.version) == ("superseded", "active", 2)
