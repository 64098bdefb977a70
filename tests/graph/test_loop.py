"""The whole loop: a first task makes and learns, a second one recruits and recalls."""

import asyncio
import threading
from typing import Any, NamedTuple

import pytest

from mem2evolve.memory.records import ExperienceRecord, RunRecord, ToolRecord

from ..openai_server import reply_json, reply_text, reply_tools
from .conftest import (
    ABOUT,
    EXPERT,
    EXPERTISE,
    FORMULA,
    INPUTS,
    LESSON,
    LOOP,
    NEXT_TASK,
    STRATEGY,
    TASK,
    TOOL,
    TOOL_LESSON,
    Agent,
    Asked,
    Cast,
    as_json,
    call,
    decision_on,
    fenced,
    first_run,
    lesson_record,
    new_home,
    offered,
    plan_of,
    said,
    subtask,
    tool_record,
    wanted,
)

EXPECTED = {-1: None, 0: 0, 1: 1, 2: 5, 3: 14, 4: 30, 9: 285, 10: 385, 20: 2870}
"""Value by input: those that the model chose, and those made from them."""


class First(NamedTuple):
    """A first run in an empty home, and what it left behind."""

    end: dict[str, Any]
    cast: Cast
    statuses: dict[str, str]
    tool: ToolRecord
    lessons: list[ExperienceRecord]
    record: RunRecord
    files: dict[str, str]


@pytest.fixture(scope="module")
def first() -> First:
    """The first run, made once for the tests that only look at it."""

    async def run(agent: Agent) -> First:
        cast = first_run()
        end = await agent.run(cast)
        [tool] = await agent.memory.find_by_name("tool", TOOL)
        found = First(
            end=end,
            cast=cast,
            statuses=await agent.statuses(),
            tool=tool,
            lessons=await agent.memory.list("experience"),
            record=await agent.record(end),
            files=agent.files(),
        )
        await agent.resources.close()
        return found

    with new_home() as home, pytest.MonkeyPatch.context() as patch:
        agent = Agent(home)
        patch.setenv("OPENAI_API_KEY", "test")
        patch.setenv("OPENAI_BASE_URL", agent.server.base_url)
        with agent.server:
            return asyncio.run(run(agent))


def test_a_first_task_makes_what_it_lacks(first: First) -> None:
    """Expert and tool are made, used, and promoted by the verdict of a second answer."""
    end, cast = first.end, first.cast

    assert end["answer"] == "385"
    assert end["verdict"] == "success"
    assert end["judgement"]["by"] == "judge"
    assert end["judgement"]["evidence"] == "sum_of_squares(n=10) = 385"
    assert cast.order[0] == "plan"
    assert sorted(cast.order[1:5]) == ["agent", "cases", "oracle", "tool"]
    assert cast.order[5:] == ["act", "act", "second_answer", "generalise", "tool_lesson"]
    assert first.statuses == {
        f"{TOOL} v1": "active",
        f"{EXPERT} v1": "superseded",
        f"{EXPERT} v2": "active",
    }
    assert [(one["name"], one["from"], one["to"], one["reason"]) for one in end["kept"]] == [
        (TOOL, "candidate", "active", "passed its gate; verdict success by judge"),
        (EXPERT, "candidate", "superseded", f"version 2 is active: helped by {TOOL}"),
    ]


def test_the_expert_acts_with_the_tool_by_native_calls(first: First) -> None:
    """It is told who it is and how it works, offered the one tool, and shown what the call returned."""
    end, cast = first.end, first.cast

    first, second = cast.requests("act")
    assert f"You are {EXPERT}: {EXPERTISE}. {STRATEGY}" in said(first)
    assert offered(first) == offered(second) == [TOOL]
    [function] = [tool["function"] for tool in first["tools"]]
    assert function["description"] == "Sum the squares from 1 to n."
    assert function["parameters"]["required"] == ["n"]
    assert [message["role"] for message in second["messages"]] == [
        *("system", "user", "assistant", "tool")
    ]
    assert second["messages"][-1]["content"] == "385"
    [result] = end["results"]
    assert result["calls"] == [{"tool": TOOL, "args": {"n": 10}, "ok": True, "result": "385"}]
    assert (result["result"], result["partial"]) == ("385", False)


def test_cases_come_from_agreement(first: First) -> None:
    """Expected values are what two implementations share; neither writer sees the other's code or the cases."""
    end, cast = first.end, first.cast

    tool = first.tool
    assert {case.args["n"]: case.expected for case in tool.cases} == EXPECTED
    assert {case.args["n"] for case in tool.cases if case.raises == "ValueError"} == {-1}
    assert {case.origin for case in tool.cases} == {"agreement"}
    assert tool.second_opinion
    assert tool.run_id == end["run_id"]
    assert tool.environment["isolation"] == "bubblewrap"
    assert [change.status for change in tool.history] == ["candidate", "active"]
    [oracle], [writer] = cast.heard("oracle"), cast.heard("tool")
    assert "return n * (n + 1)" not in oracle
    assert "total" not in writer
    assert f"def {TOOL}(n: int) -> int" in oracle


def test_a_kept_tool_is_shown_as_files(first: First) -> None:
    """`tool.py`, `cases.json` and `tool.json` hold exactly what the record holds."""
    files = first.files
    tool = first.tool
    folder = f"{TOOL}/v1"
    assert sorted(files) == [f"{folder}/{name}" for name in ("cases.json", "tool.json", "tool.py")]
    assert files[f"{folder}/tool.py"] == tool.code == FORMULA
    assert as_json(files[f"{folder}/cases.json"]) == [
        case.model_dump(mode="json") for case in tool.cases
    ]
    described = as_json(files[f"{folder}/tool.json"])
    assert (described["id"], described["digest"]) == (tool.id, tool.digest)
    assert (described["name"], described["description"]) == (TOOL, ABOUT)
    assert described["input_schema"] == tool.input_schema


def test_both_kinds_of_lessons_are_kept(first: First) -> None:
    """One from how the task was done, one from how the tool was made."""
    end, cast = first.end, first.cast

    kept = {lesson.scope: lesson for lesson in first.lessons}
    assert {key: value for key, value in kept["agent"].model_dump().items() if key in LESSON} == (
        LESSON
    )
    assert kept["agent"].learned_from == TASK
    assert kept["tool"].title == TOOL_LESSON["title"]
    assert kept["tool"].learned_from == f"{TOOL}: {ABOUT}"
    assert {lesson.outcome for lesson in kept.values()} == {"success"}
    assert {lesson.run_id for lesson in kept.values()} == {end["run_id"]}
    assert [(one["id"], one["scope"], one["new"]) for one in end["learned"]] == [
        (kept["agent"].id, "agent", True),
        (kept["tool"].id, "tool", True),
    ]
    [told] = cast.heard("tool_lesson")
    assert "Round 1: passed all confirmed cases" in told
    assert "made after 1 rounds" in told


def test_a_run_is_recorded_whole(first: First) -> None:
    """Decisions with scores, δ and runner-up; what was used and won; how the tool was made."""
    end = first.end

    record = first.record
    assert (record.task, record.answer, record.verdict, record.status) == (
        *(TASK, "385", "success", "done"),
    )
    assert (record.mode, record.model, record.verdict_by) == ("full", "openai:scripted", "judge")
    expert, tool = record.decisions
    assert (expert["outcome"], expert["score"], expert["runner_up"]) == ("created", None, "")
    assert expert["why"] == "nothing of its kind is known"
    assert (tool["outcome"], tool["delta"], tool["runner_up"]) == ("created", 0.5, "read_file")
    assert tool["score"] == tool["candidates"][0]["score"] < 0.35
    assert tool["why"].endswith("below 0.35")
    assert record.assets == record.won == tuple(sorted((expert["asset_id"], tool["asset_id"])))
    assert record.learned == tuple(lesson["id"] for lesson in end["learned"])
    assert (record.lessons, record.helped, record.transient) == ((), (), "")
    [creation] = record.creations
    assert (creation["rounds"], creation["first_pass"], creation["cases"]) == (1, True, 9)
    assert (creation["outcome"], creation["asset_id"]) == ("created", tool["asset_id"])
    assert [(draft["role"], draft["source"]) for draft in creation["drafts"]] == [
        ("tool", FORMULA),
        ("oracle", LOOP),
    ]
    assert creation["web_note"] == "web search is off"


async def test_tokens_are_those_that_the_server_counted(agent: Agent) -> None:
    """Per stage and for both directions; the ledger of the state says the same as the record."""
    sizes = {"prompt_tokens": 1000, "completion_tokens": 100}
    end = await agent.run(
        first_run(
            plan=reply_json(plan_of(), prompt_tokens=1, completion_tokens=2),
            agent=reply_json({"strategy": STRATEGY}, prompt_tokens=10, completion_tokens=20),
            cases=reply_json(INPUTS, prompt_tokens=30, completion_tokens=40),
            tool=reply_text(fenced(FORMULA), prompt_tokens=50, completion_tokens=60),
            oracle=reply_text(fenced(LOOP), prompt_tokens=70, completion_tokens=80),
            act=[reply_tools((TOOL, {"n": 10}), **sizes), reply_text("385", **sizes)],
            second_answer=reply_text("385", prompt_tokens=3, completion_tokens=4),
            generalise=reply_json(LESSON, prompt_tokens=5, completion_tokens=6),
            tool_lesson=reply_json(TOOL_LESSON, prompt_tokens=7, completion_tokens=8),
        )
    )

    record = await agent.record(end)
    counted = {
        stage: (used["calls"], used["prompt"], used["completion"])
        for stage, used in record.tokens.items()
    }
    assert counted == {
        "plan": (1, 1, 2),
        "select_or_create_asset": (1, 10, 20),
        "create:inputs": (1, 30, 40),
        "create:code": (2, 120, 140),
        "act": (2, 2000, 200),
        "evaluate": (1, 3, 4),
        "distill": (2, 12, 14),
        "forward": (7, 2161, 402),
        "backward": (3, 15, 18),
    }
    assert sum(line["prompt"] for line in end["ledger"]) == 2161 + 15
    assert {"total", "forward_model", "backward_model"} == record.seconds.keys()


async def test_a_second_task_recruits_and_recalls(agent: Agent) -> None:
    """In the same home, opened anew, nothing is made; the lesson steers the plan and is only confirmed."""
    first = await agent.run(first_run())
    before = await agent.counts()
    await agent.resources.close()
    agent.reopen()
    cast = Cast(
        plan=plan_of(subtask(NEXT_TASK, wanted())), act=[call(20), "2870"], second_answer="2870"
    )
    end = await agent.run(cast, NEXT_TASK)

    assert (end["answer"], end["verdict"]) == ("2870", "success")
    assert cast.order == ["plan", "act", "act", "second_answer"]
    made = {one["kind"]: one.get("new_id", one["id"]) for one in first["kept"]}
    for kind, uses in (("tool", 1), ("agent", 0)):  # the expert's second version is new
        decision = decision_on(end, kind)
        assert (decision["outcome"], decision["asset_id"]) == ("recruited", made[kind])
        assert (decision["score"], decision["delta"]) == (1.0, 0.5)
        assert decision["why"] == "scores 1.00, beyond doubt from 0.80"
        [best, *_] = decision["candidates"]
        assert (best["status"], best["uses"], best["wins"]) == ("active", uses, uses)
    lesson = first["learned"][0]["id"]
    shown = f"{LESSON['applies_when']}: {LESSON['knowledge']}"
    assert shown in cast.heard("plan")[0]
    assert shown in cast.heard("act")[0]
    assert end["learned"] == [
        {"id": lesson, "title": LESSON["title"], "scope": "agent", "new": False}
    ]
    assert await agent.counts() == before | {"run": 2}
    record = await agent.record(end)
    assert record.lessons == record.helped == record.learned == (lesson,)
    assert record.creations == []
    usage = await agent.memory.usage("tool")
    assert usage[made["tool"]] == (2, 2)


async def test_a_lesson_said_again_is_no_second_record(agent: Agent) -> None:
    """A run that made something new writes its lesson; a near-twin is linked instead."""
    await agent.seed(lesson_record())
    end = await agent.run(first_run())

    assert [one["new"] for one in end["learned"]] == [False, True]
    assert (await agent.counts())["experience"] == 2


async def test_sub_tasks_run_in_waves(agent: Agent) -> None:
    """Two that need nothing run side by side; the one that builds on both gets their results; then one answer."""
    await agent.seed()
    task = "Add the sum of the squares up to 10 to the one up to 3."
    together = threading.Barrier(2, timeout=10)

    def act(asked: Asked) -> object:
        n = 10 if "squares up to ten" in said(asked) else 3
        if asked["messages"][-1]["role"] == "tool":
            return str(EXPECTED[n])
        together.wait()  # the one waits until the other has come
        return call(n)

    cast = Cast(
        plan=plan_of(
            subtask("Sum the squares up to ten", wanted(), key="x"),
            subtask("Sum the squares up to three", wanted(), key="y"),
            subtask("Add the two sums", key="z", after=("x", "y")),
        ),
        act=act,
        answer="399",
        aggregate="The total is 399.",
        second_answer="399",
        generalise=LESSON,
    )
    end = await agent.run(cast, task)

    assert cast.order == [
        *("plan", "act", "act", "act", "act", "answer", "aggregate", "second_answer", "generalise")
    ]
    assert [one["depends_on"] for one in end["plan"]] == [[], [], ["s1", "s2"]]
    assert [one["need"]["subtasks"] for one in end["decisions"]] == [
        ["s1", "s2", "s3"],
        ["s1", "s2"],
    ]
    known = "- Sum the squares up to ten: 385\n- Sum the squares up to three: 14"
    [last] = cast.heard("answer")
    assert f"Known from earlier sub-tasks:\n{known}" in last
    assert f"(This is a part of: {task})" in last
    assert not any("Known from earlier" in text for text in cast.heard("act"))
    assert f"{known}\n- Add the two sums: 399" in cast.heard("aggregate")[0]
    assert end["answer"] == "The total is 399."
    assert (await agent.record(end)).tokens["aggregate"]["calls"] == 1


async def test_near_identical_needs_are_one(agent: Agent) -> None:
    """Two sub-tasks that want the same tool in other words share it: it is made once."""
    reworded = wanted(
        "squares_sum", "Computes the sum of the squares of whole numbers from 1 to n."
    )
    plan = plan_of(subtask("first", wanted(), key="x"), subtask("second", reworded, key="y"))
    await agent.seed(tool_record())
    end = await agent.run(
        Cast(
            plan=plan, agent={"strategy": STRATEGY}, answer=[], act=["385", "14"], aggregate="both"
        ),
        evolve=False,
    )

    assert decision_on(end, "tool")["need"]["subtasks"] == ["s1", "s2"]
    assert {one["tools"][0] for one in end["plan"]} == {f"{TOOL}: {ABOUT}"}


async def test_an_unfinished_sub_task_is_marked(agent: Agent) -> None:
    """At the step cap it is tried once more; then what is known goes on as partial, and says so."""
    await agent.seed()
    plan = plan_of(subtask("one", wanted(), key="x"), subtask("two", key="y", after=("x",)))
    cast = Cast(
        plan=plan,
        act=[call(1), call(2)],
        act_answer=["about 1", "about 5"],
        answer="hardly anything",
        aggregate="hardly anything",
        judge={"evidence": "", "verdict": "abstained", "reason": "unfinished"},
    )
    end = await agent.run(cast, max_steps=1)

    assert [one["partial"] for one in end["results"]] == [True, False]
    assert [one["result"] for one in end["results"][0]["calls"]] == ["1", "5"]
    assert "An earlier try was not finished. It saw:\n1" in cast.heard("act")[1]
    marked = "about 5 (partial: this sub-task was not finished)"
    assert marked in cast.heard("answer")[0]
    assert marked in cast.heard("aggregate")[0]
    assert "about 5 (partial)" in cast.heard("judge")[0]
    assert (await agent.record(end)).status == "partial"
