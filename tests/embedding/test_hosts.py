"""Graphs and agents that embed ours: questions, checkpointers, callbacks, stores."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.config import get_store
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from mem2evolve import Context, Mem2Evolve, Settings
from mem2evolve.errors import InputError

from .conftest import ANSWER, ASKING, QUIET, TASK, THREAD, TOOL, Brain, Open, around

ASKED: Any = {"question": TASK}
NAMES: Any = {"task": "question", "answer": "reply", "keep": {"verdict": "checked"}}
MADE_ONCE = ("plan", "tool", "oracle", "cases", "second_answer")


def shared(agent: Mem2Evolve, **options: Any) -> Any:
    """Return a host that has our graph as a node and shares `messages` with it."""
    graph = StateGraph(MessagesState, context_schema=Context)
    graph.add_node("solve", agent.graph)
    graph.add_edge(START, "solve")
    graph.add_edge("solve", END)
    return graph.compile(**options)


def asked_of(end: dict[str, Any]) -> Any:
    """Return the one question."""
    [asked] = end["__interrupt__"]
    return asked.value


def once(brain: Brain) -> bool:
    """Whether nothing was asked of the model twice: a resumed node repeats nothing."""
    assert {what: brain.said.count(what) for what in MADE_ONCE} == dict.fromkeys(MADE_ONCE, 1)
    return True


async def test_a_sub_graph_with_shared_state(open_agent: Open, brain: Brain) -> None:
    """It takes the conversation, asks through the host, and answers in the conversation; also the second time."""
    host = shared(open_agent(), checkpointer=InMemorySaver())
    first, second = ({"messages": [HumanMessage(TASK)]} for _ in range(2))
    assert asked_of(await host.ainvoke(first, THREAD, context=ASKING))["tool"] == TOOL
    end = await host.ainvoke(Command(resume="yes"), THREAD, context=ASKING)

    assert [message.type for message in end["messages"]] == ["human", "ai"]
    assert end["messages"][-1].text == ANSWER
    assert once(brain)
    again = await host.ainvoke(second, THREAD, context=ASKING)
    assert [message.type for message in again["messages"]] == ["human", "ai", "human", "ai"]


async def test_a_node_with_another_state(open_agent: Open, brain: Brain) -> None:
    """The named values are read and written, the question passes, and resuming repeats nothing."""
    agent = open_agent(context=ASKING)
    host = around(agent.as_node(**NAMES), checkpointer=InMemorySaver())
    assert asked_of(await host.ainvoke(ASKED, THREAD))["tool"] == TOOL
    note = asked_of(await host.ainvoke(Command(resume="perhaps"), THREAD))["note"]
    assert "neither yes nor no" in note
    end = await host.ainvoke(Command(resume=True), THREAD)

    assert end == {"question": TASK, "reply": ANSWER, "checked": "success"}
    assert once(brain)
    with pytest.raises(InputError, match="NoneType as 'question'"):
        await host.ainvoke({"reply": ""}, {"configurable": {"thread_id": "u"}})


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteSaver]:
    """A checkpointer that has no async methods."""
    with closing(sqlite3.connect(tmp_path / "host", check_same_thread=False)) as conn:
        yield SqliteSaver(conn)


@pytest.mark.parametrize("way", ["sub-graph", "node", "tool", "alone"])
def test_without_an_event_loop(home: Path, brain: Brain, sqlite: SqliteSaver, way: str) -> None:
    """`graph.invoke` with `SqliteSaver` asks, resumes and ends, whatever way our graph is embedded."""
    with Mem2Evolve(Settings(home=home, model="openai:scripted"), context=ASKING) as agent:
        given: Any = {"messages": [HumanMessage(TASK)]}
        if way == "node":
            host, given = around(agent.as_node(**NAMES), checkpointer=sqlite), ASKED
        elif way == "sub-graph":
            host = shared(agent, checkpointer=sqlite)
        elif way == "tool":
            host = create_agent("openai:scripted", [agent.as_tool()], checkpointer=sqlite)
        else:
            host = agent.graph.copy({"checkpointer": sqlite})
        assert asked_of(host.invoke(given, THREAD, context=ASKING))["tool"] == TOOL
        end = host.invoke(Command(resume=True), THREAD, context=ASKING)

    said = end["reply"] if way == "node" else end["messages"][-1].text
    assert said == (f"The tool says: {ANSWER}" if way == "tool" else ANSWER)
    assert once(brain)


async def test_a_tool_of_an_agent(open_agent: Open, brain: Brain) -> None:
    """The question interrupts the agent; the tool's message holds the answer, its artifact the rest."""
    tool = open_agent(context=ASKING).as_tool()
    host: Any = create_agent("openai:scripted", [tool], checkpointer=InMemorySaver())
    asked = {"messages": [HumanMessage("Have it worked out.")]}
    assert asked_of(await host.ainvoke(asked, THREAD))["tool"] == TOOL
    end = await host.ainvoke(Command(resume=True), THREAD)

    [message] = [one for one in end["messages"] if isinstance(one, ToolMessage)]
    assert (message.text, message.artifact["verdict"]) == (ANSWER, "success")
    assert UUID(message.artifact["run_id"])
    assert end["messages"][-1].text == f"The tool says: {ANSWER}"
    assert once(brain)


async def test_what_a_tool_cannot_do_is_told_to_the_model(open_agent: Open) -> None:
    """An error of ours is a tool's error, with its hint; the schema has the task alone."""
    tool = open_agent().as_tool(name="solve", description="Solves it.")
    call = {"name": "solve", "args": {"task": " "}, "id": "1", "type": "tool_call"}
    message = await tool.ainvoke(call)

    assert (message.status, message.text[:18]) == ("error", "The task is empty.")
    assert [*tool.args] == ["task"]
    assert (tool.name, tool.description) == ("solve", "Solves it.")


class Watch(BaseCallbackHandler):
    """What a host's callback sees of model calls."""

    def __init__(self) -> None:
        self.tags: list[list[str]] = []
        self.parents: list[Any] = []
        self.metadata: list[Any] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
        """Note one call."""
        self.tags.append(more["tags"])
        self.parents.append(more["parent_run_id"])
        self.metadata.append(more["metadata"])


@pytest.mark.parametrize("way", ["async", "sync"])
async def test_callbacks(open_agent: Open, brain: Brain, way: str) -> None:
    """The host's handlers see each model call, below a run of the host's, with its tags and metadata."""
    watch = Watch()
    host = around(open_agent().as_node(**NAMES))
    config: Any = {"callbacks": [watch], "tags": ["mine"], "metadata": {"who": "me"}}
    if way == "async":
        await host.ainvoke(ASKED, config)
    else:
        host.invoke(ASKED, config)

    assert len(watch.tags) == len(brain.said)
    assert all("mine" in tags for tags in watch.tags)
    assert all(watch.parents)
    assert {one["who"] for one in watch.metadata} == {"me"}


async def test_the_hosts_store_reaches_its_tools(open_agent: Open) -> None:
    """A tool of the host's that the agent recruits finds the store of the graph around it."""
    store = InMemoryStore()

    async def triple_number(n: int) -> int:
        """Multiply a whole number by three."""
        await get_store().aput(("seen",), "n", {"n": n})
        return 3 * n

    host = around(open_agent(tools=[triple_number]).as_node(**NAMES), store=store)
    end = await host.ainvoke(ASKED)
    assert end["reply"] == ANSWER
    found = await store.aget(("seen",), "n")
    assert found is not None
    assert found.value == {"n": 14}


async def test_a_host_that_cannot_wait(open_agent: Open, caplog: pytest.LogCaptureFixture) -> None:
    """Without a checkpointer nothing breaks off: the tool is not kept, and the log says what to do."""
    agent = open_agent(context=ASKING)
    end = await around(agent.as_node(**NAMES)).ainvoke(ASKED)

    assert end["reply"] == ANSWER
    assert "compile the graph that the caller runs with a checkpointer" in caplog.text
    assert await agent.resources.memory.find_by_name("tool", TOOL) == []


async def test_the_agents_methods_in_a_node(open_agent: Open, brain: Brain) -> None:
    """`run` in a node of a host's asks through the host, even if it has a function to ask elsewhere."""
    agent = open_agent(context=ASKING, ask=lambda question: pytest.fail("asked"))

    async def node(state: dict[str, Any]) -> dict[str, Any]:
        return {"reply": (await agent.run(state["question"])).answer}

    host = around(node, checkpointer=InMemorySaver())
    assert asked_of(await host.ainvoke(ASKED, THREAD))["tool"] == TOOL
    end = await host.ainvoke(Command(resume=True), THREAD)
    assert end["reply"] == ANSWER
    assert once(brain)


async def test_the_context_of_the_host(open_agent: Open) -> None:
    """Without one of its own an agent's node takes the host's."""
    agent = open_agent(context=None)
    graph = StateGraph(dict, context_schema=Context)
    graph.add_node("solve", agent.as_node(keep={"namespace": "namespace"}))
    graph.add_edge(START, "solve")
    end = await graph.compile().ainvoke(
        {"task": TASK}, context=Context(web=False, mode="direct", namespace="theirs")
    )
    assert end["namespace"] == "theirs"
    assert QUIET.namespace != "theirs"
