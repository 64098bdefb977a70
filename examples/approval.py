"""A person's yes before a tool is kept, in a graph of yours that survives the end of its process.

The state is in `approval.sqlite`. End the program while it asks, and run it again: it goes on where it was.
"""

import asyncio

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from mem2evolve import Context, Mem2Evolve


class State(TypedDict, total=False):
    """The host's state."""

    task: str
    answer: str


async def main() -> None:
    """Begin, or go on with what was begun; ask on the terminal."""
    config = {"configurable": {"thread_id": "approval"}}
    context = Context(web=False, approve="always")
    async with (
        Mem2Evolve(context=context) as agent,
        AsyncSqliteSaver.from_conn_string("approval.sqlite") as saver,
    ):
        builder = StateGraph(State)
        builder.add_node("solve", agent.as_node())
        builder.add_edge(START, "solve")
        builder.add_edge("solve", END)
        graph = builder.compile(checkpointer=saver)
        begun = (await graph.aget_state(config)).next
        step = None if begun else {"task": "What is three times 14? Give the bare number."}
        end = await graph.ainvoke(step, config, durability="sync")
        while questions := end.get("__interrupt__"):
            question = questions[0].value
            print(question["code"], *question["reasons"], sep="\n")
            said = await asyncio.to_thread(
                input, f"Keep {question['tool']}? (yes / no, because …) "
            )
            end = await graph.ainvoke(Command(resume=said), config, durability="sync")
        print(end["answer"])


asyncio.run(main())
