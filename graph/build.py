"""The wiring. Node bodies live in `nodes/`.

START → retrieve_experience → plan → select_or_create_asset (one per need) → schedule → act (in waves) →
aggregate → evaluate → evolve_assets → distill → END
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Literal

from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Send

from ..nodes.act import act, subtask_state
from ..nodes.aggregate import aggregate
from ..nodes.creation import build_creation
from ..nodes.desk import Resources
from ..nodes.distill import build_drawing, distill
from ..nodes.evaluate import evaluate
from ..nodes.evolve_assets import evolve_assets
from ..nodes.mend import build_mending
from ..nodes.plan import plan
from ..nodes.react import build_react
from ..nodes.retrieve_experience import retrieve_experience
from ..nodes.select_or_create_asset import build_selection, select_or_create_asset
from .context import Context
from .state import Input, NeedState, State, SubTaskState
from .two_ways import two_ways

RECURSION_LIMIT: Final = 10_007
"""Supersteps; our own caps end a run long before."""


def build_builder(resources: Resources) -> "StateGraph[State, Context, Input, State]":
    """Return the uncompiled graph, for those who want to change or compile it themselves."""
    selection = build_selection(resources, build_creation(resources))
    react, mending = build_react(resources), build_mending(resources)
    graph: StateGraph[State, Context, Input, State] = StateGraph(
        State, context_schema=Context, input_schema=Input
    )
    for step in (retrieve_experience, plan, aggregate, evaluate):
        graph.add_node(step.__name__, _node(step, resources=resources))
    graph.add_node(
        "evolve_assets",
        _node(evolve_assets, resources=resources, react=react, mending=mending),
    )
    drawing = build_drawing(resources)
    graph.add_node("distill", _node(distill, resources=resources, drawing=drawing))
    graph.add_node("schedule", RunnableLambda(_schedule))
    graph.add_node("reopen", RunnableLambda(_reopen))
    graph.add_node(
        "select_or_create_asset",
        _node(select_or_create_asset, resources=resources, selection=selection),
        input_schema=NeedState,
    )
    graph.add_node("act", _node(act, resources=resources, react=react), input_schema=SubTaskState)
    graph.add_conditional_edges(START, _entry, ["retrieve_experience", "reopen"])
    graph.add_edge("reopen", "evaluate")
    graph.add_edge("retrieve_experience", "plan")
    graph.add_conditional_edges("plan", _needs, ["select_or_create_asset", "schedule"])
    graph.add_edge("select_or_create_asset", "schedule")
    graph.add_conditional_edges("schedule", _ready, ["act", "aggregate"])
    graph.add_edge("act", "schedule")
    graph.add_conditional_edges("aggregate", _backward, ["evaluate", END])
    graph.add_edge("evaluate", "evolve_assets")
    graph.add_edge("evolve_assets", "distill")
    graph.add_edge("distill", END)
    return graph


def build_compiled(
    resources: Resources, **options: Any
) -> "CompiledStateGraph[State, Context, Input, State]":
    """Return the compiled graph. `options` go to `compile`, as in `checkpointer=…`."""
    compiled = build_builder(resources).compile(name="mem2evolve", **options)
    return compiled.with_config(recursion_limit=RECURSION_LIMIT)


def _entry(state: State) -> Literal["retrieve_experience", "reopen"]:
    """A person's correction takes up an earlier run where it was judged."""
    return "reopen" if state.get("correction") else "retrieve_experience"


def _reopen(state: State) -> dict[str, Any]:
    """Take the correction: whatever comes of it, the thread's next task is not taken for another one."""
    return {"correction": None, "reopened": state["correction"]}


def _needs(state: State) -> "list[Send] | Literal['schedule']":
    goals = {subtask["id"]: subtask["goal"] for subtask in state["plan"]}
    sends = [
        Send(
            "select_or_create_asset",
            NeedState(
                run_id=state["run_id"],
                need=need,
                goal=goals[need["subtasks"][0]],
                task=state["task"],
                files=state.get("files") or [],
            ),
        )
        for need in state["needs"]
    ]
    return sends or "schedule"


def _schedule(_: State) -> dict[str, Any]:
    """Join the branches of a wave, so that the next one is decided once."""
    return {}


def _ready(state: State) -> "list[Send] | Literal['aggregate']":
    """Send out each sub-task whose dependencies are done; when all are, go on."""
    done = {result["subtask"]: result for result in state["results"]}
    waiting = [subtask for subtask in state["plan"] if subtask["id"] not in done]
    ready = [subtask for subtask in waiting if all(name in done for name in subtask["depends_on"])]
    if not ready:
        return "aggregate"
    return [Send("act", subtask_state(state, subtask)) for subtask in ready]


def _backward(_: State, runtime: Runtime[Context]) -> str:
    return "evaluate" if Context.of(runtime.context).evolve else END


Step = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


def _node(step: Step, **bound: Any) -> RunnableLambda[Any, Any]:
    """Make a node of a step, which can be run both ways."""

    async def run(state: Any) -> dict[str, Any]:
        return await partial(step, **bound)(state, get_runtime(Context))

    return two_ways(run, step.__name__)
