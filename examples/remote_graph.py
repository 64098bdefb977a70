"""The agent on a LangGraph server, called as if it were here. First: `langgraph dev` in another terminal."""

import asyncio
import os
import uuid

from langgraph.pregel.remote import RemoteGraph

URL = os.environ.get("LANGGRAPH_URL", "http://127.0.0.1:2024")
TASK = "What is three times 14? Give the bare number."
CONTEXT = {"web": False}


async def main() -> None:
    """Stream one run, then read the state that the server kept; then run again without streaming."""
    agent = RemoteGraph("mem2evolve", url=URL)
    config = {"configurable": {"thread_id": str(uuid.uuid4())}}
    events = agent.astream(
        {"task": TASK}, config, context=CONTEXT, stream_mode="custom", subgraphs=True
    )
    async for _, event in events:
        print(event["event"])
    state = await agent.aget_state(config)
    print("kept on the server:", state.values["answer"], state.values["verdict"])

    end = await agent.ainvoke({"task": TASK}, config, context=CONTEXT)
    for decision in end["decisions"]:
        print(decision["outcome"], decision["need"]["kind"], decision["asset_name"])


asyncio.run(main())
