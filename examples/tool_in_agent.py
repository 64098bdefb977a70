"""The agent as a tool of another agent, which decides when to call it."""

import asyncio

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage

from mem2evolve import Context, Mem2Evolve


async def main() -> None:
    """Ask the other agent; show what the tool gave it beside the answer."""
    async with Mem2Evolve(context=Context(web=False)) as solver:
        host = create_agent("openai:gpt-5", tools=[solver.as_tool()])
        asked = HumanMessage("Have your tool work out three times 14, and tell me the number.")
        end = await host.ainvoke({"messages": [asked]})
        for message in end["messages"]:
            if isinstance(message, ToolMessage):
                print("tool:", message.text, message.artifact)
        print(end["messages"][-1].text)


asyncio.run(main())
