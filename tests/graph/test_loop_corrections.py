"""A person's verdict on an earlier run, given as input."""

from typing import Any

import pytest

from mem2evolve.errors import NotFoundError

from .conftest import (
    EXPERT,
    FORMULA,
    LESSON,
    LOOP,
    TASK,
    TOOL,
    TOOL_LESSON,
    Agent,
    Cast,
    Open,
    agent_record,
    call,
    fenced,
    first_run,
    plan_of,
    tool_record,
)

DIAGNOSED = {**LESSON, "title": "Mind the bounds", "knowledge": "Ask whether n itself counts."}
BROKEN = fenced("import os\n")


def says(run: dict[str, Any], *, right: bool, because: str) -> dict[str, Any]:
    """Return a person's verdict as the input of a run."""
    return {"correction": {"run_id": run["run_id"], "right": right, "because": because}}


async def correct(agent: Agent, cast: Cast, given: dict[str, Any]) -> dict[str, Any]:
    """Give the verdict; all of the script must be asked for."""
    end = await agent.start(cast, given)
    cast.assert_spent()
    return end


async def successful_run(agent: Agent) -> dict[str, Any]:
    """Return a run with the tool from before, judged a success, with a lesson."""
    await agent.seed()
    return await agent.run(
        Cast(plan=plan_of(), act=[call(), "385"], second_answer="385", generalise=LESSON)
    )


async def test_wrong_supersedes_lessons_and_quarantines(agent: Agent) -> None:
    """The lesson of the success is set aside, the named tool is not used any more, the failure is diagnosed."""
    run = await successful_run(agent)
    cast = Cast(tool=[BROKEN] * 3, diagnose_run=DIAGNOSED)
    end = await correct(
        agent, cast, says(run, right=False, because=f"{TOOL} leaves out the last number")
    )

    assert end["run_id"] == run["run_id"]
    assert (end["verdict"], end["judgement"]["by"]) == ("failure", "person")
    lessons = {one.title: one for one in await agent.memory.list("experience")}
    assert lessons[LESSON["title"]].status == "superseded"
    assert lessons[LESSON["title"]].history[-1].reason == "a person judged the run anew"
    assert lessons[DIAGNOSED["title"]].status == "active"
    assert lessons[DIAGNOSED["title"]].outcome == "failure"
    assert await agent.statuses() == {f"{TOOL} v1": "quarantined", f"{EXPERT} v1": "active"}
    assert "leaves out the last number" in cast.heard("diagnose_run")[0]
    record = await agent.record(run)
    assert (record.verdict, record.verdict_by, record.answer) == ("failure", "person", "385")
    assert record.learned == (lessons[DIAGNOSED["title"]].id,)
    assert record.helped == ()
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    assert tool.id in record.assets
    assert tool.id not in record.won
    assert (await agent.counts())["run"] == 1


async def test_a_quarantined_tool_is_not_recruited(agent: Agent) -> None:
    """The next task makes one, under another name."""
    await agent.seed(tool_record(status="quarantined"), agent_record())
    numbered = f"{TOOL}_2"
    cast = first_run(
        agent=None,
        tool=fenced(FORMULA.replace(TOOL, numbered)),
        oracle=fenced(LOOP.replace(TOOL, numbered)),
        act=[call(10, numbered), "385"],
    )
    await agent.run(cast)

    assert (await agent.statuses())[f"{numbered} v1"] == "active"


async def test_wrong_with_a_model_that_can_mend_makes_a_new_version(agent: Agent) -> None:
    """The person's words are what the writer is told."""
    run = await successful_run(agent)
    mended = FORMULA.replace("if n < 0", "if n < 1")
    tool_cases = tool_record().cases
    cast = Cast(
        tool=[fenced(mended), fenced(FORMULA.replace("// 6", "// 2 // 3"))], diagnose_run=DIAGNOSED
    )
    await correct(agent, cast, says(run, right=False, because=f"{TOOL} is too slow"))

    new, old = await agent.memory.find_by_name("tool", TOOL)
    assert (old.status, new.status, new.supersedes) == ("superseded", "candidate", old.id)
    assert new.cases == tool_cases
    first, second = cast.heard("tool")
    assert f"- {TOOL} is too slow" in first
    assert 'called with {"n": 0} it raised ValueError: n is negative' in second
    assert new.history[0].reason == f"mends: {TOOL} is too slow"


async def test_wrong_without_a_name_asks_the_judge_whose_fault_it_is(agent: Agent) -> None:
    """The person's verdict stands; the judge only finds the asset."""
    run = await successful_run(agent)
    blame = {
        "evidence": "x",
        "verdict": "success",
        "reason": "x",
        "faults": [{"name": TOOL, "why": "leaves out n"}],
    }
    cast = Cast(judge=blame, tool=[BROKEN] * 3, diagnose_run=DIAGNOSED)
    end = await correct(agent, cast, says(run, right=False, because="It should be 285."))

    assert "A person says that the answer is wrong: It should be 285." in cast.heard("judge")[0]
    assert end["verdict"] == "failure"
    assert (await agent.statuses())[f"{TOOL} v1"] == "quarantined"


async def test_right_promotes_a_candidate(open_agent: Open) -> None:
    """After an abstention, a person's word makes tool and expert active, and lessons are drawn."""
    agent = open_agent(checker=lambda task, answer: None)
    parts = {"second_answer": None, "generalise": None, "tool_lesson": None}
    run = await agent.run(first_run(**parts))
    assert set((await agent.statuses()).values()) == {"candidate"}
    end = await correct(
        agent,
        Cast(generalise=LESSON, tool_lesson=TOOL_LESSON),
        says(run, right=True, because="I checked it."),
    )

    assert await agent.statuses() == {
        f"{TOOL} v1": "active",
        f"{EXPERT} v1": "superseded",
        f"{EXPERT} v2": "active",
    }
    assert (end["verdict"], end["answer"]) == ("success", "385")
    assert [one["new"] for one in end["learned"]] == [True, True]
    record = await agent.record(run)
    assert (record.verdict, record.verdict_by, record.task) == ("success", "person", TASK)
    assert set(record.won) == set(record.assets) != set()


async def test_right_releases_from_quarantine(agent: Agent) -> None:
    """A person who changes their mind gets the tool back."""
    run = await successful_run(agent)
    wrong = says(run, right=False, because=f"{TOOL} is wrong")
    await correct(agent, Cast(tool=[BROKEN] * 3, diagnose_run=DIAGNOSED), wrong)
    right = says(run, right=True, because="I was wrong.")
    better = {**LESSON, "title": "Right after all"}
    await correct(agent, Cast(generalise=better), right)

    assert (await agent.statuses())[f"{TOOL} v1"] == "active"
    statuses = {one.title: one.status for one in await agent.memory.list("experience")}
    assert statuses[DIAGNOSED["title"]] == "superseded"
    assert statuses["Right after all"] == "active"


async def test_a_lesson_drawn_again_in_the_same_words_counts(agent: Agent) -> None:
    """A person who confirms a success does not lose its lesson."""
    run = await successful_run(agent)
    await correct(agent, Cast(generalise=LESSON), says(run, right=True, because="Yes."))

    [lesson] = await agent.memory.list("experience")
    assert lesson.status == "active"


async def test_a_correction_leaves_what_the_run_did_and_cost(agent: Agent) -> None:
    """Tokens, seconds, results and decisions of the record are those of the run itself."""
    run = await successful_run(agent)
    before = await agent.record(run)
    await correct(
        agent,
        Cast(tool=[BROKEN] * 3, diagnose_run=DIAGNOSED),
        says(run, right=False, because=f"{TOOL} is wrong"),
    )

    after = await agent.record(run)
    judged = {"verdict", "verdict_by", "critique", "won", "learned"}
    assert {
        name for name in type(before).model_fields if getattr(before, name) != getattr(after, name)
    } == judged


async def test_an_unknown_run_is_refused(agent: Agent) -> None:
    """The error names the run and how to find those there are."""
    with pytest.raises(NotFoundError, match="'no-such-run' is not known"):
        await agent.start(Cast(), says({"run_id": "no-such-run"}, right=True, because=""))


async def test_a_correction_teaches_where_its_run_was(agent: Agent) -> None:
    """A lesson of one namespace does not leak into another, whatever the settings of the correction."""
    end = await agent.run(first_run(), namespace="elsewhere")
    correction = {"run_id": end["run_id"], "right": True, "because": "Yes."}
    await agent.start(Cast(generalise=LESSON, tool_lesson=TOOL_LESSON), {"correction": correction})

    lessons = await agent.memory.list("experience")
    assert {lesson.namespace for lesson in lessons} == {"elsewhere"}
    assert (await agent.record(end)).namespace == "elsewhere"
