"""The making of a tool: a sub-graph of its own.

gather_knowledge → choose_inputs ∥ write_code → settle_permissions → check_drafts → measure_cases →
weigh_approval → register; from check_drafts and measure_cases also write_code again.
Where a person must be asked, weigh_approval → ask_approval → register, or write_code again.
"""

from collections.abc import Mapping
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ...graph.context import Context
from ..desk import Resources
from .approve import after_approval, after_weighing, ask_approval, weigh_approval
from .check import check_drafts
from .gather import gather_knowledge
from .measure import measure_cases
from .permission import settle_permissions
from .register import register
from .state import CreationState
from .write import choose_inputs, write_code

__all__ = ["CreationState", "build_creation", "trajectory_of"]


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
            return "measure_cases"
        # Without inputs no case can be confirmed, however often the code is written.
        spent = state["round"] >= Context.of(runtime.context).debug_rounds or not state["inputs"]
        return END if spent else "write_code"

    def after_measure(state: CreationState, runtime: Runtime[Context]) -> str:
        if state["chosen"]:
            return "weigh_approval"
        return END if state["round"] >= Context.of(runtime.context).debug_rounds else "write_code"

    graph = StateGraph(CreationState, context_schema=Context)
    making = (gather_knowledge, choose_inputs, write_code, settle_permissions)
    keeping = (check_drafts, measure_cases, weigh_approval, ask_approval, register)
    for step in (*making, *keeping):
        graph.add_node(step.__name__, bound(step))
    graph.add_edge(START, "gather_knowledge")
    graph.add_conditional_edges(
        "gather_knowledge", after_gathering, ["choose_inputs", "write_code", END]
    )
    graph.add_edge("choose_inputs", "settle_permissions")
    graph.add_edge("write_code", "settle_permissions")
    graph.add_edge("settle_permissions", "check_drafts")
    graph.add_conditional_edges("check_drafts", after_check, ["measure_cases", "write_code", END])
    graph.add_conditional_edges(
        "measure_cases", after_measure, ["weigh_approval", "write_code", END]
    )
    graph.add_conditional_edges(
        "weigh_approval", after_weighing, {"ask": "ask_approval", "keep": "register", "end": END}
    )
    graph.add_conditional_edges(
        "ask_approval", after_approval, {"keep": "register", "write": "write_code", "end": END}
    )
    graph.add_edge("register", END)
    return graph.compile(name="create_tool")


def trajectory_of(end: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a tool was made, or why none was: the source of tool experience."""
    return {
        "need": end["need"],
        "signature": end["signature"],
        "lessons": [lesson["id"] for lesson in end["lessons"]],
        "web": [hit["url"] for hit in end["web"]],
        "web_note": end["web_note"],
        "rounds": end["round"],
        "first_pass": end["first_pass"],
        "drafts": end["drafts"],
        "stated": end["stated"],
        "properties": end["properties"],
        "mutation_score": end["mutation_score"],
        "survivors": end["survivors"],
        "granted": end.get("granted", []),
        "refused": end.get("refused", {}),
        "approval": end.get("approval", ""),
        "cases": len(end["cases"]),
        "contested": end["contested"],
        "outcome": end["outcome"],
        "asset_id": end["tool"]["id"] if end["tool"] else "",
        "ledger": end["ledger"],
    }
