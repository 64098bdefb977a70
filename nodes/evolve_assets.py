"""Node: what becomes of the assets, by the verdict: promoted, improved, dropped, or left a candidate."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Final

from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ..errors import Mem2EvolveError, StoreError
from ..graph.context import Context
from ..graph.state import Judgement, Spent, State
from ..memory.records import RECRUITABLE, AgentRecord, Case, ToolRecord
from .chronicle import touched_assets
from .creation.cases import passes
from .creation.question import is_weak, was_approved
from .desk import Desk, Resources, named_files
from .evolve_expert import grown, improve_expert
from .life.keeping import Asset, kind_of, latest, move, promote, show, supersede_older
from .permitted import box_of

LEFT: Final = "left a candidate: no verdict"


async def evolve_assets(
    state: State,
    runtime: Runtime[Context],
    *,
    resources: Resources,
    react: "CompiledStateGraph[Any, Any, Any, Any]",
    mending: "CompiledStateGraph[Any, Any, Any, Any]",
) -> dict[str, Any]:
    """Go through the assets that the run made or used, tools first.

    A candidate that passed its gate is promoted unless the critique of that asset faults it. A fault
    becomes a new case and a new version, or the candidate is dropped. An expert gets to know the tools
    that helped it. After an abstention everything stays as it is, and so does an asset whose turn met
    passing trouble. New versions of tools come first, since a person may be asked about one: until
    all have been answered nothing is written.

    Raises:
        StoreError: If the memory cannot be written.
    """
    desk = Desk.of(runtime, resources, "evolve_assets", "backward", state["namespace"])
    judgement = state["judgement"]
    kept: list[dict[str, Any]] = []
    if judgement is None:
        return {"kept": kept, "ledger": desk.ledger}
    bench = _Evolution(desk, state, react)
    found = [(kind, key, await desk.memory.get(kind, key)) for kind, key in touched_assets(state)]
    assets = [(*_, one) for *_, one in found if one is not None and one.origin == "generated"]
    for _, key, tool in assets:
        if isinstance(tool, ToolRecord):
            bench.mended[key] = await _or_trouble(bench.mend(tool, judgement, mending))
    for kind, key, asset in assets:
        now = await _as_judged(desk, state, asset, key)
        change = bench.mended.get(key, {}).get("change")
        if change is None:
            change = await _or_trouble(bench.settle(now, key, judgement))
            change = change.get("change", change)
        about = {"id": key, "kind": kind, "name": now.name, "from": now.status}
        kept.append({**about, "to": now.status, **change})
    desk.tell("evolved", kept=kept)
    return {"kept": kept, "ledger": [*desk.ledger, *bench.ledger]}


async def _or_trouble(step: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Return what a step found, or, where passing trouble kept it from that, why the asset stays as it was."""
    try:
        return await step
    except Mem2EvolveError as exc:
        if not exc.transient or isinstance(exc, StoreError):
            raise
        return {"change": {"reason": f"left as it was, for passing trouble: {exc}"}}


async def _as_judged(desk: Desk, state: State, asset: Asset, key: str) -> Asset:
    """Return the version that an asset known to the run as `key` lives on in, as it stood at the verdict.

    So a step that was broken off, and has moved some assets, decides and tells the same when it is repeated. What
    somebody else has changed since is taken as it is.
    """
    now = await latest(desk, asset) if isinstance(asset, AgentRecord) else asset
    stood = (state.get("standing") or {}).get(key)
    then = await desk.memory.get(kind_of(asset), stood["id"]) if stood else None
    if not stood or not then or not then.history or then.history[-1].run_id != state["run_id"]:
        return now
    return then.model_copy(update={"status": stood["status"]})


@dataclass
class _Evolution:
    """One pass over the assets of a run."""

    desk: Desk
    state: State
    react: "CompiledStateGraph[Any, Any, Any, Any]"
    ledger: list[Spent] = field(default_factory=list)
    """What replays cost."""
    mended: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How the mending of each tool ended, by its id."""
    better: dict[str, str] = field(default_factory=dict)
    """Id of the version that mends a tool, by the id of that tool: a replay works with it."""

    async def mend(
        self,
        tool: ToolRecord,
        judgement: Judgement,
        mending: "CompiledStateGraph[Any, Any, Any, Any]",
    ) -> dict[str, Any]:
        """Make a better version of a faulted tool, which is not stored yet; a person may be asked about it.

        Returns:
            Nothing for a tool without fault; `cleared` when the fault was tried out and is not there;
            else how the mending ended.
        """
        fault = _fault_of(tool.id, judgement)
        if fault is None:
            return {}
        case = _case_of(fault, judgement)
        extra = [case.model_dump(mode="json")] if case else []
        files = self.state.get("files") or []
        box = box_of(self.desk.resources, tool, named_files(files))
        by_person = judgement["by"] == "person"
        if extra and not by_person and not await passes(box, tool.code, tool.function, extra):
            return {"cleared": True}
        start = {
            "run_id": self.state["run_id"],
            "tool": tool.model_dump(mode="json"),
            "why": fault["why"],
            "files": files,
            "cases": [*(one.model_dump(mode="json") for one in tool.cases), *extra],
        }
        end: dict[str, Any] = await mending.ainvoke(start, context=self.desk.context)
        self.ledger += end.get("ledger", [])
        return end

    async def settle(self, asset: Asset, key: str, judgement: Judgement) -> dict[str, Any]:
        """Decide on one asset, known to the run as `key`; returns its new status and the reason."""
        fault = _fault_of(key, judgement)
        if fault is not None:
            return await self._faulted(asset, key, fault, judgement)
        if judgement["verdict"] == "abstained":
            await show(self.desk, asset)
            return {"to": asset.status, "reason": LEFT}
        return await self._not_faulted(asset, key, judgement)

    async def _faulted(
        self, asset: Asset, key: str, fault: dict[str, Any], judgement: Judgement
    ) -> dict[str, Any]:
        """A new version takes its place; else a candidate is dropped, and a person's fault quarantines."""
        run_id, why = self.state["run_id"], fault["why"]
        if isinstance(asset, ToolRecord):
            change, lacking = await self._faulted_tool(asset, fault, self.mended.get(key, {}))
        else:
            change, lacking = await self._faulted_expert(asset, key, fault, judgement)
        why += f" (no better version: {lacking})" if lacking else ""
        if change is not None:
            return change
        if asset.status == "candidate":
            return await move(self.desk, run_id, asset, "retired", f"faulted: {why}")
        if judgement["by"] == "person":
            reason = f"a person faulted it: {why}"
            return await move(self.desk, run_id, asset, "quarantined", reason)
        return {"to": asset.status, "reason": f"faulted, counted as a loss: {why}"}

    async def _not_faulted(self, asset: Asset, key: str, judgement: Judgement) -> dict[str, Any]:
        """A candidate is promoted; an expert gets to know the tools that helped it to a success."""
        verdict, by = judgement["verdict"], judgement["by"]
        if asset.status == "quarantined" and by == "person" and verdict == "success":
            return await self._promote(asset, "a person found it right")
        if verdict == "success" and isinstance(asset, AgentRecord) and asset.status in RECRUITABLE:
            better = await grown(self.desk, self.state, asset, key, judgement)
            if better is not None:
                return await self._replaced(asset, better, better.history[0].reason)
        if asset.status != "candidate":
            return {"to": asset.status, "reason": "not faulted"}
        if isinstance(asset, ToolRecord) and (why := _why_not_yet(asset, judgement)):
            await show(self.desk, asset)
            return {"to": "candidate", "reason": why}
        return await self._promote(asset, f"passed its gate; verdict {verdict} by {by}")

    async def _faulted_tool(
        self, tool: ToolRecord, fault: dict[str, Any], mended: dict[str, Any]
    ) -> tuple[dict[str, Any] | None, str]:
        """A fault becomes a case and a new version; `None` and why where it cannot be mended."""
        if mended.get("cleared"):
            reason = "the fault was tried out and is not there"
            return {"to": tool.status, "reason": reason, "cleared": True}, ""
        if not mended.get("better"):
            return None, mended.get("outcome", "")
        better = ToolRecord(**mended["better"])
        await self.desk.memory.put(better)
        await show(self.desk, better)
        self.better[tool.id] = better.id
        reason = f"version {better.version}: {fault['why']}"
        await move(self.desk, self.state["run_id"], tool, "superseded", reason)
        reason = f"version {better.version} mends: {fault['why']}"
        return {"to": "superseded", "reason": reason, "new_id": better.id}, ""

    async def _faulted_expert(
        self, expert: AgentRecord, key: str, fault: dict[str, Any], judgement: Judgement
    ) -> tuple[dict[str, Any] | None, str]:
        """A fault becomes another strategy if that does better in a replay; `None` and why where it does not."""
        decisions = [
            {**one, "asset_id": self.better[one["asset_id"]], "record": None}
            if one["asset_id"] in self.better
            else one
            for one in self.state["decisions"]
        ]
        state = State(**{**self.state, "decisions": decisions})  # type: ignore[typeddict-item]
        tried = await improve_expert(self.desk, state, expert, key, fault, judgement, self.react)
        self.ledger += tried.ledger
        if tried.better is None:
            return None, tried.why
        return await self._replaced(expert, tried.better, f"mends: {fault['why']}"), ""

    async def _replaced(self, asset: AgentRecord, better: AgentRecord, what: str) -> dict[str, Any]:
        """Supersede what a version that is active already takes the place of."""
        await supersede_older(self.desk, self.state["run_id"], better)
        to = "superseded" if asset.status in RECRUITABLE else asset.status
        reason = f"version {better.version} is active: {what}"
        return {"to": to, "reason": reason, "new_id": better.id}

    async def _promote(self, asset: Asset, reason: str) -> dict[str, Any]:
        return await promote(self.desk, self.state["run_id"], asset, reason)


def _why_not_yet(tool: ToolRecord, judgement: Judgement) -> str:
    """Say what keeps a candidate without fault from being promoted; empty when nothing does."""
    if not tool.second_opinion and judgement["verdict"] != "success":
        return "it never got a second opinion, and the run failed"
    if is_weak(tool) and not was_approved(tool) and judgement["by"] != "person":
        return "its cases are weak: it needs a person"
    return ""


def _fault_of(key: str, judgement: Judgement) -> dict[str, Any] | None:
    return next((fault for fault in judgement["faults"] if fault["id"] == key), None)


def _case_of(fault: dict[str, Any], judgement: Judgement) -> Case | None:
    if not fault.get("args") or fault.get("expected") is None:
        return None
    origin = "person" if judgement["by"] == "person" else "model"
    return Case(args=fault["args"], expected=fault["expected"], origin=origin, tolerance=1e-9)  # type: ignore[arg-type]  # one of two literals
