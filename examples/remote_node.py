"""The agent on a LangGraph server as a node of your graph. First: `langgraph dev` in another terminal.

Its questions interrupt your graph, and your answer reaches it there.
"""

import asyncio
import os
import uuid

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from mem2evolve import Context, remote_node

URL = os.environ.get("LANGGRAPH_URL", "http://127.0.0.1:2024")


class State(TypedDict, total=False):
    """The host's state."""

    task: str
    answer: str


async def main() -> None:
    """Run one task there; ask on the terminal here."""
    remote = RemoteGraph("mem2evolve", url=URL)
    builder = StateGraph(State)
    builder.add_node("solve", remote_node(remote, context=Context(web=False, approve="always")))
    builder.add_edge(START, "solve")
    builder.add_edge("solve", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": str(uuid.uuid4())}}
    end = await graph.ainvoke({"task": "What is three times 14? Give the bare number."}, config)
    while questions := end.get("__interrupt__"):
        print(questions[0].value["code"])
        said = await asyncio.to_thread(input, "Keep this tool? (yes / no, because …) ")
        end = await graph.ainvoke(Command(resume=said), config)
    print(end["answer"])


asyncio.run(main())
