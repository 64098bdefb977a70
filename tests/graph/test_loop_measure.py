"""The tests are tested before a tool is kept: what the cases do not notice is looked for, and may fault the tool."""

from .conftest import FORMULA, LOOP, TOOL, Agent, fenced, first_run
from .test_loop_creation import creation_of, drafts_of

OFF_BEYOND = FORMULA.replace("    return n", "    return (12 < n < 20) + n")
"""Wrong where no chosen input lies, but inputs near them do."""
FAR = (
    "    if n == 4000:\n        return 17 * 3 + 2\n"
    "    if n == 5000:\n        return 23 * 5 - 4\n"
    "    if n == 6000:\n        return 29 * 7 + 6\n"
    "    if n == 7000:\n        return 31 * 9 - 8\n"
)
FAR_FORMULA = FORMULA.replace("    return n", f"{FAR}    return n")
FAR_LOOP = LOOP.replace("    total = 0\n", f"{FAR}    total = 0\n")
"""Both have four branches that no input near the chosen ones reaches."""


async def test_a_generated_input_may_fault_the_tool(agent: Agent) -> None:
    """All chosen inputs pass; the model says which of two results is right, and the writer is told."""
    seen = {"why": "Added up by hand.", "right": "second"}
    cast = first_run(tool=[fenced(OFF_BEYOND), fenced(FORMULA)], diagnose=[seen, seen])
    end = await agent.run(cast)

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert tool.code == FORMULA
    assert drafts_of(end) == [("tool", 1, False), ("oracle", 1, True), ("tool", 2, True)]
    assert not creation_of(end)["first_pass"]
    assert "it should have returned" in cast.heard("tool")[1]
    beyond = [case.args["n"] for case in tool.cases if 12 < case.args["n"] < 20]
    assert len(beyond) >= 2
    assert tool.mutation_score is not None
    assert tool.mutation_score >= 0.5


async def test_a_right_tool_is_not_faulted_by_a_wrong_second_opinion(agent: Agent) -> None:
    """The model finds the other one wrong: the input becomes a case of the tool as it is."""
    off = LOOP.replace("    return total", "    return total + (12 < n < 20)")
    seen = {"why": "Added up by hand.", "right": "first"}
    end = await agent.run(first_run(oracle=fenced(off), diagnose=[seen, seen]))

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert (tool.code, creation_of(end)["first_pass"]) == (FORMULA, True)
    assert any(12 < case.args["n"] < 20 for case in tool.cases)


async def test_what_survives_is_asked_about(agent: Agent) -> None:
    """Mutants that no generated input kills are shown; what the model names becomes a case if both agree."""
    asked = {"inputs": [{"n": 4000}, {"n": 5000}, {"n": 6000}, {"n": 7000}]}
    cast = first_run(tool=fenced(FAR_FORMULA), oracle=fenced(FAR_LOOP), more_inputs=asked)
    end = await agent.run(cast)

    [shown] = cast.heard("more_inputs")
    assert "line " in shown
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert {case.args["n"]: case.expected for case in tool.cases}[4000] == 53
    assert tool.mutation_score is not None
    assert tool.mutation_score > 0.75
    assert creation_of(end)["mutation_score"] == tool.mutation_score
