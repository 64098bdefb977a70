"""Node: what becomes of the assets, by the verdict: promoted, improved, dropped, or left a candidate."""

import asyncio
from typing import Any, Final

from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ..graph.context import Context
from ..graph.state import Judgement, State
from ..memory.projection import remove_projection, write_projection
from ..memory.records import AgentRecord, Case, Status, ToolRecord
from .chronicle import used_ids
from .creation.check import passes
from .creation.question import is_weak, was_approved
from .desk import Desk, Resources

LEFT: Final = "left a candidate: no verdict"


async def evolve_assets(
    state: State,
    runtime: Runtime[Context],
    *,
    resources: Resources,
    mending: "CompiledStateGraph[Any, Any, Any, Any]",
) -> dict[str, Any]:
    """Go through the assets that the run made or used.

    A candidate that passed its gate is promoted unless the critique of that asset faults it. A fault
    becomes a new case and a new version, or the candidate is dropped. After an abstention everything
    stays as it is. New versions come first, since a person may be asked about one: until all have been
    answered nothing is written.

    Raises:
        StoreError: If the memory cannot be written.
    """
    desk = Desk.of(runtime, resources, "evolve_assets", "backward")
    judgement = state["judgement"]
    kept: list[dict[str, Any]] = []
    if judgement is None:
        return {"kept": kept, "ledger": desk.ledger}
    found = [(kind, await desk.memory.get(kind, key)) for kind, key in _touched(state)]
    assets = [(kind, one) for kind, one in found if one is not None and one.origin == "generated"]
    mended = {
        one.id: await _mend(desk, state, one, judgement, mending)
        for _, one in assets
        if isinstance(one, ToolRecord)
    }
    for kind, asset in assets:
        change = await _settle(desk, state, asset, judgement, mended.get(asset.id) or {})
        about = {"id": asset.id, "kind": kind, "name": asset.name, "from": asset.status}
        kept.append({**about, **change})
    desk.tell("evolved", kept=kept)
    spent = [line for one in mended.values() for line in one.get("ledger", [])]
    return {"kept": kept, "ledger": [*desk.ledger, *spent]}


def _touched(state: State) -> list[tuple[Any, str]]:
    """Return kind and id of each asset made or used, each once, in the plan's order."""
    used = set(used_ids(state))
    return list(
        {
            one["asset_id"]: (one["need"]["kind"], one["asset_id"])
            for one in state["decisions"]
            if one["asset_id"] and (one["outcome"] == "created" or one["asset_id"] in used)
        }.values()
    )


async def _settle(
    desk: Desk,
    state: State,
    asset: ToolRecord | AgentRecord,
    judgement: Judgement,
    mended: dict[str, Any],
) -> dict[str, Any]:
    """Decide on one asset; returns its new status and the reason."""
    fault = _fault_of(asset, judgement)
    if fault is not None:
        return await _faulted(desk, state, asset, fault, judgement, mended)
    if judgement["verdict"] == "abstained":
        await _show(desk, asset)
        return {"to": asset.status, "reason": LEFT}
    if (
        asset.status == "quarantined"
        and judgement["by"] == "person"
        and judgement["verdict"] == "success"
    ):
        return await _move(desk, state, asset, "active", "a person found it right")
    if asset.status != "candidate":
        return {"to": asset.status, "reason": "not faulted"}
    if why := _why_not_yet(asset, judgement):
        await _show(desk, asset)
        return {"to": "candidate", "reason": why}
    return await _move(
        desk,
        state,
        asset,
        "active",
        f"passed its gate; verdict {judgement['verdict']} by {judgement['by']}",
    )


def _why_not_yet(asset: ToolRecord | AgentRecord, judgement: Judgement) -> str:
    """Say what keeps a candidate without fault from being promoted; empty when nothing does."""
    if not isinstance(asset, ToolRecord):
        return ""
    if not asset.second_opinion and judgement["verdict"] != "success":
        return "it never got a second opinion, and the run failed"
    if is_weak(asset) and not was_approved(asset) and judgement["by"] != "person":
        return "its cases are weak: it needs a person"
    return ""


def _fault_of(asset: ToolRecord | AgentRecord, judgement: Judgement) -> dict[str, Any] | None:
    return next((fault for fault in judgement["faults"] if fault["id"] == asset.id), None)


async def _mend(
    desk: Desk,
    state: State,
    tool: ToolRecord,
    judgement: Judgement,
    mending: "CompiledStateGraph[Any, Any, Any, Any]",
) -> dict[str, Any]:
    """Make a better version of a faulted tool, which is not stored yet; a person may be asked about it.

    Returns:
        Nothing for a tool without fault; `cleared` when the fault was tried out and is not there; else
        how the mending ended.
    """
    fault = _fault_of(tool, judgement)
    if fault is None:
        return {}
    case = _case_of(fault, judgement)
    if (
        case is not None
        and judgement["by"] != "person"
        and not await passes(desk, tool.code, tool.function, [case.model_dump()])
    ):
        return {"cleared": True}
    start = {
        "run_id": state["run_id"],
        "tool": tool.model_dump(mode="json"),
        "why": fault["why"],
        "cases": [one.model_dump(mode="json") for one in (*tool.cases, *([case] if case else []))],
    }
    end: dict[str, Any] = await mending.ainvoke(start, context=desk.context)
    return end


async def _faulted(
    desk: Desk,
    state: State,
    asset: ToolRecord | AgentRecord,
    fault: dict[str, Any],
    judgement: Judgement,
    mended: dict[str, Any],
) -> dict[str, Any]:
    """A fault becomes a case and a new version; else a candidate is dropped, a person's fault quarantines."""
    if mended.get("cleared"):
        reason = "the fault was tried out and is not there"
        return {"to": asset.status, "reason": reason, "cleared": True}
    if mended.get("better"):
        better = ToolRecord(**mended["better"])
        await desk.memory.put(better)
        await _show(desk, better)
        await _move(desk, state, asset, "superseded", f"version {better.version}: {fault['why']}")
        reason = f"version {better.version} mends: {fault['why']}"
        return {"to": "superseded", "reason": reason, "new_id": better.id}
    why = fault["why"]
    if mended.get("outcome"):
        why = f"{why}; no new version: {mended['outcome']}"
    if asset.status == "candidate":
        return await _move(desk, state, asset, "retired", f"faulted: {why}")
    if judgement["by"] == "person":
        return await _move(desk, state, asset, "quarantined", f"a person faulted it: {why}")
    return {"to": asset.status, "reason": f"faulted, counted as a loss: {why}"}


def _case_of(fault: dict[str, Any], judgement: Judgement) -> Case | None:
    if not fault.get("args") or fault.get("expected") is None:
        return None
    origin = "person" if judgement["by"] == "person" else "model"
    return Case(args=fault["args"], expected=fault["expected"], origin=origin, tolerance=1e-9)  # type: ignore[arg-type]  # one of two literals


async def _move(
    desk: Desk, state: State, asset: ToolRecord | AgentRecord, status: Status, reason: str
) -> dict[str, Any]:
    """Change the status, with its reason, and the files that show it."""
    kind: Any = "tool" if isinstance(asset, ToolRecord) else "agent"
    moved = await desk.memory.set_status(kind, asset.id, status, reason, run_id=state["run_id"])
    if isinstance(moved, ToolRecord):
        await _show(desk, moved)
    return {"to": status, "reason": reason}


async def _show(desk: Desk, asset: ToolRecord | AgentRecord) -> None:
    """Bring the files in `tools_generated/` in line with a tool's record."""
    if not isinstance(asset, ToolRecord) or not desk.resources.write_files:
        return
    change = remove_projection if asset.status == "retired" else write_projection
    await asyncio.to_thread(change, desk.resources.settings.tools_dir, asset)
