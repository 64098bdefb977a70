"""Node: what becomes of the assets, by the verdict: promoted, improved, dropped, or left a candidate."""

import asyncio
from typing import Any, Final

from langgraph.runtime import Runtime

from ..errors import ModelError
from ..graph.context import Context
from ..graph.state import Judgement, State
from ..memory.projection import remove_projection, write_projection
from ..memory.records import AgentRecord, Case, Status, StatusChange, ToolRecord
from ..models.chat import Sampling
from ..models.replies import extract_code
from ..prompts.load import load_prompt
from ..sandbox import normalise, read_header
from .chronicle import used_ids
from .creation.agree import normal_form
from .creation.cases import passes
from .creation.check import screened
from .creation.verify import environment
from .creation.write import END_OF_BLOCK, MAX_CODE_TOKENS, packages_clause
from .desk import Desk, Resources

LEFT: Final = "left a candidate: no verdict"


async def evolve_assets(
    state: State, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Go through the assets that the run made or used.

    A candidate that passed its gate is promoted unless the critique of that asset faults it. A fault
    becomes a new case and a new version, or the candidate is dropped. After an abstention everything
    stays as it is.

    Raises:
        StoreError: If the memory cannot be written.
    """
    desk = Desk.of(runtime, resources, "evolve_assets", "backward")
    judgement = state["judgement"]
    kept: list[dict[str, Any]] = []
    for kind, key in _touched(state):
        asset = await desk.memory.get(kind, key)
        if asset is None or asset.origin != "generated" or judgement is None:
            continue
        change = await _settle(desk, state, asset, judgement)
        kept.append({"id": key, "kind": kind, "name": asset.name, "from": asset.status, **change})
    desk.tell("evolved", kept=kept)
    return {"kept": kept, "ledger": desk.ledger}


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
    desk: Desk, state: State, asset: ToolRecord | AgentRecord, judgement: Judgement
) -> dict[str, Any]:
    """Decide on one asset; returns its new status and the reason."""
    fault = next((fault for fault in judgement["faults"] if fault["id"] == asset.id), None)
    if fault is not None:
        return await _faulted(desk, state, asset, fault, judgement)
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
    trusted = (
        not isinstance(asset, ToolRecord)
        or asset.second_opinion
        or judgement["verdict"] == "success"
    )
    if not trusted:
        await _show(desk, asset)
        return {"to": "candidate", "reason": "it never got a second opinion, and the run failed"}
    return await _move(
        desk,
        state,
        asset,
        "active",
        f"passed its gate; verdict {judgement['verdict']} by {judgement['by']}",
    )


async def _faulted(
    desk: Desk,
    state: State,
    asset: ToolRecord | AgentRecord,
    fault: dict[str, Any],
    judgement: Judgement,
) -> dict[str, Any]:
    """A fault becomes a case and a new version; else a candidate is dropped, a person's fault quarantines."""
    if isinstance(asset, ToolRecord):
        case = _case_of(fault, judgement)
        if (
            case is not None
            and judgement["by"] != "person"
            and not await passes(
                desk.resources.sandbox, asset.code, asset.function, [case.model_dump()]
            )
        ):
            return {
                "to": asset.status,
                "reason": "the fault was tried out and is not there",
                "cleared": True,
            }
        better = await _improve(desk, state, asset, fault, case)
        if better is not None:
            await _move(
                desk, state, asset, "superseded", f"version {better.version}: {fault['why']}"
            )
            return {
                "to": "superseded",
                "reason": f"version {better.version} mends: {fault['why']}",
                "new_id": better.id,
            }
    if asset.status == "candidate":
        return await _move(desk, state, asset, "retired", f"faulted: {fault['why']}")
    if judgement["by"] == "person":
        return await _move(
            desk, state, asset, "quarantined", f"a person faulted it: {fault['why']}"
        )
    return {"to": asset.status, "reason": f"faulted, counted as a loss: {fault['why']}"}


def _case_of(fault: dict[str, Any], judgement: Judgement) -> Case | None:
    if not fault.get("args") or fault.get("expected") is None:
        return None
    origin = "person" if judgement["by"] == "person" else "model"
    return Case(args=fault["args"], expected=fault["expected"], origin=origin, tolerance=1e-9)  # type: ignore[arg-type]  # one of two literals


async def _improve(
    desk: Desk, state: State, tool: ToolRecord, fault: dict[str, Any], case: Case | None
) -> ToolRecord | None:
    """Rewrite the tool until it passes its cases and the new one, or the rounds run out."""
    if not (await desk.chat("coder")).profile.mends_code:
        return None
    cases = [*tool.cases, *([case] if case else [])]
    failures, source = f"- {fault['why']}", tool.code
    for turn in range(1, desk.context.debug_rounds + 1):
        try:
            source = await _rewrite(desk, tool, source, failures, turn)
        except ModelError:
            return None
        found = await screened(desk, source, tool.function)
        problems = [f"line {p.line}: {p.reason}" for p in found]
        problems = problems or await passes(
            desk.resources.sandbox, source, tool.function, [one.model_dump() for one in cases]
        )
        if not problems and normal_form(source) == normal_form(tool.code):
            problems = ["it is the same code as before"]
        if not problems:
            break
        failures = "\n".join(f"- {problem}" for problem in problems[:3])
    else:
        return None
    changed = {
        "code": source,
        "dependencies": read_header(source, desk.resources.settings.packages).dependencies,
        "cases": tuple(cases),
        "environment": await environment(desk.resources, source),
        "version": tool.version + 1,
        "supersedes": tool.id,
        "run_id": state["run_id"],
        "status": "candidate",
        "history": (
            StatusChange(
                status="candidate", reason=f"mends: {fault['why']}", run_id=state["run_id"]
            ),
        ),
    }
    better = tool.model_copy(update=changed)
    await desk.memory.put(better)
    await _show(desk, better)
    return better


async def _rewrite(desk: Desk, tool: ToolRecord, source: str, failures: str, turn: int) -> str:
    signature = next(
        (
            line[4:].rstrip(":")
            for line in source.splitlines()
            if line.startswith(f"def {tool.function}")
        ),
        tool.function,
    )
    messages = load_prompt("tool").messages(
        description=tool.description,
        signature=signature,
        packages=packages_clause(desk.resources.settings.packages),
        lessons="",
        web="",
        failures=f"It exists, but is faulty:\n```python\n{source}```\nIts faults:\n{failures}",
    )
    reply = await desk.text("coder", messages, Sampling(0.2 * turn, MAX_CODE_TOKENS, END_OF_BLOCK))
    return normalise(extract_code(reply))


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
