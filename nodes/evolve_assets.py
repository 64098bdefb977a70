"""Node: what becomes of the assets, by the verdict: promoted, improved, dropped, or left a candidate."""

from dataclasses import dataclass, field
from typing import Any, Final

from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ..errors import Mem2EvolveError, ModelError, StoreError
from ..graph.context import Context
from ..graph.state import Judgement, Spent, State
from ..memory.records import RECRUITABLE, AgentRecord, Case, StatusChange, ToolRecord
from ..models.chat import Sampling
from ..models.replies import extract_code
from ..prompts.load import load_prompt
from ..sandbox import normalise, read_header
from .chronicle import used_assets
from .creation.agree import normal_form
from .creation.cases import passes
from .creation.check import screened
from .creation.verify import environment
from .creation.write import END_OF_BLOCK, MAX_CODE_TOKENS, packages_clause
from .desk import Desk, Resources
from .evolve_expert import grown, improve_expert, latest
from .keeping import Asset, move, numbered, promote, show, supersede_older

LEFT: Final = "left a candidate: no verdict"


async def evolve_assets(
    state: State,
    runtime: Runtime[Context],
    *,
    resources: Resources,
    react: "CompiledStateGraph[Any, Any, Any, Any]",
) -> dict[str, Any]:
    """Go through the assets that the run made or used, tools first.

    A candidate that passed its gate is promoted unless the critique of that asset faults it. A fault
    becomes a new case and a new version, or the candidate is dropped. An expert gets to know the tools
    that helped it. After an abstention everything stays as it is, and so does an asset whose turn met
    passing trouble.

    Raises:
        StoreError: If the memory cannot be written.
    """
    desk = Desk.of(runtime, resources, "evolve_assets", "backward")
    bench = _Evolution(desk, state, react)
    kept: list[dict[str, Any]] = []
    for kind, key in _touched(state):
        asset = await desk.memory.get(kind, key)
        if asset is None or asset.origin != "generated" or state["judgement"] is None:
            continue
        if isinstance(asset, AgentRecord):
            asset = await latest(desk, asset)
        try:
            change = await bench.settle(asset, key, state["judgement"])
        except Mem2EvolveError as exc:
            if not exc.transient or isinstance(exc, StoreError):
                raise
            change = {"to": asset.status, "reason": f"left as it was, for passing trouble: {exc}"}
        kept.append({"id": key, "kind": kind, "name": asset.name, "from": asset.status, **change})
    desk.tell("evolved", kept=kept)
    return {"kept": kept, "ledger": [*desk.ledger, *bench.ledger]}


def _touched(state: State) -> list[tuple[Any, str]]:
    """Return kind and id of each asset made or used, each once: tools in the plan's order, then experts."""
    made = [
        (one["need"]["kind"], one["asset_id"])
        for one in state["decisions"]
        if one["outcome"] == "created"
    ]
    used = [(asset["kind"], asset["id"]) for asset in used_assets(state)]
    order = {one["asset_id"]: n for n, one in enumerate(state["decisions"])}
    every = {key: (kind, key) for kind, key in (*made, *used)}.values()
    return sorted(every, key=lambda one: (one[0] != "tool", order.get(one[1], len(order))))


@dataclass
class _Evolution:
    """One pass over the assets of a run."""

    desk: Desk
    state: State
    react: "CompiledStateGraph[Any, Any, Any, Any]"
    ledger: list[Spent] = field(default_factory=list)
    """What replays cost."""
    mended: dict[str, str] = field(default_factory=dict)
    """Id of the version that mends a tool, by the id of that tool: a replay works with it."""

    async def settle(self, asset: Asset, key: str, judgement: Judgement) -> dict[str, Any]:
        """Decide on one asset, known to the run as `key`; returns its new status and the reason."""
        fault = next((fault for fault in judgement["faults"] if fault["id"] == key), None)
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
            change = await self._faulted_tool(asset, fault, judgement)
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
        if isinstance(asset, ToolRecord) and not asset.second_opinion and verdict != "success":
            await show(self.desk, asset)
            return {
                "to": "candidate",
                "reason": "it never got a second opinion, and the run failed",
            }
        return await self._promote(asset, f"passed its gate; verdict {verdict} by {by}")

    async def _faulted_tool(
        self, tool: ToolRecord, fault: dict[str, Any], judgement: Judgement
    ) -> dict[str, Any] | None:
        """A fault becomes a case and a new version; `None` where it cannot be mended."""
        case = _case_of(fault, judgement)
        if (
            case is not None
            and judgement["by"] != "person"
            and not await passes(
                self.desk.resources.sandbox, tool.code, tool.function, [case.model_dump()]
            )
        ):
            return {
                "to": tool.status,
                "reason": "the fault was tried out and is not there",
                "cleared": True,
            }
        better = await _improve(self.desk, self.state, tool, fault, case)
        if better is None:
            return None
        self.mended[tool.id] = better.id
        reason = f"version {better.version}: {fault['why']}"
        await move(self.desk, self.state["run_id"], tool, "superseded", reason)
        return {
            "to": "superseded",
            "reason": f"version {better.version} mends: {fault['why']}",
            "new_id": better.id,
        }

    async def _faulted_expert(
        self, expert: AgentRecord, key: str, fault: dict[str, Any], judgement: Judgement
    ) -> tuple[dict[str, Any] | None, str]:
        """A fault becomes another strategy if that does better in a replay; `None` and why where it does not."""
        decisions = [
            {**one, "asset_id": self.mended[one["asset_id"]], "record": None}
            if one["asset_id"] in self.mended
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
        except ModelError as exc:
            if exc.transient:
                raise
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
        "supersedes": tool.id,
        "run_id": state["run_id"],
        "status": "candidate",
        "history": (
            StatusChange(
                status="candidate", reason=f"mends: {fault['why']}", run_id=state["run_id"]
            ),
        ),
    }
    better = await numbered(desk, tool.model_copy(update=changed))
    await desk.memory.put(better)
    await show(desk, better)
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
