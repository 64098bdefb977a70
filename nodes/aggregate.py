"""Node: put the results of the sub-tasks together into one answer, in the form the task asks for."""

import time
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ..graph.context import Context
from ..graph.state import Result, State
from ..prompts.load import load_prompt
from .act import PARTIAL
from .chronicle import record_run
from .desk import Desk, Resources


async def aggregate(
    state: State, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Answer the task. The only sub-task's result is the answer: it worked on the task's own words."""
    desk = Desk.of(runtime, resources, "aggregate")
    results = in_order(state)
    if len(results) == 1:
        answer = results[0]["result"]
    else:
        lines = "\n".join(
            f"- {done['goal']}: {done['result']} {PARTIAL if done['partial'] else ''}".rstrip()
            for done in results
        )
        answer = await desk.text(
            "actor", load_prompt("aggregate").messages(task=state["task"], results=lines)
        )
    ended = time.time()
    desk.tell("answered", answer=answer, seconds=round(ended - state["started"], 1))
    if desk.context.evolve:  # an interrupted evolution must not lose the run
        spent = [*state["ledger"], *desk.ledger]
        await record_run(desk, State(**{**state, "answer": answer, "ledger": spent}))
    return {
        "answer": answer,
        "ended": ended,
        "messages": [AIMessage(answer)],
        "ledger": desk.ledger,
    }


def in_order(state: State) -> list[Result]:
    """Return the results in the order of the plan; they arrive in waves."""
    done = {result["subtask"]: result for result in state["results"]}
    return [done[subtask["id"]] for subtask in state["plan"] if subtask["id"] in done]
