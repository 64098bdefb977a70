"""No twins: a new tool that does what a known one does is a version of it, or not kept at all."""

import json
from typing import Final, Literal, NamedTuple, get_args

from ...memory.recall import Need
from ...memory.records import Case, CaseOrigin, StatusChange, ToolRecord
from ..desk import Desk
from ..life.keeping import numbered
from ..permitted import box_of, reaches_out
from .cases import passes

REUSED: Final = "recruited: it does the same"
"""Outcome of a making whose tool was there already."""
_TRUST: Final[tuple[str, ...]] = get_args(CaseOrigin)


class Settled(NamedTuple):
    """What becomes of a tool that passed its cases."""

    record: ToolRecord
    """What the run goes on with; not stored yet unless it is reused."""
    outcome: Literal["new", "version", "reused"]


async def settle_twins(desk: Desk, made: ToolRecord, wanted: str) -> Settled:
    """Compare a new tool with the recruitable ones whose cards say the same.

    It is a near-twin of those whose cases it passes, in fresh boxes. One that passes its cases too is
    reused, unless something is gained. Otherwise it becomes the next version of the best ranked one,
    which stays as it is until a verdict promotes the new one.

    Args:
        desk: Of the node that stores it.
        made: The tool, its cases passed.
        wanted: The name that the need gave it: its own may have got a number only because the twin has that name.

    Raises:
        SandboxUnavailable: If the cases cannot be run.
    """
    if reaches_out(made):
        return Settled(made, "new")
    box = box_of(desk.resources, made)
    older: ToolRecord | None = None
    for twin in await _close(desk, made, wanted):
        if await passes(box, made.code, made.function, _dumped(twin.cases)):
            continue
        theirs = box_of(desk.resources, twin)
        fails = await passes(theirs, twin.code, twin.function, _dumped(made.cases))
        if not fails and not _gains(made, twin):
            return Settled(twin, "reused")
        older = older or twin
    if older is None:
        return Settled(made, "new")
    return Settled(await _version_of(desk, older, made), "version")


async def _close(desk: Desk, made: ToolRecord, wanted: str) -> list[ToolRecord]:
    """Return the generated tools that may be twins, best ranked first.

    A tool that fetches or reads files is none: its cases may hang on what it reaches.
    """
    needs = [
        Need(kind="tool", name=name, description=made.description) for name in (wanted, made.name)
    ]
    found = await desk.memory.recall_assets(needs, namespace=made.namespace)
    ids = dict.fromkeys(
        one.id for row in found for one in row if one.score >= desk.memory.calibration.twin
    )
    close = [await desk.memory.get("tool", key) for key in ids]
    return [
        one
        for one in close
        if one is not None and one.origin == "generated" and one.cases and not reaches_out(one)
    ]


def _gains(made: ToolRecord, twin: ToolRecord) -> bool:
    """Whether the new one has the second opinion that the other lacks, or needs fewer packages."""
    return (made.second_opinion and not twin.second_opinion) or set(made.dependencies) < set(
        twin.dependencies
    )


async def _version_of(desk: Desk, older: ToolRecord, made: ToolRecord) -> ToolRecord:
    reason = f"passed its cases and those of version {older.version}"
    changed = {
        "name": older.name,
        "description": older.description,
        "cases": union(older.cases, made.cases),
        "supersedes": older.id,
        "history": (
            StatusChange(status="candidate", reason=reason, run_id=made.run_id),
            *made.history[1:],
        ),
    }
    return await numbered(desk, made.model_copy(update=changed))


def union(older: tuple[Case, ...], newer: tuple[Case, ...]) -> tuple[Case, ...]:
    """Return the cases of both, one for each input: the one whose value is trusted more, else the older."""
    found: dict[str, Case] = {}
    for case in (*older, *newer):
        key = json.dumps([case.args, case.property], sort_keys=True)
        known = found.get(key)
        if known is None or _TRUST.index(case.origin) < _TRUST.index(known.origin):
            found[key] = case
    return tuple(found.values())


def _dumped(cases: tuple[Case, ...]) -> list[dict[str, object]]:
    return [case.model_dump() for case in cases]
