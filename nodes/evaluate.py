"""Node: a verdict on the run, with evidence; abstaining is allowed.

In order of trust: a person, the caller's checker, a check that can be executed (the judge answers the task
again from the same evidence without seeing the answer, and the two are compared here), the judge's opinion.
"""

import inspect
from typing import Any, Final, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel

from ..errors import ModelError, NotFoundError
from ..graph.context import Context
from ..graph.state import Correction, Judgement, State
from ..memory.records import AgentRecord
from ..models.chat import Sampling
from ..prompts.load import load_prompt
from .aggregate import in_order
from .answers import same_answer, squeeze
from .chronicle import record_run, touched_assets, used_assets
from .desk import Desk, Resources
from .foreign_tools import unless_in_trouble
from .life.keeping import latest
from .react import evidence_line

SHORT: Final = 200
"""Characters up to which an answer can be compared with another one."""
GATHERED: Final[tuple[str, ...]] = ("decisions", "creations", "results", "ledger")
"""Fields of the state with a reducer that appends."""
UNKNOWN: Final = "UNKNOWN"
STEADY: Final = Sampling(temperature=0.0, max_tokens=300)


class SubTaskCritique(BaseModel):
    """What the judge says of one sub-task."""

    id: str
    ok: bool
    critique: str


class Fault(BaseModel):
    """What the judge holds against one asset."""

    name: str
    why: str
    args: dict[str, Any] | None = None
    expected: Any = None


class JudgeReply(BaseModel):
    """The shape `prompts/judge.yaml` asks for."""

    evidence: str
    verdict: Literal["success", "failure", "abstained"]
    reason: str
    subtasks: list[SubTaskCritique] = []
    faults: list[Fault] = []


async def evaluate(
    state: State, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Judge the run; given a person's correction, take up the earlier run it is about.

    Passing trouble with the judge's model is an abstention: the answer stands, nothing is learned.

    Raises:
        NotFoundError: If the corrected run is not known.
        StoreError: If the run cannot be recorded.
    """
    desk = Desk.of(runtime, resources, "evaluate", "backward")
    restored: dict[str, Any] = {}
    if correction := state.get("reopened"):
        restored = await _restore(desk, correction)
        state = State(**{**state, **restored})  # type: ignore[typeddict-item]
    judgement = unless_in_trouble(state, await _judge(desk, state, correction))
    desk.tell("judged", **judgement)
    update = {"judgement": judgement, "verdict": judgement["verdict"], "ledger": desk.ledger}
    spent = [*state["ledger"], *desk.ledger]
    await record_run(desk, State(**{**state, **update, "ledger": spent}))  # type: ignore[typeddict-item]
    gathered = {key: {"all": restored[key]} for key in GATHERED if key in restored}
    return {**restored, **gathered, **update, "standing": await _standing(desk, state)}


async def _standing(desk: Desk, state: State) -> dict[str, dict[str, str]]:
    """Note how the assets stand, before anything is made of the verdict."""
    found = {}
    for kind, key in touched_assets(state):
        asset = await desk.memory.get(kind, key)
        if isinstance(asset, AgentRecord):
            asset = await latest(desk, asset)
        if asset is not None:
            found[key] = {"id": asset.id, "status": asset.status}
    return found


async def _judge(desk: Desk, state: State, correction: Correction | None) -> Judgement:
    try:
        if correction:
            return await _by_person(desk, state, correction)
        if desk.resources.checker is not None:
            return await _by_checker(desk, state)
        return await _by_second_answer(desk, state) or await by_opinion(desk, state)
    except ModelError as exc:
        return _judgement(
            "abstained", "judge", reason=f"It could not be judged: {exc}", transient=exc.transient
        )


async def _by_person(desk: Desk, state: State, correction: Correction) -> Judgement:
    verdict: Literal["success", "failure"] = "success" if correction["right"] else "failure"
    faults: list[dict[str, Any]] = []
    if verdict == "failure":
        named = correction["because"].lower()
        faults = [
            {
                "id": asset["id"],
                "name": asset["name"],
                "why": correction["because"],
                "args": None,
                "expected": None,
            }
            for asset in used_assets(state)
            if asset["name"].lower() in named
        ]
        if not faults and (await desk.chat("judge")).profile.judges:
            said = f"A person says that the answer is wrong: {correction['because']}"
            faults = _resolve((await _ask_judge(desk, state, said)).faults, state)
    return _judgement(
        verdict,
        "person",
        evidence=correction["because"],
        reason=correction["because"],
        faults=faults,
    )


async def _by_checker(desk: Desk, state: State) -> Judgement:
    assert desk.resources.checker is not None  # noqa: S101 - for the type checker; the caller looked
    try:
        said = desk.resources.checker(state["task"], state["answer"])
        said = await said if inspect.isawaitable(said) else said
    except Exception as exc:  # noqa: BLE001 - the caller's code; whatever it raises is no verdict
        return _judgement(
            "abstained", "checker", reason=f"The checker failed: {type(exc).__name__}: {exc}"
        )
    if said is None:
        return _judgement("abstained", "checker", reason="The checker abstained.")
    verdict: Literal["success", "failure"] = "success" if said else "failure"
    return _judgement(
        verdict,
        "checker",
        evidence="checker",
        reason=f"The checker says that the answer is {'right' if said else 'wrong'}.",
    )


async def _by_second_answer(desk: Desk, state: State) -> Judgement | None:
    """Answer again from the same evidence, blind, and compare; `None` if that decides nothing."""
    results = in_order(state)
    evidence = "\n".join(evidence_line(call) for result in results for call in result["calls"])
    if not evidence or len(state["answer"]) > SHORT or any(result["partial"] for result in results):
        return None
    messages = load_prompt("second_answer").messages(task=state["task"], evidence=evidence)
    second = await desk.text("judge", messages, STEADY)
    if UNKNOWN in second:
        return None
    if not same_answer(second, state["answer"]):
        if (await desk.chat("judge")).profile.judges:
            return None
        reason = f"A second answer from the same evidence is {second[:SHORT]!r}, not {state['answer']!r}."
        return _judgement("abstained", "judge", evidence=second[:SHORT], reason=reason)
    critiques = [
        {
            "id": result["subtask"],
            "ok": True,
            "critique": "its calls returned what the answer needs",
        }
        for result in results
    ]
    reason = "A second answer, from the same evidence without seeing the first, is the same."
    return _judgement(
        "success", "judge", evidence=evidence[:500], reason=reason, subtasks=critiques
    )


async def by_opinion(desk: Desk, state: State, said: str = "") -> Judgement:
    """Ask the judge, who is told what else was `said`.

    A verdict whose evidence is not found in the work is an abstention.
    """
    if not (await desk.chat("judge")).profile.judges:
        return _judgement(
            "abstained",
            "judge",
            reason="There is no check to execute, and this model is not trusted to judge without one.",
        )
    reply = await _ask_judge(desk, state, said)
    faults = _resolve(reply.faults, state)
    critiques = [critique.model_dump() for critique in reply.subtasks]
    seen = squeeze(f"{work_of(state)}\n{state['answer']}\n{state['task']}")
    quoted = squeeze(reply.evidence)
    if reply.verdict != "abstained" and (not quoted or quoted not in seen):
        reason = f"The judge said {reply.verdict}, but its evidence is not in the work: {reply.evidence[:SHORT]!r}"
        return _judgement(
            "abstained", "judge", evidence=reply.evidence, reason=reason, subtasks=critiques
        )
    return _judgement(
        reply.verdict,
        "judge",
        evidence=reply.evidence,
        reason=reply.reason,
        subtasks=critiques,
        faults=faults,
    )


async def _ask_judge(desk: Desk, state: State, other: str) -> JudgeReply:
    messages = load_prompt("judge").messages(
        task=state["task"], work=work_of(state), answer=state["answer"], other=other
    )
    return await desk.structured("judge", messages, JudgeReply, Sampling(temperature=0.0))


async def _restore(desk: Desk, correction: Correction) -> dict[str, Any]:
    """Return the state of an earlier run."""
    run = await desk.memory.get("run", correction["run_id"])
    if run is None:
        raise NotFoundError(
            f"Run {correction['run_id']!r} is not known.",
            hint="List runs with `mem2evolve runs list`.",
        )
    return {
        "run_id": run.id,
        "namespace": run.namespace,
        "task": run.task,
        "plan": run.plan,
        "decisions": run.decisions,
        "creations": run.creations,
        "results": run.results,
        "answer": run.answer,
        "started": 0.0,
        "ended": 0.0,
        "ledger": [],
        "lessons": [],
        "learned": [],
        "kept": [],
    }


def work_of(state: State) -> str:
    """Return what was done, for a judge or a distiller."""
    lines = []
    for result in in_order(state):
        lines.append(f"Sub-task {result['subtask']}: {result['goal']}")
        lines += [evidence_line(call)[:1000] for call in result["calls"]]
        lines.append(
            f"Result: {result['result'][:1000]}" + (" (partial)" if result["partial"] else "")
        )
    return "\n".join(lines)


def _resolve(faults: list[Fault], state: State) -> list[dict[str, Any]]:
    """Keep the faults of assets that were used; what else the judge names was not there."""
    assets = {asset["name"].lower(): asset["id"] for asset in used_assets(state)}
    return [
        {"id": assets[fault.name.lower()], **fault.model_dump()}
        for fault in faults
        if fault.name.lower() in assets
    ]


def _judgement(
    verdict: Literal["success", "failure", "abstained"],
    by: Literal["judge", "checker", "person"],
    *,
    reason: str,
    evidence: str = "",
    transient: bool = False,
    subtasks: list[dict[str, Any]] | None = None,
    faults: list[dict[str, Any]] | None = None,
) -> Judgement:
    return Judgement(
        verdict=verdict,
        by=by,
        evidence=evidence,
        reason=reason,
        transient=transient,
        subtasks=subtasks or [],
        faults=faults or [],
    )
