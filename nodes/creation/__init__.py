"""The making of a tool: a sub-graph of its own.

gather_knowledge → choose_inputs ∥ write_code → check_drafts → weigh_approval → register, or write_code again.
Where a person must be asked, weigh_approval → ask_approval → register, or write_code again.
"""

from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ...graph.context import Context
from ..desk import Resources
from .approve import after_approval, after_weighing, ask_approval, weigh_approval
from .check import check_drafts
from .gather import gather_knowledge
from .register import register
from .state import CreationState
from .write import choose_inputs, write_code

__all__ = ["CreationState", "build_creation"]


def build_creation(resources: Resources) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return the compiled sub-graph."""

    def bound(step: Any) -> Any:
        async def node(state: CreationState, runtime: Runtime[Context]) -> dict[str, Any]:
            update: dict[str, Any] = await step(state, runtime, resources=resources)
            return update

        return node

    def after_gathering(state: CreationState) -> list[str]:
        return ["choose_inputs", "write_code"] if state["signature"] else [END]

    def after_check(state: CreationState, runtime: Runtime[Context]) -> str:
        if state["chosen"]:
            return "weigh_approval"
        # Without inputs no case can be confirmed, however often the code is written.
        spent = state["round"] >= Context.of(runtime.context).debug_rounds or not state["inputs"]
        return END if spent else "write_code"

    graph = StateGraph(CreationState, context_schema=Context)
    steps = (gather_knowledge, choose_inputs, write_code, check_drafts)
    for step in (*steps, weigh_approval, ask_approval, register):
        graph.add_node(step.__name__, bound(step))
    graph.add_edge(START, "gather_knowledge")
    graph.add_conditional_edges(
        "gather_knowledge", after_gathering, ["choose_inputs", "write_code", END]
    )
    graph.add_edge("choose_inputs", "check_drafts")
    graph.add_edge("write_code", "check_drafts")
    graph.add_conditional_edges("check_drafts", after_check, ["weigh_approval", "write_code", END])
    graph.add_conditional_edges(
        "weigh_approval", after_weighing, {"ask": "ask_approval", "keep": "register", "end": END}
    )
    graph.add_conditional_edges(
        "ask_approval", after_approval, {"keep": "register", "write": "write_code", "end": END}
    )
    graph.add_edge("register", END)
    return graph.compile(name="create_tool")
