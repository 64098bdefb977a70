"""The mending of a faulted tool: a sub-graph of its own, which stores nothing.

mend → weigh → done; where a person must be asked, weigh → ask_approval → done, or mend again.
"""

from typing import Annotated, Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from ..errors import ModelError
from ..graph.context import Context
from ..graph.state import Spent, gather
from ..memory.records import Case, StatusChange, ToolRecord
from ..models.chat import Sampling
from ..models.replies import extract_code
from ..prompts.load import load_prompt
from ..sandbox import normalise
from ..sandbox.header import packages_in
from .creation.agree import normal_form
from .creation.approve import after_approval, after_weighing, ask_approval, weighed
from .creation.cases import passes
from .creation.check import screened
from .creation.verify import environment
from .creation.write import END_OF_BLOCK, MAX_CODE_TOKENS, packages_clause
from .desk import Desk, Resources
from .life.keeping import numbered
from .permitted import box_for, dependencies_of, given


class MendState(TypedDict, total=False):
    """State of the mending of one tool. Names shared with `CreationState` mean the same."""

    run_id: str
    tool: dict[str, Any]
    """The record of the faulted version."""
    why: str
    """Its fault."""
    name: str
    files: list[str]
    """Paths of the task's files."""
    cases: list[dict[str, Any]]
    """What the new version must pass."""
    chosen: str
    failures: str
    question: dict[str, Any]
    approval: str
    rejected: list[str]
    demanded: list[dict[str, Any]]
    outcome: str
    """Why there is no new version; empty when there is, or when its code could not be mended."""
    better: dict[str, Any] | None
    """The record of the new version, to be stored."""
    ledger: Annotated[list[Spent], gather]


def build_mending(resources: Resources) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return the compiled sub-graph."""

    def desk_of(runtime: Runtime[Context]) -> Desk:
        return Desk.of(runtime, resources, "evolve_assets", "backward")

    async def mend(state: MendState, runtime: Runtime[Context]) -> dict[str, Any]:
        return await _mend(desk_of(runtime), state)

    async def weigh(state: MendState, runtime: Runtime[Context]) -> dict[str, Any]:
        desk = desk_of(runtime)
        return await weighed(desk, state, await _version(desk, state), ToolRecord(**state["tool"]))

    async def ask(state: MendState, runtime: Runtime[Context]) -> dict[str, Any]:
        return await ask_approval(state, runtime, resources=resources)

    async def done(state: MendState, runtime: Runtime[Context]) -> dict[str, Any]:
        better = await _version(desk_of(runtime), state)
        return {"better": better.model_dump(mode="json")}

    graph = StateGraph(MendState, context_schema=Context)
    for name, step in (("mend", mend), ("weigh", weigh), ("ask_approval", ask), ("done", done)):
        graph.add_node(name, step)
    graph.add_edge(START, "mend")
    graph.add_conditional_edges(
        "mend", lambda state: "weigh" if state["chosen"] else END, ["weigh", END]
    )
    graph.add_conditional_edges(
        "weigh", after_weighing, {"ask": "ask_approval", "keep": "done", "end": END}
    )
    graph.add_conditional_edges(
        "ask_approval", after_approval, {"keep": "done", "write": "mend", "end": END}
    )
    graph.add_edge("done", END)
    return graph.compile(name="mend_tool")


async def _mend(desk: Desk, state: MendState) -> dict[str, Any]:
    """Rewrite the tool until it passes its cases and the new one, or the rounds run out."""
    tool, rejected = ToolRecord(**state["tool"]), state.get("rejected", [])
    update: dict[str, Any] = {"name": tool.function, "chosen": "", "better": None}
    if not rejected:
        update |= {"outcome": ""}
    if not (await desk.chat("coder")).profile.mends_code:
        return update
    failures = state.get("failures") or _fault_text(tool.code, f"- {state['why']}")
    for turn in range(1, desk.context.debug_rounds + 1):
        try:
            source = await _rewrite(desk, tool, failures, turn)
        except ModelError as exc:
            if exc.transient:
                raise
            break
        found = await screened(desk.resources, source, tool.function, tool.permissions)
        problems = [f"line {p.line}: {p.reason}" for p in found]
        box = box_for(desk.resources, source, tool.permissions, state.get("files", []))
        problems = problems or await passes(box, source, tool.function, state["cases"])
        if not problems and normal_form(source) in (normal_form(tool.code), *rejected):
            problems = ["it is the same code as before"]
        if not problems:
            update["chosen"] = source
            break
        failures = _fault_text(source, "\n".join(f"- {problem}" for problem in problems[:3]))
    return {**update, "ledger": desk.ledger}


def _fault_text(source: str, faults: str) -> str:
    return f"It exists, but is faulty:\n```python\n{source}```\nIts faults:\n{faults}"


async def _rewrite(desk: Desk, tool: ToolRecord, failures: str, turn: int) -> str:
    signature = next(
        (
            line[4:].rstrip(":")
            for line in tool.code.splitlines()
            if line.startswith(f"def {tool.function}")
        ),
        tool.function,
    )
    messages = load_prompt("tool").messages(
        description=tool.description,
        signature=signature,
        packages=packages_clause(
            (*desk.resources.settings.packages, *packages_in(tool.permissions))
        ),
        asking="",
        lessons="",
        web="",
        failures=failures,
    )
    reply = await desk.text("coder", messages, Sampling(0.2 * turn, MAX_CODE_TOKENS, END_OF_BLOCK))
    return normalise(extract_code(reply))


async def _version(desk: Desk, state: MendState) -> ToolRecord:
    """Return the record of the new version, which is not stored yet."""
    tool, source = ToolRecord(**state["tool"]), state["chosen"]
    settings, granted = desk.resources.settings, tool.permissions
    reasons = [f"mends: {state['why']}", *filter(None, [state.get("approval", "")])]
    changed = {
        "code": source,
        # It may do what the old version might, as far as it still asks for it, and nothing else.
        "permissions": given(source, granted, settings),
        "dependencies": dependencies_of(source, granted, settings),
        "cases": tuple(Case(**case) for case in state["cases"]),
        "environment": await environment(box_for(desk.resources, source, granted), source),
        "supersedes": tool.id,
        "run_id": state["run_id"],
        "status": "candidate",
        "history": tuple(
            StatusChange(status="candidate", reason=reason, run_id=state["run_id"])
            for reason in reasons
        ),
    }
    return await numbered(desk, tool.model_copy(update=changed))
