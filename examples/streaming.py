"""Watch a run: events come while it plans, makes tools, tests them, acts and learns."""

import asyncio

from mem2evolve import Context, Mem2Evolve


async def main() -> None:
    """Print the events of one run, and the answer as soon as it is there."""
    async with Mem2Evolve(context=Context(web=False)) as agent:
        async for event in agent.stream("What is three times 14? Give the bare number."):
            match event["event"]:
                case "answered":
                    print("answer:", event["answer"])
                case "decided":
                    print("decided:", event["need"]["name"], event["outcome"], event["why"])
                case "judged":
                    print("judged:", event["verdict"], event["reason"])
                case name:
                    print(name)


asyncio.run(main())
