"""A person's yes or no before a tool is kept: interrupts, what they carry, and what the answer changes."""

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from .conftest import (
    ABOUT,
    FORMULA,
    LESSON,
    LOOP,
    STRATEGY,
    TASK,
    TOOL,
    TOOL_LESSON,
    Agent,
    Asked,
    Cast,
    agent_record,
    call,
    decision_on,
    fenced,
    first_run,
    plan_of,
    said,
    subtask,
    tool_record,
    wanted,
)
from .test_loop_creation import ONE_OFF, creation_of

THREAD: Any = {"configurable": {"thread_id": "t"}}
BETTER = FORMULA.replace("n * (n + 1) * (2 * n + 1) // 6", "sum(i * i for i in range(n + 1))")
CUBES = "sum_of_cubes"
OFF_BY_ONE = FORMULA.replace("(2 * n + 1) // 6", "(2 * n + 1) // 6 + 1")


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """An agent whose runs can wait."""
    agent.compile(checkpointer=InMemorySaver())
    return agent


async def begin(agent: Agent, cast: Cast, **settings: Any) -> dict[str, Any]:
    """Run until it waits; return the one question."""
    settings = {"approve": "always", **settings}
    end = await agent.start(cast, {"task": TASK}, config=THREAD, **settings)
    [asked] = end["__interrupt__"]
    return asked.value  # type: ignore[no-any-return]


async def answer(agent: Agent, value: Any, **settings: Any) -> dict[str, Any]:
    """Resume with an answer; return the state in which it stops next."""
    settings = {"approve": "always", **settings}
    return await agent.start(agent.cast, Command(resume=value), config=THREAD, **settings)  # type: ignore[arg-type]


async def test_the_question_holds_what_it_takes_to_decide(agent: Agent) -> None:
    """Code, cases with their origin, permissions and reasons; nothing is stored before the answer."""
    question = await begin(agent, first_run())

    assert question["tool"] == TOOL
    assert (question["version"], question["description"]) == (1, ABOUT)
    assert question["code"] == FORMULA
    assert {case["origin"] for case in question["cases"]} == {"agreement"}
    assert {"n": 10} in [case["args"] for case in question["cases"]]
    assert question["permissions"] == []
    assert question["reasons"] == ["every tool is shown to a person (approve=always)"]
    assert (question["diff"], question["note"]) == ("", "")
    assert await agent.memory.find_by_name("tool", TOOL) == []


async def test_a_yes_keeps_the_tool_and_asks_no_model_again(agent: Agent) -> None:
    """The run goes on where it stopped: each prompt was asked as often as without the stop."""
    cast = first_run()
    await begin(agent, cast)
    end = await answer(agent, {"approve": True, "reason": "read it"})

    cast.assert_spent()
    assert cast.order.count("tool") == cast.order.count("plan") == 1
    assert (end["answer"], end["verdict"]) == ("385", "success")
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert [change.reason for change in tool.history][:2] == [
        "passed its cases",
        "approved by a person: read it",
    ]
    assert tool.status == "active"


async def test_the_fit_check_is_not_asked_again(agent: Agent) -> None:
    """Choosing among near matches comes before the stop; the answer does not repeat it."""
    near = tool_record(name="sum_of_odd_squares", description="Computes the sum of odd squares")
    await agent.seed(near)
    cast = first_run(fit={"why": "Odd ones only.", "fits": 0})
    await begin(agent, cast, delta=0.99)
    await answer(agent, True, delta=0.99)

    cast.assert_spent()
    assert cast.order.count("fit") == 1


async def test_no_goes_back_to_the_writer_once(agent: Agent) -> None:
    """The writer gets the reason; its next draft is asked about again, and the first is not taken instead."""
    cast = first_run(tool=[fenced(FORMULA), fenced(BETTER)])
    await begin(agent, cast)
    waiting = await answer(agent, "no, because I want a plain sum")
    [second] = waiting["__interrupt__"]
    assert second.value["code"] == BETTER
    assert "a person rejected it: I want a plain sum" in cast.heard("tool")[1]

    end = await answer(agent, "yes")
    cast.assert_spent()
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert tool.code == BETTER
    assert creation_of(end)["approval"] == "approved by a person"
    assert creation_of(end)["outcome"] == "created"


async def test_the_rejected_code_again_is_no_tool(agent: Agent) -> None:
    """A writer that insists is not asked about again."""
    cast = first_run(tool=[fenced(FORMULA)] * 3, **ONE_OFF)
    await begin(agent, cast)
    end = await answer(agent, False)

    assert decision_on(end, "tool")["outcome"] == "none"
    assert await agent.memory.find_by_name("tool", TOOL) == []


async def test_a_second_no_ends_it(agent: Agent) -> None:
    """The trajectory says so, the run goes on without the tool, and nothing is stored."""
    cast = first_run(tool=[fenced(FORMULA), fenced(BETTER)], **ONE_OFF)
    await begin(agent, cast)
    await answer(agent, False)
    end = await answer(agent, {"approve": False, "reason": "still not plain"})

    cast.assert_spent()
    assert creation_of(end)["outcome"] == "rejected: still not plain"
    assert creation_of(end)["asset_id"] == ""
    assert decision_on(end, "tool")["why"].endswith("rejected: still not plain")
    assert (end["answer"], end["verdict"]) == ("385", "success")
    assert await agent.memory.find_by_name("tool", TOOL) == []
    assert agent.files() == {}


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("perhaps", "neither yes nor no"),
        ("yes, but rename it", "conditions"),
        (7, "neither a text nor an object"),
        ({"approved": True}, "approve"),
        ({"approve": "true"}, "approve"),
        ({"approve": True, "cases": [{"args": {"m": 1}, "expected": 1}]}, "['m']"),
        ({"approve": True, "cases": [{"args": {"n": 1}}]}, "one of them"),
    ],
)
async def test_what_is_no_answer_is_asked_again(agent: Agent, value: Any, word: str) -> None:
    """With a note that says what was wrong with it; nothing has happened meanwhile."""
    await begin(agent, first_run())
    waiting = await answer(agent, value)

    [again] = waiting["__interrupt__"]
    assert word in again.value["note"]
    assert again.value["code"] == FORMULA
    end = await answer(agent, True)
    assert decision_on(end, "tool")["outcome"] == "created"


async def test_a_persons_case_that_fails_is_a_no(agent: Agent) -> None:
    """A yes with such a case goes back to the writer, who is told where it fails.

    The second opinion that shares the mistake has no vote any more, and is written anew too.
    """
    off = LOOP.replace("return total", "return total + 1")
    cast = first_run(tool=[fenced(OFF_BY_ONE), fenced(FORMULA)], oracle=[fenced(off), fenced(LOOP)])
    await begin(agent, cast)
    demanded = [{"args": {"n": 10}, "expected": 385}]
    await answer(agent, {"approve": True, "cases": demanded})
    assert 'a person rejected it: called with {"n": 10} it returned 386' in cast.heard("tool")[1]

    await answer(agent, True)
    cast.assert_spent()
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert tool.code == FORMULA
    assert [case.origin for case in tool.cases if case.args == {"n": 10}] == ["person"]


async def test_a_persons_case_that_passes_is_a_case(agent: Agent) -> None:
    """It takes the place of an agreed one for the same input."""
    await begin(agent, first_run())
    cases = [{"args": {"n": 10}, "expected": 385}, {"args": {"n": 4}, "expected": 30}]
    await answer(agent, {"approve": True, "cases": cases})

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    origins = [(case.args["n"], case.origin) for case in tool.cases]
    assert origins.count((10, "person")) == 1
    assert (10, "agreement") not in origins
    assert (4, "person") in origins


async def test_risky_asks_nothing_about_a_plain_tool(agent: Agent) -> None:
    """With a second opinion and no permission nobody is needed."""
    end = await agent.start(first_run(), {"task": TASK}, config=THREAD, approve="risky")

    assert "__interrupt__" not in end
    assert decision_on(end, "tool")["outcome"] == "created"


async def test_without_a_checkpointer_nothing_is_kept(agent: Agent) -> None:
    """A question that cannot be answered is no tool and no lesson; the outcome says what to do."""
    agent.compile()
    cast = first_run(tool_lesson=None, **ONE_OFF)
    end = await agent.run(cast, approve="always")

    assert "__interrupt__" not in end
    outcome = creation_of(end)["outcome"]
    assert outcome.startswith("needs approval (every tool is shown to a person")
    assert "no checkpointer" in outcome
    assert 'approve="never"' in outcome
    assert await agent.memory.find_by_name("tool", TOOL) == []


def two_tools(asked: Asked) -> str:
    """Write either tool."""
    return fenced(FORMULA if TOOL in said(asked) else FORMULA.replace(TOOL, CUBES))


def two_oracles(asked: Asked) -> str:
    """Write either second opinion."""
    return fenced(LOOP if TOOL in said(asked) else LOOP.replace(TOOL, CUBES))


async def test_two_questions_at_once_are_answered_by_id(agent: Agent) -> None:
    """One waits while the other is settled; neither tool is made anew."""
    cubes = wanted(CUBES, "Adds up third powers of a range")
    cast = first_run(
        plan=plan_of(subtask(TASK, wanted()), subtask("Cubes", cubes, key="b")),
        tool=two_tools,
        oracle=two_oracles,
        cases=lambda asked: first_run()._lines["cases"][0],
        agent={"strategy": STRATEGY},
        act=lambda asked: "385",
        aggregate=lambda asked: "385",
        judge=lambda asked: {"evidence": "385", "verdict": "success", "reason": "r"},
        second_answer=lambda asked: "385",
        generalise=lambda asked: LESSON,
        tool_lesson=lambda asked: TOOL_LESSON,
    )
    end = await agent.start(cast, {"task": TASK}, config=THREAD, approve="always")
    ids = {one.value["tool"]: one.id for one in end["__interrupt__"]}
    assert set(ids) == {TOOL, CUBES}

    end = await answer(agent, {ids[CUBES]: "yes"})
    [left] = end["__interrupt__"]
    assert (left.value["tool"], left.id) == (TOOL, ids[TOOL])
    assert await agent.memory.find_by_name("tool", TOOL) == []
    end = await answer(agent, {ids[TOOL]: True})

    assert {one["outcome"] for one in end["decisions"] if one["need"]["kind"] == "tool"} == {
        "created"
    }
    assert cast.order.count("tool") == cast.order.count("oracle") == 2
    assert cast.order.count("cases") == 2


async def test_a_new_version_goes_through_the_same_door(agent: Agent) -> None:
    """The question has the difference to the old version; nothing is written before the answer."""
    wrong = tool_record(code=OFF_BY_ONE, cases=())
    await agent.seed(wrong, agent_record())
    cast = Cast(
        plan=plan_of(),
        act=[call(), "386"],
        second_answer="385",
        judge={
            "evidence": "386",
            "verdict": "failure",
            "reason": "It is 385.",
            "faults": [{"name": TOOL, "why": "one too many", "args": {"n": 10}, "expected": 385}],
        },
        tool=fenced(FORMULA),
        diagnose_run=LESSON,
    )
    question = await begin(agent, cast)
    assert question["version"] == 2
    assert "-    return n * (n + 1) * (2 * n + 1) // 6 + 1" in question["diff"]
    assert (await agent.memory.get("tool", wrong.id)).status == "active"

    end = await answer(agent, True)
    cast.assert_spent()
    [kept] = [one for one in end["kept"] if one["kind"] == "tool"]
    assert (kept["from"], kept["to"]) == ("active", "superseded")
    better = await agent.memory.get("tool", kept["new_id"])
    assert better.history[-1].reason == "approved by a person"


async def test_weak_cases_need_a_person_to_be_promoted(agent: Agent) -> None:
    """Kept unasked, such a tool stays a candidate, whatever the judge says; a person's word is enough."""
    weak = tool_record(status="candidate", mutation_score=0.4)
    await agent.seed(weak, agent_record())
    cast = Cast(plan=plan_of(), act=[call(), "385"], second_answer="385", generalise=LESSON)
    end = await agent.start(cast, {"task": TASK}, config=THREAD, approve="never")

    [kept] = [one for one in end["kept"] if one["kind"] == "tool"]
    assert (kept["to"], kept["reason"]) == ("candidate", "its cases are weak: it needs a person")
    correction = {"run_id": end["run_id"], "right": True, "because": "checked"}
    await agent.start(Cast(generalise=LESSON), {"correction": correction}, config=THREAD)
    assert (await agent.memory.get("tool", weak.id)).status == "active"


def test_without_an_event_loop(agent: Agent) -> None:
    """`graph.invoke` waits and goes on just so."""
    agent.cast = cast = first_run()
    context = {"web": False, "approve": "always"}
    end = agent.graph.invoke({"task": TASK}, THREAD, context=context)
    [asked] = end["__interrupt__"]
    assert asked.value["tool"] == TOOL
    end = agent.graph.invoke(Command(resume=True), THREAD, context=context)

    cast.assert_spent()
    assert (end["answer"], end["verdict"]) == ("385", "success")
    asyncio.run(agent.resources.close())


async def test_the_callers_run_id_is_the_runs(agent: Agent) -> None:
    """A caller who names the run finds its record by that name."""
    key = "0b2f9c1e-3f43-4c3e-9a5d-6f0d3f6a1b2c"
    end = await agent.start(first_run(), {"task": TASK}, config={**THREAD, "run_id": key})

    assert end["run_id"] == key
    assert (await agent.record(end)).answer == "385"
