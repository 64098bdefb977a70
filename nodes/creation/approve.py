"""Steps before a tool is kept: settle whether a person must say yes, and ask them."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langgraph.runtime import Runtime

from ...graph.context import Context
from ...memory.records import Case, ToolRecord
from ..desk import Desk, Resources
from ..naming import tool_name
from ..permitted import box_for, permissions_of
from .agree import normal_form
from .cases import passes
from .question import APPROVED, Answer, ask, keeps_state, question_of, why_ask
from .register import record_of
from .state import CreationState
from .twins import REUSED, settle_twins

_log = logging.getLogger(__name__)
UNANSWERED: Final = "needs approval"
"""Begins the outcome of a creation that nobody could be asked about."""
MAX_REJECTIONS: Final = 2
"""The first one goes back to the writer with its reason; the second one ends it."""


async def weigh_approval(
    state: CreationState, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Settle which record the chosen draft becomes, and whether a person must be asked before it is kept.

    A near-twin of a known tool becomes a version of that, or, where nothing is gained, no record at all.

    Raises:
        SandboxUnavailable: If it cannot be compared with its twins.
    """
    desk = Desk.of(runtime, resources, "create:approve")
    made = await record_of(desk, state)
    record, settled = await settle_twins(desk, made, tool_name(state["need"]["name"]))
    dumped = record.model_dump(mode="json")
    if settled == "reused":
        return {
            "tool": dumped | {"id": record.id},
            "outcome": REUSED,
            "chosen": "",
            "question": {},
        }
    old = await desk.memory.get("tool", record.supersedes) if record.supersedes else None
    return {"record": dumped, **await weighed(desk, state, record, old)}


async def ask_approval(
    state: Mapping[str, Any], runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Ask the person. What they reject goes back to the writer once, with their reason.

    The run stops here until it is resumed, and then begins this node anew: nothing before the
    interrupt asks a model or writes.
    """
    desk = Desk.of(runtime, resources, "create:approve")
    question = state["question"]
    answer = ask(question)
    demanded = [*state.get("demanded", []), *_cases(answer)]
    failing = await _failing(resources, state, demanded) if demanded else []
    approved = answer.approve and not failing
    reason = "; ".join(filter(None, ["" if approved else answer.reason, *failing[:3]]))
    desk.tell("approval", tool=question["tool"], approved=approved, reason=reason or answer.reason)
    if approved:
        told = [case["args"] for case in demanded]
        agreed = [case for case in state["cases"] if case["args"] not in told]
        said = f"{APPROVED}: {answer.reason}" if answer.reason else APPROVED
        return {"approval": said, "cases": [*agreed, *demanded], "demanded": demanded}
    reason = reason or "no reason was given"
    return {
        "chosen": "",
        "rejected": [*state.get("rejected", []), normal_form(state["chosen"])],
        "demanded": demanded,
        "outcome": f"rejected: {reason}",
        "failures": f"An earlier draft was not good enough:\n```python\n{state['chosen']}```\n"
        f"Its faults:\n- a person rejected it: {reason}",
    }


async def weighed(
    desk: Desk, state: Mapping[str, Any], record: ToolRecord, old: ToolRecord | None
) -> dict[str, Any]:
    """Return the update that asks a person, keeps the tool unasked, or ends its making."""
    demanded, rejected = state.get("demanded", []), state.get("rejected", [])
    if demanded and (failing := await _failing(desk.resources, state, demanded)):
        return {"question": {}, "chosen": "", "outcome": f"rejected: {'; '.join(failing[:3])}"}
    settings, granted = desk.resources.settings, state.get("granted", [])
    reasons = why_ask(record, desk.context.approve, settings.packages, granted)
    if rejected and not reasons:
        reasons = ["an earlier draft of it was rejected"]
    if not reasons:
        return {"question": {}}
    if not keeps_state():
        outcome = (
            f"{UNANSWERED} ({'; '.join(reasons)}); the graph has no checkpointer, so nobody can be asked: "
            'set approve="never", give `Mem2Evolve` a function `ask`, or compile the graph that the caller runs '
            "with a checkpointer and resume it with the answer"
        )
        _log.warning("The tool %r is not kept: %s.", record.name, outcome)
        return {"question": {}, "chosen": "", "outcome": outcome}
    desk.tell(
        "approval_wanted",
        tool=record.name,
        version=record.version,
        permissions=list(record.permissions),
        reasons=reasons,
    )
    return {"question": question_of(record, old, reasons, permissions_of(record, settings))}


async def _failing(
    resources: Resources, state: Mapping[str, Any], demanded: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return which of a person's cases the chosen draft fails."""
    granted = state["tool"]["permissions"] if state.get("tool") else state.get("granted", [])
    box = box_for(resources, state["chosen"], granted, state.get("files", []))
    return await passes(box, state["chosen"], state["name"], demanded)


def after_weighing(state: Mapping[str, Any]) -> str:
    """Where the making goes on: `ask`, `keep`, or `end`."""
    if state.get("question"):
        return "ask"
    return "keep" if state["chosen"] else "end"


def after_approval(state: Mapping[str, Any]) -> str:
    """Where it goes on once a person has spoken: `keep`, `write`, or `end`."""
    if state["chosen"]:
        return "keep"
    return "end" if len(state["rejected"]) >= MAX_REJECTIONS else "write"


def _cases(answer: Answer) -> list[dict[str, Any]]:
    return [
        Case(**case.model_dump(), origin="person").model_dump(mode="json") for case in answer.cases
    ]
