"""Node: meet one need. Recruit the best asset if it fits, otherwise make one: the capability boundary moves."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ..graph.context import Context
from ..graph.state import Decision, NeedState, Spent, Wanted, gather
from ..memory.recall import Calibration, Candidate, Need, each_once
from .creation import trajectory_of
from .creation.expert import create_expert, describe_expert
from .creation.twins import REUSED
from .creation.verify import choose_verified
from .desk import Desk, Resources
from .fitting import Choice, choose, thresholds
from .foreign_tools import unusable
from .toolbox.registry import keep_builtins

ONE_OFF = "one-off"
"""A need that says this may be met by the built-in `python`, which would otherwise meet every need."""


class Met(NamedTuple):
    """What came of the attempt to make an asset."""

    record: dict[str, Any] | None = None
    known: bool = False
    """Whether it was there already: what was to be made turned out to be its twin."""
    creations: Sequence[dict[str, Any]] = ()
    """The trajectory, for a tool."""
    why: str = ""


class Selection(NeedState, total=False):
    """State of meeting one need. Kept between its steps: a run that waited for a person does not choose anew."""

    found: list[dict[str, Any]]
    """The candidates, best first."""
    chosen: str
    """Id of the one to recruit; empty for none."""
    why: str
    fit: str
    """The pair of need and asset, if a model was asked and confirmed it."""
    strategy: str
    """Of an expert to be made."""
    lacking: str
    """Why there is none."""
    decision: Decision
    creations: list[dict[str, Any]]
    ledger: Annotated[list[Spent], gather]


async def select_or_create_asset(
    state: NeedState,
    runtime: Runtime[Context],
    *,
    resources: Resources,
    selection: "CompiledStateGraph[Any, Any, Any, Any]",
) -> dict[str, Any]:
    """Decide how one need is met, and meet it.

    Raises:
        ModelUnavailable: If the model cannot be reached.
        SandboxUnavailable: If a tool has to be made and code cannot be run.
        StoreError: If the memory cannot be read or written.
    """
    desk = Desk.of(runtime, resources, "select_or_create_asset")
    end = await selection.ainvoke(state, context=desk.context)
    decision = end["decision"]
    desk.tell("decided", **{key: value for key, value in decision.items() if key != "record"})
    return {"decisions": [decision], "creations": end["creations"], "ledger": end["ledger"]}


def build_selection(
    resources: Resources, creation: "CompiledStateGraph[Any, Any, Any, Any]"
) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return the sub-graph that meets one need: choose; for a new expert, describe it; then recruit or create."""

    async def find(state: Selection, runtime: Runtime[Context]) -> dict[str, Any]:
        return await _find(Desk.of(runtime, resources, "select_or_create_asset"), state)

    async def describe(state: Selection, runtime: Runtime[Context]) -> dict[str, Any]:
        desk = Desk.of(runtime, resources, "select_or_create_asset")
        strategy, lacking = await describe_expert(desk, state["need"], state["goal"])
        return {"strategy": strategy, "lacking": lacking, "ledger": desk.ledger}

    def after_choice(state: Selection, runtime: Runtime[Context]) -> str:
        makes = Context.of(runtime.context).arm.create_agents
        lacking = state["need"]["kind"] == "agent" and not state["chosen"]
        return "describe" if makes and lacking else "meet"

    async def meet(state: Selection, runtime: Runtime[Context]) -> dict[str, Any]:
        return await _meet(Desk.of(runtime, resources, "select_or_create_asset"), state, creation)

    graph = StateGraph(Selection, context_schema=Context)
    graph.add_node("choose", find)
    graph.add_node("meet", meet)
    graph.add_edge(START, "choose")
    graph.add_node("describe", describe)
    graph.add_conditional_edges("choose", after_choice, ["describe", "meet"])
    graph.add_edge("describe", "meet")
    graph.add_edge("meet", END)
    return graph.compile(name="meet_need")


async def _find(desk: Desk, state: Selection) -> dict[str, Any]:
    """Find the candidates, and choose one or none."""
    need = state["need"]
    await keep_builtins(desk.resources, desk.context.namespace)
    wanted = Need(kind=need["kind"], name=need["name"], description=need["description"])
    [found] = await desk.memory.recall_assets([wanted], namespace=desk.context.namespace)
    down = await unusable(desk) if need["kind"] == "tool" else set()
    found = each_once(
        one for one in found if _offered(one, need, desk.context) and one.id not in down
    )
    limits = await thresholds(desk)
    last = Choice(None, "")

    async def choose_of(left: list[Candidate]) -> tuple[Candidate | None, str]:
        nonlocal last
        last = await choose(desk, need, left, limits)
        return last.candidate, last.why

    chosen, why = await choose_verified(desk, state["run_id"], found, choose_of)
    return {
        "found": [asdict(one) for one in found],
        "chosen": chosen.id if chosen else "",
        "why": why,
        "fit": last.fit,
        "ledger": desk.ledger,
    }


async def _meet(
    desk: Desk, state: Selection, creation: "CompiledStateGraph[Any, Any, Any, Any]"
) -> dict[str, Any]:
    """Recruit what was chosen, or make what is lacking."""
    why = state["why"]
    found = [Candidate(**one) for one in state["found"]]
    chosen = next((one for one in found if one.id == state["chosen"]), None)
    met, limits = Met(), await thresholds(desk)
    if chosen is None:
        met = await _create(desk, state, found, limits, creation)
        why = f"{why}; {met.why}" if met.why else why
    decision = _decision(state["need"], found, limits, chosen, met, why)
    ledger = [*desk.ledger, *(line for item in met.creations for line in item.pop("ledger"))]
    decision["fit"] = state.get("fit", "")
    return {"decision": decision, "creations": [*met.creations], "ledger": ledger}


def _offered(candidate: Candidate, need: Wanted, context: Context) -> bool:
    if candidate.name in ("web_search", "read_webpage"):
        return context.web
    return candidate.name != "python" or ONE_OFF in need["description"].lower()


async def _create(
    desk: Desk,
    state: Selection,
    found: list[Candidate],
    limits: Calibration,
    creation: "CompiledStateGraph[Any, Any, Any, Any]",
) -> Met:
    """Make the asset if the run's settings allow it."""
    need, arm = state["need"], desk.context.arm
    if need["kind"] == "agent":
        if not arm.create_agents:
            return Met(why="making experts is off")
        words = state.get("strategy", ""), state.get("lacking", "")
        expert, known, why = await create_expert(desk, need, *words, state["run_id"])
        dumped = expert.model_dump(mode="json") | {"id": expert.id} if expert else None
        return Met(dumped, known, why=why)
    if not arm.create_tools:
        return Met(why="making tools is off")
    start = {
        "run_id": state["run_id"],
        "need": need,
        "task": state["task"],
        "files": state["files"],
        "near": [one.card for one in found if one.score >= limits.low][:3],
    }
    end = await creation.ainvoke(start, context=desk.context)
    trajectory = trajectory_of(end)
    if end["tool"] is None:
        return Met(None, creations=[trajectory], why=f"no tool was made: {end['outcome']}")
    known = end["outcome"] == REUSED
    return Met(end["tool"], known, [trajectory], end["outcome"] if known else "")


def _decision(
    need: Wanted,
    found: list[Candidate],
    limits: Calibration,
    chosen: Candidate | None,
    met: Met,
    why: str,
) -> Decision:
    made = met.record
    taken = chosen.id if chosen else made["id"] if made else ""
    others = [candidate.name for candidate in found if candidate.id != taken]
    return Decision(
        need=need,
        outcome="recruited" if chosen or met.known else "created" if made else "none",
        asset_id=taken,
        asset_name=chosen.name if chosen else made["name"] if made else "",
        score=round(found[0].score, 3) if found else None,
        delta=limits.delta,
        candidates=[
            {
                "id": one.id,
                "name": one.name,
                "version": one.version,
                "score": round(one.score, 3),
                "status": one.status,
                "uses": one.uses,
                "wins": one.wins,
            }
            for one in found
        ],
        runner_up=others[0] if others else "",
        why=why,
        record=None if met.known else made,
    )
