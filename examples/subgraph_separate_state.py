"""The agent's graph inside a node of yours whose state shares nothing with it: you map the values yourself."""

import asyncio

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from mem2evolve import Context, Mem2Evolve

CONTEXT = Context(web=False)


class Order(TypedDict, total=False):
    """The host's state."""

    items: int
    total: str
    checked: bool


async def main() -> None:
    """Have the agent work out one value of an order."""
    async with Mem2Evolve() as agent:

        async def price(order: Order) -> Order:
            task = f"What is three times {order['items']}? Give the bare number."
            end = await agent.graph.ainvoke({"task": task}, context=CONTEXT)
            return {"total": end["answer"], "checked": end["verdict"] == "success"}

        graph = StateGraph(Order)
        graph.add_node("price", price)
        graph.add_edge(START, "price")
        graph.add_edge("price", END)
        print(await graph.compile().ainvoke({"items": 14}))


asyncio.run(main())
