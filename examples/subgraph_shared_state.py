"""The agent's graph as a node of yours, with shared state: it reads `messages`, and adds its answer to them.

Its settings are those of the host's context. Instead of `messages`, a state may hold `task`, and gets `answer`.
"""

import asyncio

from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from mem2evolve import Context, Mem2Evolve


class State(MessagesState):
    """The host's state. Fields of ours that it names are shared: here also the verdict."""

    verdict: str


def report(state: State) -> None:
    """Use what the agent added."""
    print(state["messages"][-1].text, state["verdict"])


async def main() -> None:
    """Run a conversation of one question."""
    async with Mem2Evolve() as agent:
        graph = StateGraph(State, context_schema=Context)
        graph.add_node("solve", agent.graph)
        graph.add_node("report", report)
        graph.add_edge(START, "solve")
        graph.add_edge("solve", "report")
        graph.add_edge("report", END)
        asked = HumanMessage("What is three times 14? Give the bare number.")
        await graph.compile().ainvoke({"messages": [asked]}, context=Context(web=False))


asyncio.run(main())
