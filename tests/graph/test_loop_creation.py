"""Making a tool: self-correction, what counts as agreement, and when there is no tool."""

import os
from pathlib import Path
from typing import Any

import pytest

from ..openai_server import reply_tools
from ..wheels import add_wheel
from .conftest import (
    ABOUT,
    FORMULA,
    INPUTS,
    LESSON,
    LOOP,
    TASK,
    TOOL,
    TOOL_LESSON,
    Agent,
    call,
    decision_on,
    fenced,
    first_run,
    offered,
    plan_of,
    subtask,
    wanted,
)

SHELL = FORMULA.replace("    if n < 0", "    import os\n    if n < 0")
"""Reaches for the operating system: the screen refuses it."""
WRONG = FORMULA.replace("(2 * n + 1)", "(2 * n + 2)")
"""Wrong for every input but 0 and 1."""
SAME_AGAIN = '''
def sum_of_squares(count):
    """Another docstring, other names, other words."""
    # and a comment
    if count < 0:
        raise ValueError("count must not be negative")
    return count*(count+1)*(2*count+1)//6
'''
PYTHON = reply_tools(("python", {"code": "print(sum(i * i for i in range(1, 11)))"}))
ONE_OFF: dict[str, Any] = {"act": [PYTHON, "385"]}


def creation_of(end: dict[str, Any]) -> dict[str, Any]:
    """Return the one creation trajectory."""
    [found] = end["creations"]
    return found  # type: ignore[no-any-return]


def drafts_of(end: dict[str, Any]) -> list[tuple[str, int, bool]]:
    """Return role, round and whether it passes, of each draft."""
    return [(one["role"], one["round"], not one["problems"]) for one in creation_of(end)["drafts"]]


async def test_a_draft_that_fails_the_screen_is_mended(agent: Agent) -> None:
    """The writer is shown what the screen found; the second round passes; the trajectory holds both."""
    cast = first_run(tool=[fenced(SHELL), fenced(FORMULA)])
    end = await agent.run(cast)

    assert decision_on(end, "tool")["outcome"] == "created"
    creation = creation_of(end)
    assert (creation["rounds"], creation["first_pass"]) == (2, False)
    first, second = cast.heard("tool")
    assert "os" in creation["drafts"][0]["problems"][0]
    assert creation["drafts"][0]["problems"][0] not in first
    assert creation["drafts"][0]["problems"][0] in second
    assert "import os" in second
    assert drafts_of(end) == [("tool", 1, False), ("oracle", 1, True), ("tool", 2, True)]
    [story] = cast.heard("tool_lesson")
    assert creation["drafts"][0]["problems"][0] in story
    assert "Round 2: passed all confirmed cases" in story
    assert "made after 2 rounds" in story


async def test_a_draft_that_fails_a_case_is_mended(agent: Agent) -> None:
    """The model, shown the disagreement, names the right result; the writer is told the call that fails."""
    cast = first_run(
        tool=[fenced(WRONG), fenced(FORMULA)],
        diagnose=[
            {"why": "1 + 4 + … + 100 = 385", "right": "second"},
            {"why": "1 + 4 + 9 = 14", "right": "second"},
        ],
    )
    end = await agent.run(cast)

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert tool.code == FORMULA
    asked = cast.heard("diagnose")
    for text, n, first, second in (
        (asked[0], 10, 403, 385),
        (asked[1], 3, 16, 14),
    ):
        assert f'{{"n": {n}}}' in text
        assert f"<first>\nreturned {first}\n</first>" in text
        assert f"<second>\nreturned {second}\n</second>" in text
    problem = 'called with {"n": 10} it returned 403; it should have returned 385'
    assert problem in cast.heard("tool")[1]
    assert drafts_of(end) == [("tool", 1, False), ("oracle", 1, True), ("tool", 2, True)]
    assert creation_of(end)["contested"] == []


async def test_a_disagreement_may_be_the_second_opinions_fault(agent: Agent) -> None:
    """When the model finds the other implementation wrong, the tool passes in the first round."""
    off = LOOP.replace("    return total", "    return total + (n == 3)")
    cast = first_run(oracle=fenced(off), diagnose={"why": "1 + 4 + 9 = 14", "right": "first"})
    end = await agent.run(cast)

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert {case.args["n"]: case.expected for case in tool.cases}[3] == 14
    assert (creation_of(end)["rounds"], creation_of(end)["contested"]) == (1, [])


async def test_an_open_disagreement_on_a_typical_input_is_no_tool(agent: Agent) -> None:
    """What the need leaves open is not settled by taking one side."""
    off = LOOP.replace("    return total", "    return total + (n == 3)")
    unclear = {"why": "It may count 3 twice.", "right": "unclear"}
    end = await agent.run(
        first_run(oracle=fenced(off), diagnose=unclear, **ONE_OFF), debug_rounds=1
    )

    creation = creation_of(end)
    assert creation["outcome"] == "the implementations disagree on 1 typical inputs"
    [contested] = creation["contested"]
    assert (contested["args"], contested["why"]) == ({"n": 3}, "It may count 3 twice.")
    assert contested["results"] == ["returned 14", "returned 15"]


async def test_three_bad_rounds_are_no_tool(agent: Agent) -> None:
    """The run goes on with `python`, and how it failed becomes a lesson for making tools."""
    cast = first_run(tool=[fenced(SHELL)] * 3, **ONE_OFF)
    end = await agent.run(cast)

    decision = decision_on(end, "tool")
    assert (decision["outcome"], decision["asset_id"], decision["record"]) == ("none", "", None)
    assert decision["why"].endswith("no tool was made: no draft of the tool passed the screen")
    assert creation_of(end)["rounds"] == 3
    assert creation_of(end)["asset_id"] == ""
    assert offered(cast.requests("act")[0]) == ["python"]
    assert (end["answer"], end["verdict"]) == ("385", "success")
    assert end["results"][0]["calls"][0]["ok"]
    assert await agent.memory.find_by_name("tool", TOOL) == []
    assert agent.files() == {}
    assert "not made: no draft of the tool passed the screen" in cast.heard("tool_lesson")[0]
    lessons = {one.scope: one.outcome for one in await agent.memory.list("experience")}
    assert lessons == {"agent": "success", "tool": "failure"}


async def test_the_number_of_rounds_is_a_setting(agent: Agent) -> None:
    """`debug_rounds=1` asks for one draft and one second opinion, no more."""
    cast = first_run(tool=fenced(SHELL), **ONE_OFF)
    end = await agent.run(cast, debug_rounds=1)

    assert creation_of(end)["rounds"] == 1
    assert cast.order.count("tool") == cast.order.count("oracle") == 1


async def test_the_same_code_twice_is_one_opinion(agent: Agent) -> None:
    """Other names, comments and words make no second implementation: nothing is confirmed."""
    cast = first_run(
        oracle=[fenced(SAME_AGAIN), fenced(FORMULA), fenced(SAME_AGAIN)],
        **ONE_OFF,
    )
    end = await agent.run(cast)

    assert creation_of(end)["outcome"] == "only 0 cases are confirmed, 4 are needed"
    assert creation_of(end)["cases"] == 0
    assert await agent.memory.find_by_name("tool", TOOL) == []


async def test_a_second_opinion_is_asked_for_again(agent: Agent) -> None:
    """The same code twice: only the second one is written again, and once it differs, the tool is made."""
    loop = LOOP.replace("(n):", '(n: int) -> int:\n    """Sum."""')
    cast = first_run(oracle=[fenced(SAME_AGAIN), fenced(loop)])
    end = await agent.run(cast)

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert (tool.second_opinion, len(tool.cases)) == (True, 9)
    assert (creation_of(end)["rounds"], creation_of(end)["first_pass"]) == (2, False)


async def test_fewer_than_four_confirmed_cases_are_no_tool(agent: Agent) -> None:
    """Two implementations that agree on two inputs only have shown nothing."""
    zero = LOOP.replace("    return total", "    return 0")
    unclear = {"why": "The need does not say.", "right": "unclear"}
    cast = first_run(oracle=fenced(zero), diagnose=[unclear, unclear], **ONE_OFF)
    end = await agent.run(cast, debug_rounds=1)

    creation = creation_of(end)
    assert (creation["cases"], creation["outcome"]) == (
        2,
        "only 2 cases are confirmed, 4 are needed",
    )
    assert [one["why"] for one in creation["contested"]] == [unclear["why"]] * 2 + [""] * 5
    assert await agent.memory.find_by_name("tool", TOOL) == []


async def test_without_inputs_no_more_code_is_written(agent: Agent) -> None:
    """Inputs that cannot be read, also after the repair, end it after one round."""
    cast = first_run(cases="I would try ten.", repair="Ten, as I said.", **ONE_OFF)
    end = await agent.run(cast)

    assert creation_of(end)["rounds"] == 1
    assert cast.order.count("tool") == 1
    assert decision_on(end, "tool")["outcome"] == "none"


async def test_a_signature_that_the_plan_leaves_open_is_asked_for(agent: Agent) -> None:
    """A need without typed parameters gets them from the model before anything is written."""
    plan = plan_of(subtask(TASK, wanted(takes="the last number")))
    asked = {"parameters": [{"name": "n", "type": "int"}], "returns": "int"}
    cast = first_run(plan=plan, signature=asked)
    end = await agent.run(cast)

    assert "Input: the last number" in cast.heard("signature")[0]
    assert creation_of(end)["signature"] == f"{TOOL}(n: int) -> int"
    assert decision_on(end, "tool")["outcome"] == "created"


async def test_a_signature_that_is_no_python_is_no_tool(agent: Agent) -> None:
    """The attempt is recorded with its reason, and the run goes on."""
    plan = plan_of(subtask(TASK, wanted(takes="the last number")))
    asked = {"parameters": [{"name": "n", "type": "an int!"}], "returns": "int"}
    cast = first_run(
        plan=plan, signature=asked, cases=None, tool=None, oracle=None, tool_lesson=None, **ONE_OFF
    )
    end = await agent.run(cast)

    assert "is no Python" in creation_of(end)["outcome"]
    assert decision_on(end, "tool")["outcome"] == "none"
    assert end["answer"] == "385"


async def test_tool_experience_and_near_misses_steer_the_making(agent: Agent) -> None:
    """A lesson from making a like tool is shown to the writer, not to the second opinion."""
    await agent.run(first_run())
    cubes = wanted("sum_of_cubes", "Computes the sum of the cubes of the whole numbers from 1 to n")
    by_formula = FORMULA.replace(TOOL, "sum_of_cubes").replace(
        "n * (n + 1) * (2 * n + 1) // 6", "(n * (n + 1) // 2) ** 2"
    )
    by_loop = LOOP.replace(TOOL, "sum_of_cubes").replace("i * i", "i * i * i")
    cast = first_run(
        plan=plan_of(subtask("cubes", cubes)),
        fit={"why": "Squares are no cubes.", "fits": 0},
        agent=None,
        tool=fenced(by_formula),
        oracle=fenced(by_loop),
        act=[call(10, "sum_of_cubes"), "3025"],
        second_answer="3025",
        generalise=LESSON,
        tool_lesson=TOOL_LESSON,
    )
    end = await agent.run(cast, "What is the sum of the cubes of the whole numbers from 1 to 10?")

    assert end["answer"] == "3025"
    [shown] = creation_of(end)["lessons"]
    assert TOOL_LESSON["knowledge"] in cast.heard("tool")[0]
    assert TOOL_LESSON["knowledge"] not in cast.heard("oracle")[0]
    assert shown in {one.id for one in await agent.memory.list("experience")}
    [said] = cast.heard("fit")
    assert f"1. {TOOL}: {ABOUT}" in said
    decision = decision_on(end, "tool")
    assert (decision["outcome"], decision["runner_up"]) == ("created", TOOL)
    assert decision["why"] == "Squares are no cubes."


async def test_inputs_that_do_not_fit_the_signature_are_left_out(agent: Agent) -> None:
    """Arguments of other names test nothing; the others stay."""
    odd = {kind: [{"m": 1}, *chosen] for kind, chosen in INPUTS.items()}
    end = await agent.run(first_run(cases=odd))

    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert {tuple(case.args) for case in tool.cases} == {("n",)}
    assert creation_of(end)["cases"] == 9


async def test_a_package_off_the_list_is_a_fault_of_the_draft(agent: Agent) -> None:
    """The writer is told which setting would allow it; what is kept declares nothing."""
    declared = '# /// script\n# dependencies = ["numpy"]\n# ///\nimport numpy\n\n\n' + FORMULA
    cast = first_run(tool=[fenced(declared), fenced(FORMULA)])
    end = await agent.run(cast)

    assert decision_on(end, "tool")["outcome"] == "created"
    assert "'numpy' may not be used: none is allowed" in cast.heard("tool")[1]
    assert "Standard library only; no printing" in cast.heard("tool")[0]


async def test_a_package_on_the_list_is_fetched_used_and_recorded(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is told of it; its cases run with it; the record says what it needs."""
    add_wheel(tmp_path / "wheels", "tiny_sums", {"squares.py": "def root(x):\n    return x\n"})
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path / "cache"))
    agent.reopen(packages=("tiny-sums",))
    head = '# /// script\n# dependencies = ["tiny_sums"]\n# ///\nimport squares\n\n\n'
    source = head + FORMULA.replace("return n *", "return squares.root(n) *")
    cast = first_run(tool=fenced(source))
    end = await agent.run(cast)

    assert decision_on(end, "tool")["outcome"] == "created"
    assert "or also tiny-sums where the module begins with" in cast.heard("tool")[0]
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert tool.dependencies == ("tiny-sums",)
    assert end["answer"] == "385"


async def test_a_tool_may_take_a_date_and_return_a_record(agent: Agent) -> None:
    """Planned with text, written with a date and a dataclass: it agrees with the plain one, is kept and is called."""
    name = "day_of_year"
    source = f'''\
from dataclasses import dataclass
from datetime import date


@dataclass
class Place:
    """Where a day lies.

    Attributes:
        number: From 1.
    """

    number: int
    leap: bool


def {name}(day: date) -> Place:
    """Number a day in its year.

    Args:
        day: The day.

    Returns:
        Place: Where it lies.
    """
    last = date(day.year, 12, 31).timetuple().tm_yday
    return Place(day.timetuple().tm_yday, last == 366)
'''
    plain = f"""\
import datetime as dt
def {name}(day):
    if len(day) != 10:
        raise ValueError("no")
    one = dt.date.fromisoformat(day)
    leap = one.year % 4 == 0 and (one.year % 100 != 0 or one.year % 400 == 0)
    return {{"number": (one - dt.date(one.year, 1, 1)).days + 1, "leap": leap}}
"""
    days = {
        "typical": ["2024-03-01", "2023-03-01"],
        "edge": ["1900-12-31", "2000-12-31"],
        "invalid": ["2023-02-29"],
    }
    cast = first_run(
        plan=plan_of(
            subtask("Number the day", wanted(name, "Numbers a day in its year", "day: date"))
        ),
        cases={kind: [{"day": day} for day in some] for kind, some in days.items()},
        tool=fenced(source),
        oracle=fenced(plain),
        act=[reply_tools((name, {"day": "2024-12-31"})), "366"],
        second_answer="366",
    )
    end = await agent.run(cast, "Which day of its year is 2024-12-31?")

    [tool] = await agent.memory.find_by_name("tool", name)
    assert tool.input_schema["properties"] == {
        "day": {"type": "string", "format": "date", "description": "The day."}
    }
    assert tool.output_schema["properties"]["number"] == {
        "type": "integer",
        "description": "From 1.",
    }
    assert tool.output_schema["description"] == "Where it lies."
    kept = {case.args["day"]: case.raises or case.expected for case in tool.cases}
    assert kept["2024-03-01"] == {"number": 61, "leap": True}
    assert kept["2023-02-29"] == "ValueError"
    [used] = end["results"][0]["calls"]
    assert used["ok"]
    assert '"number": 366' in cast.heard("act")[1]
