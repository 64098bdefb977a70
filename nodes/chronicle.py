"""Keeps the record of a run: the evidence that everything learned points back to."""

import time
from collections import defaultdict
from typing import Any

from ..graph.state import Spent, State
from ..memory.records import RunRecord
from .desk import Desk


async def record_run(desk: Desk, state: State) -> RunRecord:
    """Write the run as it stands; the same run again replaces it.

    A later verdict changes what was judged and learned; what the run did and cost stays as it was.
    """
    earlier = await desk.memory.get("run", state["run_id"]) if state.get("reopened") else None
    record = earlier or _first_record(desk, state)
    judgement, verdict = state.get("judgement"), state.get("verdict") or "none"
    used = used_ids(state)
    cleared = {one["id"] for one in state["kept"] if one.get("cleared")}
    faulted = {fault["id"] for fault in judgement["faults"]} - cleared if judgement else set()
    judged = verdict in ("success", "failure")
    changed = {
        "verdict": verdict,
        "verdict_by": judgement["by"] if judgement else "",
        "critique": dict(judgement) if judgement else {},
        "assets": tuple(used),
        "won": tuple(key for key in used if key not in faulted) if judged else (),
        "helped": record.lessons if verdict == "success" else (),
        "learned": tuple(item["id"] for item in state["learned"]),
        "transient": judgement["reason"] if judgement and judgement["transient"] else "",
    }
    record = record.model_copy(update=changed)
    await desk.memory.put(record)
    return record


def _first_record(desk: Desk, state: State) -> RunRecord:
    shown = {lesson["id"] for lesson in state["lessons"]}
    shown |= {key for result in state["results"] for key in result["lessons"]}
    shown |= {key for creation in state["creations"] for key in creation["lessons"]}
    return RunRecord(
        id=state["run_id"],
        task=state["task"],
        mode=desk.context.mode,
        model=desk.context.model or desk.resources.settings.model,
        namespace=state["namespace"],
        status="partial" if any(result["partial"] for result in state["results"]) else "done",
        plan=[dict(subtask) for subtask in state["plan"]],
        decisions=[{**decision, "record": None} for decision in state["decisions"]],
        results=[dict(result) for result in state["results"]],
        creations=state["creations"],
        answer=state["answer"],
        lessons=tuple(sorted(shown)),
        tokens=totals(state["ledger"]),
        seconds=seconds_of(state["ledger"], state["started"], time.time()),
    )


def used_assets(state: State) -> list[dict[str, Any]]:
    """Return id, kind and name of each asset that was really used: tools called, experts at work."""
    called = {call["tool"] for result in state["results"] for call in result["calls"]}
    experts = {result["expert_id"] for result in state["results"]}
    found = {
        one["asset_id"]: {
            "id": one["asset_id"],
            "kind": one["need"]["kind"],
            "name": one["asset_name"],
        }
        for one in state["decisions"]
        if one["asset_id"] and (one["asset_id"] in experts or one["asset_name"] in called)
    }
    for result in state["results"]:
        names = {call["tool"] for call in result["calls"]}
        for tool in result.get("known", []):
            if tool["name"] in names:
                found.setdefault(tool["id"], {**tool, "kind": "tool"})
    return list(found.values())


def touched_assets(state: State) -> list[tuple[Any, str]]:
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


def used_ids(state: State) -> list[str]:
    """Return the ids of the assets that were really used."""
    return sorted(asset["id"] for asset in used_assets(state))


def totals(ledger: list[Spent]) -> dict[str, dict[str, int]]:
    """Sum up the ledger: calls, prompt and completion tokens per stage, and for both directions."""
    sums: dict[str, dict[str, int]] = defaultdict(
        lambda: {"calls": 0, "prompt": 0, "completion": 0}
    )
    for line in ledger:
        for key in (line["stage"], line["direction"]):
            sums[key]["calls"] += line["calls"]
            sums[key]["prompt"] += line["prompt"]
            sums[key]["completion"] += line["completion"]
    return dict(sums)


def seconds_of(ledger: list[Spent], started: float, ended: float) -> dict[str, float]:
    """Return the wall time, and the model time of both directions (calls side by side add up)."""
    spent = {"total": round(ended - started, 2)}
    for direction in ("forward", "backward"):
        took = sum(line["seconds"] for line in ledger if line["direction"] == direction)
        spent[f"{direction}_model"] = round(took, 2)
    return spent
