"""Node: meet one need. Recruit the best asset if it fits, otherwise make one: the capability boundary moves."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from ..graph.context import Context
from ..graph.state import Decision, NeedState, Spent, Wanted, gather
from ..memory.recall import Calibration, Candidate, Need, each_once
from ..memory.records import card
from ..prompts.load import load_prompt
from .creation import trajectory_of
from .creation.expert import create_expert, describe_expert
from .creation.twins import REUSED
from .creation.verify import choose_verified
from .desk import Desk, Resources
from .toolbox.registry import keep_builtins

ONE_OFF = "one-off"
"""A need that says this may be met by the built-in `python`, which would otherwise meet every need."""


class FitReply(BaseModel):
    """The shape `prompts/fit.yaml` asks for."""

    why: str
    fits: int = Field(ge=0)


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

    async def choose(state: Selection, runtime: Runtime[Context]) -> dict[str, Any]:
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
    graph.add_node("choose", choose)
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
    found = each_once(one for one in found if _offered(one, need, desk.context))
    limits = thresholds(desk)
    chosen, why = await choose_verified(
        desk, state["run_id"], found, lambda left: _choose(desk, need, left, limits)
    )
    return {
        "found": [asdict(one) for one in found],
        "chosen": chosen.id if chosen else "",
        "why": why,
        "ledger": desk.ledger,
    }


async def _meet(
    desk: Desk, state: Selection, creation: "CompiledStateGraph[Any, Any, Any, Any]"
) -> dict[str, Any]:
    """Recruit what was chosen, or make what is lacking."""
    why = state["why"]
    found = [Candidate(**one) for one in state["found"]]
    chosen = next((one for one in found if one.id == state["chosen"]), None)
    met = Met()
    if chosen is None:
        met = await _create(desk, state, found, creation)
        why = f"{why}; {met.why}" if met.why else why
    decision = _decision(state["need"], found, thresholds(desk), chosen, met, why)
    ledger = [*desk.ledger, *(line for item in met.creations for line in item.pop("ledger"))]
    return {"decision": decision, "creations": [*met.creations], "ledger": ledger}


def thresholds(desk: Desk) -> Calibration:
    """Return δ and its band: as calibrated for the embedding model, or around the run's own δ."""
    known, own = desk.memory.calibration, desk.context.delta
    if own is None:
        return known
    return Calibration(delta=own, low=min(known.low, own), high=max(known.high, own))


def _offered(candidate: Candidate, need: Wanted, context: Context) -> bool:
    if candidate.name in ("web_search", "read_webpage"):
        return context.web
    return candidate.name != "python" or ONE_OFF in need["description"].lower()


async def _choose(
    desk: Desk, need: Wanted, found: list[Candidate], limits: Calibration
) -> tuple[Candidate | None, str]:
    """Return the asset to recruit, or `None`, and why."""
    if not found:
        return None, "nothing of its kind is known"
    best = found[0]
    if not desk.context.fit_check:
        fits = best.score >= limits.delta
        return (best if fits else None), f"closest scores {best.score:.2f}, δ is {limits.delta:.2f}"
    if best.score >= limits.high:
        return best, f"scores {best.score:.2f}, beyond doubt from {limits.high:.2f}"
    if best.score < limits.low:
        return None, f"closest scores {best.score:.2f}, below {limits.low:.2f}"
    return await _ask_fit(desk, need, [one for one in found if one.score >= limits.low], limits)


async def _ask_fit(
    desk: Desk, need: Wanted, found: list[Candidate], limits: Calibration
) -> tuple[Candidate | None, str]:
    """Let the model say which of the near matches does what is wanted.

    A model that cannot judge is not asked: δ decides.
    """
    best = found[0]
    if not (await desk.chat("planner")).profile.judges:
        fits = best.score >= limits.delta
        return (best if fits else None), f"scores {best.score:.2f}, δ is {limits.delta:.2f}"
    lines = "\n".join(f"{n}. {candidate.card}" for n, candidate in enumerate(found, 1))
    wanted = card(need["name"], need["description"])
    if need["input"]:
        wanted += f"\nInput: {need['input']}\nOutput: {need['output']}"
    messages = load_prompt("fit").messages(need=wanted, candidates=lines)
    reply = await desk.structured("planner", messages, FitReply)
    if 1 <= reply.fits <= len(found):
        return found[reply.fits - 1], reply.why
    return None, reply.why


async def _create(
    desk: Desk,
    state: Selection,
    found: list[Candidate],
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
        "near": [one.card for one in found if one.score >= thresholds(desk).low][:3],
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
