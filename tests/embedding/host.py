"""A host's program, killed and started again by `test_killed_host.py`: begins, or goes on with what was begun."""

import asyncio
import sys
from typing import Any

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from mem2evolve import Context, Mem2Evolve


class State(TypedDict, total=False):
    """State of the host."""

    task: str
    answer: str
    log: list[str]


def read(state: State) -> State:
    """Step before ours."""
    return {"log": ["read"]}


def send(state: State) -> State:
    """Step after ours."""
    return {"log": [*state["log"], f"sent {state['answer']}"]}


async def main(way: str, file: str) -> None:
    """Run until the end; questions are printed, answers are read."""
    context = Context(web=False, approve="always")
    config: Any = {"configurable": {"thread_id": "t"}}
    async with (
        Mem2Evolve(context=context) as agent,
        AsyncSqliteSaver.from_conn_string(file) as saver,
    ):
        builder = StateGraph(State, context_schema=Context)
        builder.add_node("read", read)
        builder.add_node("solve", agent.graph if way == "sub-graph" else agent.as_node())
        builder.add_node("send", send)
        builder.add_edge(START, "read")
        builder.add_edge("read", "solve")
        builder.add_edge("solve", "send")
        builder.add_edge("send", END)
        graph = builder.compile(checkpointer=saver)
        begun = (await graph.aget_state(config)).next
        step: Any = None if begun else {"task": "What is three times 14?"}
        end = await graph.ainvoke(step, config, context=context, durability="sync")
        while questions := end.get("__interrupt__"):
            print("asked", questions[0].value["tool"], flush=True)  # noqa: T201 - to the test
            said = await asyncio.to_thread(sys.stdin.readline)
            resume: Any = Command(resume=said)
            end = await graph.ainvoke(resume, config, context=context, durability="sync")
        print("ended", *end["log"], sep="; ", flush=True)  # noqa: T201 - to the test


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
