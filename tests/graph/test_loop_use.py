"""How the graph is used: sync, streamed, with a checkpointer, as a chat, with files and host tools."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from mem2evolve.errors import InputError, NotFoundError

from ..openai_server import reply_tools
from .conftest import (
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
    first_run,
    offered,
    plan_of,
    subtask,
    tool_record,
    wanted,
)

THREAD = {"configurable": {"thread_id": "t1"}}


def small_run(n: int = 10, answer: str = "385", **more: Any) -> Cast:
    """Return the script of a frozen run that recruits."""
    return Cast(plan=plan_of(subtask(f"Sum up to {n}", wanted())), act=[call(n), answer], **more)


async def test_invoke_without_a_loop(agent: Agent) -> None:
    """`graph.invoke` runs a whole task from a thread that has no event loop, twice."""
    context = {"web": False}
    agent.cast = first_run()
    first = await asyncio.to_thread(agent.graph.invoke, {"task": TASK}, context=context)
    agent.cast.assert_spent()
    agent.cast = Cast(plan=plan_of(), act=[call(20), "2870"], second_answer="2870")
    second = await asyncio.to_thread(agent.graph.invoke, {"task": NEXT_TASK}, context=context)
    agent.cast.assert_spent()

    assert (first["answer"], first["verdict"]) == ("385", "success")
    assert (second["answer"], decision_on(second, "tool")["outcome"]) == ("2870", "recruited")


async def test_events_tell_the_story(agent: Agent) -> None:
    """A run streams what it does, in order; the answer comes before the judging."""
    agent.cast = first_run()
    stream = agent.graph.astream(
        {"task": TASK}, context={"web": False}, stream_mode="custom", subgraphs=True
    )
    events: list[dict[str, Any]] = [event async for _, event in stream]

    names = [event["event"] for event in events]
    assert names[:2] == ["started", "planned"]
    assert sorted(names[2:10]) == [
        *("checked", "creating", "decided", "decided"),
        *("drafted", "inputs", "measured", "registered"),
    ]
    assert names[10:] == [
        *("acting", "acted", "answered", "judged", "evolved", "learned", "finished"),
    ]
    told = {event["event"]: event for event in events}
    assert told["checked"]["passed"]
    assert told["answered"]["answer"] == "385"
    assert told["finished"]["tokens"]["forward"]["calls"] == 7
    assert told["finished"]["run_id"] == told["started"]["run_id"]


async def test_updates_name_the_nodes(agent: Agent) -> None:
    """Whoever streams updates sees the steps of the method by name."""
    await agent.seed()
    agent.cast = small_run(second_answer="385", generalise=LESSON)
    steps = [
        next(iter(update))
        async for update in agent.graph.astream(
            {"task": TASK}, context={"web": False}, stream_mode="updates"
        )
    ]

    assert [step for step in steps if step != "schedule"] == [
        *("retrieve_experience", "plan", "select_or_create_asset", "select_or_create_asset"),
        *("act", "aggregate", "evaluate", "evolve_assets", "distill"),
    ]


async def test_a_thread_takes_another_task(agent: Agent) -> None:
    """With a checkpointer, a second task on the same thread starts afresh."""
    await agent.seed()
    agent.compile(checkpointer=InMemorySaver())
    first = await agent.start(
        small_run(second_answer="385", generalise=LESSON), {"task": TASK}, config=THREAD
    )
    second = await agent.start(
        small_run(20, "2870", second_answer="2870"), {"task": NEXT_TASK}, config=THREAD
    )

    assert first["run_id"] != second["run_id"]
    assert [one["result"] for one in second["results"]] == ["2870"]
    assert len(second["decisions"]) == 2
    assert second["creations"] == []
    assert sum(line["calls"] for line in second["ledger"]) == 4
    assert (second["answer"], second["task"]) == ("2870", NEXT_TASK)
    assert (await agent.record(second)).tokens["forward"]["calls"] == 3


async def test_a_frozen_task_on_a_thread_has_no_old_verdict(agent: Agent) -> None:
    """Verdict, lessons and changes of the task before are gone."""
    await agent.seed()
    agent.compile(checkpointer=InMemorySaver())
    await agent.start(
        small_run(second_answer="385", generalise=LESSON), {"task": TASK}, config=THREAD
    )
    end = await agent.start(small_run(20, "2870"), {"task": NEXT_TASK}, config=THREAD, evolve=False)

    assert (end["verdict"], end["judgement"], end["learned"], end["kept"]) == ("", None, [], [])


async def test_a_correction_and_then_a_task_on_one_thread(agent: Agent) -> None:
    """The correction is spent: the next task is not taken for one."""
    await agent.seed()
    agent.compile(checkpointer=InMemorySaver())
    run = await agent.start(
        small_run(second_answer="385", generalise=LESSON), {"task": TASK}, config=THREAD
    )
    correction = {"run_id": run["run_id"], "right": True, "because": "Yes."}
    corrected = await agent.start(
        Cast(generalise=LESSON), {"correction": correction}, config=THREAD
    )
    assert corrected["run_id"] == run["run_id"]
    assert len(corrected["results"]) == 1
    end = await agent.start(
        small_run(20, "2870", second_answer="2870"), {"task": NEXT_TASK}, config=THREAD
    )

    assert (end["answer"], len(end["results"])) == ("2870", 1)


async def test_a_conversation_is_a_task(agent: Agent) -> None:
    """The last human message is the task; the answer is added as the assistant's."""
    await agent.seed()
    agent.compile(checkpointer=InMemorySaver())
    first = await agent.start(
        small_run(), {"messages": [HumanMessage(TASK)]}, config=THREAD, evolve=False
    )
    second = await agent.start(
        small_run(20, "2870"), {"messages": [("user", NEXT_TASK)]}, config=THREAD, evolve=False
    )

    assert (first["task"], second["task"]) == (TASK, NEXT_TASK)
    assert [(type(one), one.text) for one in second["messages"]] == [
        (HumanMessage, TASK),
        (AIMessage, "385"),
        (HumanMessage, NEXT_TASK),
        (AIMessage, "2870"),
    ]


@pytest.mark.parametrize("given", [{"task": "  "}, {"task": "a\0b"}, {"messages": []}])
async def test_what_is_no_task_is_refused(agent: Agent, given: dict[str, Any]) -> None:
    """Before any model is asked, and nothing is recorded."""
    with pytest.raises(InputError):
        await agent.start(Cast(), given)

    assert (await agent.counts())["run"] == 0


async def test_files_are_read_with_a_tool(agent: Agent, tmp_path: Path) -> None:
    """The plan is told their names, and each expert gets the reader beside its tool."""
    await agent.seed()
    path = tmp_path / "n.txt"
    path.write_text("ten, that is 10")
    cast = Cast(plan=plan_of(), act=[reply_tools(("read_file", {"name": "n.txt"})), call(), "385"])
    end = await agent.start(cast, {"task": TASK, "files": [str(path)]}, evolve=False)

    assert "to be read with the tool read_file: n.txt" in cast.heard("plan")[0]
    assert offered(cast.requests("act")[0]) == [TOOL, "read_file"]
    assert "ten, that is 10" in end["results"][0]["calls"][0]["result"]


async def test_a_file_that_is_not_there_is_refused(agent: Agent, tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(InputError, match="does not exist"):
        await agent.start(Cast(), {"task": TASK, "files": [str(tmp_path / "none.csv")]})


@tool(TOOL)
def host_tool(n: int) -> int:
    """Computes the sum of the squares of the whole numbers from 1 to n."""
    return n * 1000


async def test_a_hosts_own_tool_is_recruited(open_agent: Open) -> None:
    """It stands in the Tool Bank like any other, is called in process, and never evolves."""
    agent = open_agent(tools=[host_tool])
    await agent.seed(agent_record())
    end = await agent.run(small_run(10, "10000", second_answer="10000", generalise=LESSON))

    assert decision_on(end, "tool")["outcome"] == "recruited"
    assert end["results"][0]["calls"][0]["result"] == "10000"
    assert [one["kind"] for one in end["kept"]] == ["agent"]
    assert agent.files() == {}


async def test_files_of_tools_can_be_left_unwritten(open_agent: Open) -> None:
    """Under a reloading server nothing is written into the project."""
    agent = open_agent(write_files=False)
    await agent.run(first_run())

    assert (await agent.statuses())[f"{TOOL} v1"] == "active"
    assert agent.files() == {}


async def test_two_runs_at_once_keep_apart(agent: Agent) -> None:
    """Runs of one graph side by side do not mix their results."""
    await agent.seed()

    def act(asked: dict[str, Any]) -> Any:
        n = 20 if "1 to 20" in str(asked["messages"][1]["content"]) else 10
        return str({10: 385, 20: 2870}[n]) if asked["messages"][-1]["role"] == "tool" else call(n)

    agent.cast = Cast(plan=lambda asked: plan_of(), act=act)
    ends = await asyncio.gather(
        *(
            agent.graph.ainvoke({"task": task}, context={"web": False, "evolve": False})
            for task in (TASK, NEXT_TASK)
        )
    )

    assert [end["answer"] for end in ends] == ["385", "2870"]
    assert [end["results"][0]["calls"][0]["args"]["n"] for end in ends] == [10, 20]


async def test_a_refused_correction_does_not_block_its_thread(agent: Agent) -> None:
    """A wrong run id is refused; the next task on the thread is a task."""
    await agent.seed(tool_record(), agent_record())
    agent.compile(checkpointer=InMemorySaver())
    correction = {"run_id": "no-such-run", "right": True, "because": ""}
    with pytest.raises(NotFoundError):
        await agent.start(Cast(), {"correction": correction}, config=THREAD)
    end = await agent.start(small_run(), {"task": TASK}, config=THREAD, evolve=False)

    assert end["answer"] == "385"
