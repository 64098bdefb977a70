"""Ask the agent from a plain script, and tell it whether the answer was right."""

from mem2evolve import Context, Mem2Evolve

TASK = "What is three times 14? Give the bare number."

with Mem2Evolve(context=Context(web=False)) as agent:
    first = agent.run_sync(TASK)
    print(first.answer, first.verdict)
    for note in first.notes:  # tools that were wanted and not kept, and why
        print("note:", note)

    again = agent.run_sync(TASK)  # what the first run made is used again
    for decision in again.state["decisions"]:
        print(decision["outcome"], decision["need"]["kind"], decision["asset_name"])

    agent.verdict_sync(first.run_id, right=True, because="I worked it out by hand")
