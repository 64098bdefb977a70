"""Give the agent tools and a checker of your own: it recruits the tools like those that it makes."""

import asyncio

from mem2evolve import Context, Mem2Evolve


def triple_number(n: int) -> int:
    """Multiply a whole number by three."""
    print("the host's own tool is called with", n)
    return 3 * n


def check(task: str, answer: str) -> bool | None:
    """Say whether the answer is right; `None` leaves it to the judge."""
    return answer == "42" if "three times 14" in task else None


async def main() -> None:
    """Run one task with them."""
    context = Context(web=False)
    async with Mem2Evolve(tools=[triple_number], checker=check, context=context) as agent:
        result = await agent.run("What is three times 14? Give the bare number.")
        print(result.answer, result.verdict, "by", result.state["judgement"]["by"])
        for decision in result.state["decisions"]:
            print(decision["outcome"], decision["need"]["kind"], decision["asset_name"])


asyncio.run(main())
