"""How an expert evolves: it gets to know the tools that helped, and a faulted one has to prove its new strategy."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from langgraph.graph.state import CompiledStateGraph

from ..errors import ModelReplyError
from ..graph.state import Judgement, Result, Spent, State, SubTask, SubTaskState
from ..memory.records import RECRUITABLE, AgentRecord, StatusChange
from ..prompts.load import load_prompt
from .act import READER, attempt, goal_of, offers_for, subtask_state
from .answers import same_answer, squeeze
from .creation.expert import ExpertReply
from .desk import Desk
from .evaluate import by_opinion
from .known_tools import known_tools
from .life.keeping import numbered

MAX_TOOLS: Final = 12
"""Tools that an expert remembers; the one that helped longest ago is forgotten first."""


class Improved(NamedTuple):
    """What came of the attempt to improve an expert."""

    better: AgentRecord | None
    why: str
    """Why there is no better version; empty when none was tried."""
    ledger: Sequence[Spent] = ()
    """What the replay cost."""


async def grown(
    desk: Desk, state: State, expert: AgentRecord, key: str, judgement: Judgement
) -> AgentRecord | None:
    """Store the version of the expert that also knows the tools which helped; `None` when it knows them all.

    Those helped that worked in its sub-tasks of this run, were not faulted, exist and can be recruited.

    Args:
        desk: Of the node.
        state: Of a run that succeeded.
        expert: As it is now.
        key: Its id in the run.
        judgement: On the run.
    """
    faulted = {fault["name"] for fault in judgement["faults"]}
    called = [
        call["tool"]
        for result in state["results"]
        if result["expert_id"] == key
        for call in result["calls"]
        if call["ok"] and call["tool"] not in faulted
    ]
    fresh = [name for name in dict.fromkeys(called) if name not in expert.tools]
    names = [tool.name for tool in await known_tools(desk, fresh)]
    if not names:
        return None
    changed = {
        "tools": (*expert.tools, *names)[-MAX_TOOLS:],
        "supersedes": expert.id,
        "run_id": state["run_id"],
        "status": "active",
        "history": (
            StatusChange(
                status="active", reason=f"helped by {', '.join(names)}", run_id=state["run_id"]
            ),
        ),
    }
    return await _stored(desk, await numbered(desk, expert.model_copy(update=changed)))


async def improve_expert(
    desk: Desk,
    state: State,
    expert: AgentRecord,
    key: str,
    fault: dict[str, Any],
    judgement: Judgement,
    react: "CompiledStateGraph[Any, Any, Any, Any]",
) -> Improved:
    """Rewrite the strategy of a faulted expert, and replay its sub-task with it, once.

    The new version is stored when all is known: active if the judge finds its work right, else retired
    with the reason. A model that cannot judge does not try.

    Raises:
        ModelUnavailable: If a model cannot be reached; nothing is stored then.
        SandboxUnavailable: If a tool was called and code cannot be run; likewise.
    """
    subtask = _source(state, key, judgement)
    profiles = [(await desk.chat(role)).profile for role in ("planner", "judge")]
    if subtask is None or not all(profile.judges for profile in profiles):
        return Improved(None, "")
    mends = f"mends: {fault['why']}"
    if earlier := await _tried(desk, state, expert, mends):
        active = earlier.status in RECRUITABLE
        return Improved(earlier if active else None, "" if active else earlier.history[-1].reason)
    work = subtask_state(state, subtask)
    before = next(one for one in state["results"] if one["subtask"] == subtask["id"])
    if why := _not_at_hand(state, before):
        return Improved(None, why)
    offers = await offers_for(desk, work, expert)
    if any(offer["origin"] in ("host", "mcp") for offer in offers):
        return Improved(None, "it was not replayed: a host's tool may act on the world")
    strategy = await _new_strategy(desk, expert, work, fault, judgement)
    if not strategy:
        return Improved(None, "no other strategy was found")
    changed = {"strategy": strategy, "supersedes": expert.id, "run_id": state["run_id"]}
    better = await numbered(desk, expert.model_copy(update=changed))
    result, ledger = await attempt(desk, work, better, offers, react, tries=1)
    lacking, said = await _verdict(desk, state, work, better, before, result, fault)
    desk.tell("replayed", name=better.name, version=better.version, lacking=lacking, **result)
    spent = [Spent(**{**line, "stage": desk.stage, "direction": "backward"}) for line in ledger]
    status, reason = ("retired", f"replayed: {lacking}") if lacking else ("active", said)
    history = tuple(
        StatusChange(status=to, reason=because, run_id=state["run_id"])  # type: ignore[arg-type]
        for to, because in (("candidate", mends), (status, reason))
    )
    kept = await _stored(desk, better.model_copy(update={"status": status, "history": history}))
    return Improved(kept, reason if lacking else "", spent)


async def _stored(desk: Desk, record: AgentRecord) -> AgentRecord | None:
    """Store a version; `None` if it cannot be recruited, as one that was dropped before."""
    await desk.memory.put(record)
    kept = await desk.memory.get("agent", record.id)
    return kept if kept is not None and kept.status in RECRUITABLE else None


async def _tried(desk: Desk, state: State, expert: AgentRecord, mends: str) -> AgentRecord | None:
    """Return the version that this run made for this fault before it was interrupted."""
    versions = await desk.memory.find_by_name("agent", expert.name, namespace=expert.namespace)
    for one in versions:
        first = one.history[0] if one.history else None
        if (
            one.supersedes == expert.id
            and first
            and (first.reason, first.run_id)
            == (
                mends,
                state["run_id"],
            )
        ):
            return one
    return None


def _source(state: State, key: str, judgement: Judgement) -> SubTask | None:
    """Return the sub-task that is replayed: the first of the expert's that was criticised, else its first."""
    bad = {one["id"] for one in judgement["subtasks"] if not one["ok"]}
    mine = [one["subtask"] for one in state["results"] if one["expert_id"] == key]
    mine.sort(key=lambda name: name not in bad)
    return next((one for one in state["plan"] if mine and one["id"] == mine[0]), None)


def _not_at_hand(state: State, before: Result) -> str:
    read = any(call["tool"] == READER for call in before["calls"])
    return (
        "it was not replayed: its files are not at hand" if read and not state.get("files") else ""
    )


async def _new_strategy(
    desk: Desk,
    expert: AgentRecord,
    work: SubTaskState,
    fault: dict[str, Any],
    judgement: Judgement,
) -> str:
    """Ask for another strategy; empty when there is none."""
    subtask = work["subtask"]["id"]
    critiques = [
        one["critique"] for one in judgement["subtasks"] if one["id"] == subtask and not one["ok"]
    ]
    messages = load_prompt("improve_agent").messages(
        name=expert.name,
        expertise=expert.expertise,
        strategy=expert.strategy,
        goal=goal_of(work),
        critique="\n".join(dict.fromkeys([fault["why"], *critiques])),
    )
    try:
        reply = await desk.structured("planner", messages, ExpertReply)
    except ModelReplyError:
        return ""
    return "" if squeeze(reply.strategy) == squeeze(expert.strategy) else reply.strategy


async def _verdict(
    desk: Desk,
    state: State,
    work: SubTaskState,
    better: AgentRecord,
    before: Result,
    result: Result,
    fault: dict[str, Any],
) -> tuple[str, str]:
    """Judge the replay by itself: what it lacks, empty when nothing; and what the judge said of it."""
    if result["partial"]:
        return "it was not finished", ""
    failed = state["verdict"] == "failure"
    if failed and same_answer(result["result"], before["result"]):
        return "it came to the same result", ""
    decisions = [
        {**one, "asset_id": better.id, "asset_name": better.name}
        if one["asset_id"] == before["expert_id"]
        else one
        for one in work["decisions"]
    ]
    alone: Any = {
        **state,
        "task": goal_of(work),
        "plan": [work["subtask"]],
        "decisions": decisions,
        "results": [result],
        "answer": result["result"],
    }
    said = f"An earlier try was found wrong: {fault['why']} Is this one right?"
    try:
        judgement = await by_opinion(desk, alone, said)
    except ModelReplyError as exc:
        return f"it could not be judged: {exc}", ""
    if any(one["id"] == better.id for one in judgement["faults"]):
        return "it was faulted again", ""
    if judgement["verdict"] != "success":
        return f"it was not judged a success: {judgement['reason']}", ""
    return "", f"replayed: {judgement['reason']}"
