"""How a kept asset changes: its status with a reason, the number of a version, and the files that show it."""

import asyncio
from typing import Any, TypeVar

from ...memory.projection import remove_projection, write_projection
from ...memory.records import RECRUITABLE, AgentRecord, Kind, Status, ToolRecord
from ..desk import Desk

Asset = ToolRecord | AgentRecord
A = TypeVar("A", ToolRecord, AgentRecord)


def kind_of(asset: Asset) -> Kind:
    """Return which bank an asset belongs to."""
    return "tool" if isinstance(asset, ToolRecord) else "agent"


async def move(
    desk: Desk, run_id: str, asset: Asset, status: Status, reason: str
) -> dict[str, Any]:
    """Change the status, with its reason, and the files that show it."""
    moved = await desk.memory.set_status(kind_of(asset), asset.id, status, reason, run_id=run_id)
    if not isinstance(moved, ToolRecord | AgentRecord):
        raise TypeError(f"{asset.name!r} was neither a tool nor an expert")
    await show(desk, moved)
    return {"to": status, "reason": reason}


async def promote(desk: Desk, run_id: str, asset: Asset, reason: str) -> dict[str, Any]:
    """Make a version the active one; where a newer one is active, it is superseded by that.

    Older versions go first: when this is interrupted, the new one is still a candidate, and the same
    verdict ends it.
    """
    others = await desk.memory.find_by_name(kind_of(asset), asset.name, namespace=asset.namespace)
    newer = [one for one in others if one.version > asset.version and one.status == "active"]
    if newer:
        return await move(
            desk, run_id, asset, "superseded", f"version {newer[0].version} is active; {reason}"
        )
    await supersede_older(desk, run_id, asset)
    return await move(desk, run_id, asset, "active", reason)


async def supersede_older(desk: Desk, run_id: str, asset: Asset) -> None:
    """Supersede the versions before this one that could still be recruited."""
    others = await desk.memory.find_by_name(kind_of(asset), asset.name, namespace=asset.namespace)
    for one in others:
        if one.version < asset.version and one.status in RECRUITABLE:
            reason = f"version {asset.version} took its place"
            await move(desk, run_id, one, "superseded", reason)


async def latest(desk: Desk, expert: AgentRecord) -> AgentRecord:
    """Return the version in which an expert lives on: the same one, when only its tools have grown since."""
    if expert.status != "superseded":
        return expert
    versions = await desk.memory.find_by_name("agent", expert.name, namespace=expert.namespace)
    same = [
        one
        for one in versions
        if one.version > expert.version
        and one.status in RECRUITABLE
        and (one.expertise, one.strategy) == (expert.expertise, expert.strategy)
    ]
    return same[0] if same else expert


async def numbered(desk: Desk, record: A) -> A:
    """Return the record with the next free version number; the same content keeps the number that it has."""
    versions = await desk.memory.find_by_name(
        kind_of(record), record.name, namespace=record.namespace
    )
    for one in versions:
        again = record.model_copy(update={"version": one.version})
        if again.id == one.id:
            return again
    last = max((one.version for one in versions), default=0)
    return record.model_copy(update={"version": last + 1})


async def show(desk: Desk, asset: Asset) -> None:
    """Bring the files in `tools_generated/` in line with a tool's record."""
    if not isinstance(asset, ToolRecord) or not desk.resources.write_files:
        return
    change = remove_projection if asset.status == "retired" else write_projection
    await asyncio.to_thread(change, desk.resources.settings.tools_dir, asset)
