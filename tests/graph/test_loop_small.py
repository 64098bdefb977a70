"""What differs for a small model: drafts side by side, no mending, and a judge that is not trusted."""

from dataclasses import replace

import pytest

from mem2evolve.models import pool
from mem2evolve.models.profiles import SMALL

from .conftest import FORMULA, LOOP, TASK, TOOL, Agent, decision_on, fenced, first_run
from .test_loop_creation import creation_of, drafts_of

OFF_AT_TEN = FORMULA.replace("    return n", "    if n == 10:\n        return 384\n    return n")
OFF_AT_THREE = FORMULA.replace("    return n", "    if n == 3:\n        return 13\n    return n")
TYPED = LOOP.replace(f"def {TOOL}(n):", f"def {TOOL}(n: int) -> int:")


@pytest.fixture
def small(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent whose model is taken for a small one that can call tools."""
    monkeypatch.setattr(pool, "CAPABLE", replace(SMALL, actions="native"))
    return agent


async def test_a_second_opinion_that_passes_serves_as_the_tool(small: Agent) -> None:
    """Two drafts each fail a case that the other two confirm; the plain version is kept, documented, in one round."""
    cast = first_run(tool=[fenced(OFF_AT_TEN), fenced(OFF_AT_THREE)], oracle=fenced(TYPED))
    end = await small.run(cast)

    assert decision_on(end, "tool")["outcome"] == "created"
    assert drafts_of(end) == [("tool", 1, False), ("tool", 1, False), ("oracle", 1, True)]
    [tool] = await small.memory.find_by_name("tool", TOOL)
    assert tool.code == TYPED.replace(
        "    if n < 0", f'    """{tool.description}."""\n    if n < 0', 1
    )
    assert tool.second_opinion


async def test_a_draft_without_a_docstring_gets_the_need_as_one(small: Agent) -> None:
    """To write all of it anew for a sentence would be a waste; that it is missing says nothing of the code."""
    bare = FORMULA.replace(FORMULA[FORMULA.index('    """') : FORMULA.rindex('"""') + 4], "")
    assert '"""' not in bare
    end = await small.run(first_run(tool=[fenced(bare), fenced("def (")]))

    assert creation_of(end)["first_pass"]
    [tool] = await small.memory.find_by_name("tool", TOOL)
    assert f'    """{tool.description}."""\n' in tool.code


async def test_a_later_round_draws_one_draft_and_shows_no_failures(small: Agent) -> None:
    """A small model does not mend its code; what it wrote before goes on voting."""
    first = [fenced(OFF_AT_TEN), fenced(OFF_AT_THREE)]
    untyped = [fenced(LOOP), fenced(LOOP)]  # votes, but is no tool: its parameters have no types
    end = await small.run(first_run(tool=[*first, fenced(FORMULA)], oracle=untyped))

    assert creation_of(end)["rounds"] == 2
    assert [draft["round"] for draft in creation_of(end)["drafts"]] == [1, 1, 1, 2, 2]
    assert all("faults" not in text for text in small.cast.heard("tool"))


async def test_it_abstains_where_the_second_answer_differs(small: Agent) -> None:
    """Its own opinion is not asked for: nothing is learned, the tool stays a candidate."""
    cast = first_run(
        tool=[fenced(FORMULA), fenced(FORMULA)],
        second_answer="384",
        generalise=None,
        tool_lesson=None,
    )
    end = await small.run(cast, TASK)

    assert (end["verdict"], end["learned"]) == ("abstained", [])
    assert (await small.statuses())[f"{TOOL} v1"] == "candidate"
