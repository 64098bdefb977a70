"""The versions of a tool, and what a person's word does to them.

Nothing is rewritten: a status changes and the reason is logged, or a new version takes the place of one.
Each change is written so that the same command, given again after it was killed, ends where it would have.
"""

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ...errors import InputError, NotFoundError
from ...memory.memory import Memory
from ...memory.projection import (
    SHOWN,
    Synced,
    remove_projection,
    sync,
    write_projection,
)
from ...memory.records import RECRUITABLE, Status, ToolRecord, named_version
from ..desk import Resources

Told = Literal["active", "quarantined", "retired"]
"""What a person may make of a version."""
DEFAULT: Final = "default"
_SHORT: Final = 8
"""Characters of an id that messages show."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """One version in the chain of a tool."""

    record: ToolRecord
    before: ToolRecord | None
    """The version that it superseded, or was made after."""

    @property
    def diff(self) -> str:
        """How its code differs from that of the version before, as a unified diff; empty for the first."""
        if self.before is None:
            return ""
        old, new = self.before, self.record
        lines = difflib.unified_diff(
            old.code.splitlines(),
            new.code.splitlines(),
            f"v{old.version}/tool.py",
            f"v{new.version}/tool.py",
            lineterm="",
        )
        return "\n".join(lines)


def chain(versions: Sequence[ToolRecord]) -> list[Link]:
    """Return the versions of a tool as a chain, newest first as they were given."""
    by_id = {one.id: one for one in versions}
    older = [*versions[1:], None]
    return [
        Link(record=one, before=by_id.get(one.supersedes, before))
        for one, before in zip(versions, older, strict=True)
    ]


async def find_versions(
    memory: Memory, wanted: str, namespace: str | None = None
) -> list[ToolRecord]:
    """Return all versions of a tool, newest first, or the one that was asked for.

    Args:
        memory: Where to look.
        wanted: `NAME`, `NAME@v2`, or the start of an id.
        namespace: Where that name is; `default` if not given.

    Raises:
        NotFoundError: If there is none, or an id or a version fits several.
    """
    name, version = named_version(wanted)
    named = await memory.find_by_name("tool", name, namespace or DEFAULT)
    if named and version is None:
        return named
    if named:
        found = [one for one in named if one.version == version]
        have = ", ".join(f"v{one.version}" for one in reversed(named))
        missing = NotFoundError(
            f"{name!r} has no version {version}.", hint=f"It has {have}: as in {name}@v1."
        )
        return _one(found, wanted, missing)
    every = await memory.list("tool", limit=None)
    found = [
        one for one in every if wanted and one.id.startswith(wanted)
        and namespace in (None, one.namespace)
    ]  # fmt: skip
    return _one(found, wanted, _not_found(every, name, namespace))


def _one(found: list[ToolRecord], wanted: str, missing: NotFoundError) -> list[ToolRecord]:
    if not found:
        raise missing
    if len(found) > 1:
        fits = ", ".join(f"{one.name} v{one.version} ({one.id[:_SHORT]})" for one in found[:5])
        raise NotFoundError(
            f"{wanted!r} fits {len(found)} tools: {fits}.", hint="Give more of the id."
        )
    return found


def _not_found(every: Sequence[ToolRecord], name: str, namespace: str | None) -> NotFoundError:
    elsewhere = sorted({one.namespace for one in every if one.name == name})
    if elsewhere:
        return NotFoundError(
            f"There is no tool {name!r} in the namespace {namespace or DEFAULT!r}; "
            f"there is one in {', '.join(map(repr, elsewhere[:5]))}.",
            hint=f"Add `--namespace {elsewhere[0]}`.",
        )
    close = difflib.get_close_matches(name, sorted({one.name for one in every}), n=1)
    asked = f"Did you mean {close[0]!r}? " if close else ""
    return NotFoundError(
        f"There is no tool {name!r}.", hint=f"{asked}See `mem2evolve tools list --all`."
    )


def current(versions: Sequence[ToolRecord]) -> ToolRecord:
    """Return the version in use; where none is, the newest."""
    return next((one for one in versions if one.status in RECRUITABLE), versions[0])


async def tell(
    resources: Resources, versions: Sequence[ToolRecord], status: Told, because: str
) -> ToolRecord:
    """Do what a person says of one version: the one asked for, or the current one.

    Raises:
        InputError: If there is nothing to change, or another version is in use.
    """
    chosen = current(versions)
    named = f"{chosen.name} v{chosen.version}"
    _generated(chosen)
    if chosen.status == status:
        last = f": {chosen.history[-1].reason}" if chosen.history else ""
        raise InputError(
            f"{named} is {status} already{last}.",
            hint=f"See `mem2evolve tools show {chosen.name} --history`; NAME@v1 means another version.",
        )
    if status == "active":
        await _make_room(resources, chosen, because)
    return await move(resources, chosen, status, f"a person: {_said(because)}")


async def _make_room(resources: Resources, chosen: ToolRecord, because: str) -> None:
    """Supersede the older version that is in use: of one name there is one."""
    for other in await _in_use(resources.memory, chosen):
        if other.version > chosen.version:
            raise InputError(
                f"{other.name} v{other.version}, a later version, is {other.status}.",
                hint=f"Go back with `mem2evolve tools rollback {chosen.name} --to v{chosen.version} --because …`.",
            )
        reason = f"a person activated v{chosen.version}: {_said(because)}"
        await move(resources, other, "superseded", reason)


async def roll_back(
    resources: Resources,
    versions: Sequence[ToolRecord],
    because: str,
    *,
    to: int | None = None,
    force: bool = False,
) -> tuple[ToolRecord, ToolRecord]:
    """Quarantine the current version, and make an earlier one active again.

    The current one is quarantined first: killed in between, no version is in use, and the same command goes on.

    Args:
        resources: Where the tools are.
        versions: All of one name, newest first.
        because: A person's reason.
        to: The earlier version; without it the one that was superseded.
        force: Also to one that was quarantined or retired.

    Returns:
        What was set aside, and what took its place.

    Raises:
        InputError: If there is nothing to go back to, or it was set aside itself.
    """
    _generated(versions[0])
    now = next((one for one in versions if one.status in RECRUITABLE), None) or next(
        (one for one in versions if one.status == "quarantined"), versions[0]
    )
    earlier = _earlier(versions, now, to)
    if earlier.status in ("quarantined", "retired") and not force:
        last = f": {earlier.history[-1].reason}" if earlier.history else ""
        raise InputError(
            f"{earlier.name} v{earlier.version} was {earlier.status}{last}.",
            hint="Choose another with `--to vN`, or add `--force`.",
        )
    said = _said(because)
    for one in await _in_use(resources.memory, now, but=earlier):
        status: Status = "quarantined" if one.version > earlier.version else "superseded"
        await move(resources, one, status, f"a person rolled back to v{earlier.version}: {said}")
    back = f"a person rolled back from v{now.version}: {said}"
    return now, await move(resources, earlier, "active", back)


def _earlier(versions: Sequence[ToolRecord], now: ToolRecord, to: int | None) -> ToolRecord:
    before = [one for one in versions if one.version < now.version]
    named = f"{now.name} v{now.version}"
    have = ", ".join(f"v{one.version}" for one in before)
    if not before:
        raise InputError(
            f"There is nothing to roll back to: no version is earlier than {named}.",
            hint=f"Set it aside with `mem2evolve tools quarantine {now.name} --because …`.",
        )
    if to is None:
        return next((one for one in before if one.id == now.supersedes), before[0])
    if found := next((one for one in before if one.version == to), None):
        return found
    raise InputError(f"v{to} is no version earlier than {named}.", hint=f"Earlier ones: {have}.")


async def supersede_others(resources: Resources, newest: ToolRecord, reason: str) -> None:
    """Let a new version take the place of those in use."""
    for one in await _in_use(resources.memory, newest, but=newest):
        await move(resources, one, "superseded", reason)


async def _in_use(
    memory: Memory, record: ToolRecord, *, but: ToolRecord | None = None
) -> list[ToolRecord]:
    """Return the versions of its name that are in use, without one of them."""
    without = (but or record).id
    every = await memory.find_by_name("tool", record.name, record.namespace)
    return [one for one in every if one.status in RECRUITABLE and one.id != without]


async def move(resources: Resources, record: ToolRecord, status: Status, reason: str) -> ToolRecord:
    """Change the status of a version, and bring its files in line."""
    moved = await resources.memory.set_status("tool", record.id, status, reason)
    if resources.write_files:
        change = remove_projection if status == "retired" else write_projection
        await asyncio.to_thread(change, resources.settings.tools_dir, moved)
    return moved


async def sync_files(resources: Resources) -> Synced:
    """Write the files of tools that are missing; say which were edited by hand.

    Raises:
        StoreError: If the memory cannot be read.
        OSError: If a file cannot be written.
    """
    where = {"origin": "generated", "status": SHOWN}
    kept = await resources.memory.list("tool", where=where, limit=None)
    return await asyncio.to_thread(sync, resources.settings.tools_dir, kept)


def _generated(record: ToolRecord) -> None:
    if record.origin != "generated":
        raise InputError(
            f"{record.name} is a {record.origin} tool: it has no versions.",
            hint="Only tools that were made here have; see `mem2evolve tools list`.",
        )


def _said(because: str) -> str:
    """Return a person's reason on one line.

    Raises:
        InputError: If it says nothing.
    """
    if text := " ".join(because.split()):
        return text
    raise InputError("The reason is empty.", hint="Say why with `--because TEXT`.")
