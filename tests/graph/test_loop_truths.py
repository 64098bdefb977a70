"""What is believed about a tool that nobody has seen: the task's examples, properties, and agreement or none."""

from typing import Any

from .conftest import (
    FORMULA,
    INPUTS,
    LOOP,
    TASK,
    TOOL,
    Agent,
    fenced,
    first_run,
)
from .test_loop_creation import creation_of, drafts_of

EXAMPLE = "For n = 3 it is 14."
STATED = {"quote": "For n = 3 it is 14", "args": {"n": 3}, "expected": 14}
OFF_FORMULA = FORMULA.replace("    return n", "    return (n == 3) + n")
OFF_LOOP = LOOP.replace("    return total", "    return total + (n == 3)")
"""Both make 15 of 3: the same misreading of the need."""


def claims(**truths: Any) -> dict[str, Any]:
    """Return the reply of whoever chooses the inputs, with what it says of the results."""
    return {**INPUTS, **truths}


async def test_the_tasks_example_outweighs_agreement(agent: Agent) -> None:
    """Two implementations agree on 15, the task says 14: the writer is told, and mends it."""
    cast = first_run(
        cases=claims(stated=[STATED]),
        tool=[fenced(OFF_FORMULA), fenced(FORMULA)],
        oracle=[fenced(OFF_LOOP), fenced(LOOP)],
    )
    end = await agent.run(cast, f"{TASK} {EXAMPLE}")

    assert EXAMPLE in cast.heard("cases")[0]
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert tool.code == FORMULA
    origins = {case.args["n"]: case.origin for case in tool.cases}
    assert origins.pop(3) == "task"
    assert set(origins.values()) == {"agreement"}
    assert (
        'called with {"n": 3} it returned 15; it should have returned 14' in cast.heard("tool")[1]
    )
    assert drafts_of(end)[0] == ("tool", 1, False)
    assert creation_of(end)["stated"][0]["origin"] == "task"


async def test_an_example_that_the_task_does_not_give_is_none(agent: Agent) -> None:
    """The model made it up: it is no case, and the tool is made as without it."""
    made_up = {"quote": "For n = 3 it is 15", "args": {"n": 3}, "expected": 15}
    end = await agent.run(first_run(cases=claims(stated=[made_up])), f"{TASK} {EXAMPLE}")

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert {case.origin for case in tool.cases} == {"agreement"}
    assert creation_of(end)["stated"] == []


async def test_a_property_of_the_need_is_a_case(agent: Agent) -> None:
    """Named before any code was seen, kept by the code, and recorded with its origin."""
    await agent.run(first_run(cases=claims(properties=["not_negative", "beautiful"])))

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert [(case.property, case.args) for case in tool.cases if case.origin == "property"] == [
        ("not_negative", {"n": 10}),
        ("not_negative", {"n": 3}),
    ]


async def test_a_draft_that_breaks_a_property_is_told(agent: Agent) -> None:
    """The second implementation keeps what the need asks for; the draft does not."""
    negative = FORMULA.replace("return n", "return -n")
    cast = first_run(
        cases=claims(properties=["not_negative"]),
        tool=[fenced(negative), fenced(FORMULA)],
        diagnose=[{"why": "Squares are positive.", "right": "second"}] * 2,
    )
    await agent.run(cast)

    assert "it must hold that the result is a number ≥ 0" in cast.heard("tool")[1]
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert tool.code == FORMULA


async def test_without_agreement_no_second_opinion_is_paid_for(agent: Agent) -> None:
    """The task's cases only: the tool is marked, and the verdict decides what becomes of it."""
    cast = first_run(cases=claims(stated=[STATED]), oracle=None)
    await agent.run(cast, f"{TASK} {EXAMPLE}", agreement=False, approve="never")

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert (tool.second_opinion, [case.origin for case in tool.cases]) == (False, ["task"])
    assert tool.status == "active"
    assert "oracle" not in cast.order


async def test_without_agreement_a_tool_must_at_least_return(agent: Agent) -> None:
    """One that refuses typical inputs is told so, whatever nobody knows about its results."""
    refusing = FORMULA.replace("n < 0", "n > 2")
    cast = first_run(oracle=None, tool=[fenced(refusing), fenced(FORMULA)])
    await agent.run(cast, agreement=False, approve="never")

    assert 'called with {"n": 10} it raised ValueError' in cast.heard("tool")[1]
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert (tool.code, tool.cases) == (FORMULA, ())


async def test_a_second_opinion_that_agrees_on_nothing_is_none(agent: Agent) -> None:
    """Four examples make the tool; the other implementation fails them, and has no vote."""
    told = "Of 3 it is 14, of 4 it is 30, of 5 it is 55, of 6 it is 91."
    pairs = {3: 14, 4: 30, 5: 55, 6: 91}
    stated = [
        {"quote": f"of {n} it is {value}", "args": {"n": n}, "expected": value}
        for n, value in pairs.items()
    ]
    off = LOOP.replace("return total", "return total + 1")
    inputs = {"typical": [{"n": 3}, {"n": 4}], "edge": [{"n": 5}, {"n": 6}], "invalid": []}
    cast = first_run(cases={**inputs, "stated": stated}, oracle=fenced(off), diagnose=None)
    await agent.run(cast, f"{TASK} {told}", approve="never")

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert {case.origin for case in tool.cases} == {"task"}
    assert not tool.second_opinion
