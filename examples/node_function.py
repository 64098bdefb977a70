"""The agent as a ready node for a state of yours: say which value holds the task and which gets the answer."""

import asyncio

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from mem2evolve import Context, Mem2Evolve


class Ticket(TypedDict, total=False):
    """The host's state."""

    question: str
    reply: str
    checked: str


async def main() -> None:
    """Answer one ticket."""
    async with Mem2Evolve(context=Context(web=False)) as agent:
        node = agent.as_node(task="question", answer="reply", keep={"verdict": "checked"})
        graph = StateGraph(Ticket)
        graph.add_node("answer", node)
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        ticket = {"question": "What is three times 14? Give the bare number."}
        print(await graph.compile().ainvoke(ticket))


asyncio.run(main())
