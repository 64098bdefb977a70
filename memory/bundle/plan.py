"""What of a bundle is new here, what is here already, and what another record stands in the way of.

Two passes go over a bundle: this one decides and keeps ids only, so that its memory does not grow with the
texts; the next one writes.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from ...errors import InputError
from ..care.references import rename_in
from ..memory import Memory
from ..projection import NAME
from ..records import (
    RECRUITABLE,
    AgentRecord,
    Status,
    ToolRecord,
)
from ..rows import AnyRecord, Asset, RecordKind
from .form import KINDS
from .place import content_of, moved_into
from .read import Bundle, Line

PAGE: Final = 64
"""Records that are read, compared or written at once."""
SHOWN: Final = 10
"""Conflicts and refusals that are told one by one."""
T = TypeVar("T")


@dataclass
class Tally:
    """Numbers of records of a kind."""

    new: int = 0
    same: int = 0
    conflicting: int = 0
    renumbered: int = 0
    """Of the conflicting ones, those that come in under another version number."""
    refused: int = 0

    @property
    def coming(self) -> int:
        """How many will be written."""
        return self.new + self.renumbered


class Here(NamedTuple):
    """A version of an asset in this memory."""

    version: int
    id: str
    status: Status
    content: str


@dataclass(kw_only=True)
class Plan:
    """What an import will do."""

    into: str
    """Namespace that all of it goes to; empty: each record to its own."""
    tallies: dict[RecordKind, Tally] = field(
        default_factory=lambda: {kind: Tally() for kind in KINDS}
    )
    conflicts: list[str] = field(default_factory=list)
    """The first of them."""
    refusals: list[str] = field(default_factory=list)
    """The first of them."""
    ids: dict[str, str] = field(default_factory=dict)
    """Id in the bundle → id here, where they differ."""
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Id here → version in the bundle and here, of assets whose number was taken."""
    known: set[str] = field(default_factory=set)
    """Ids in the bundle of what is here already: nothing is written for them."""
    in_use: dict[str, Status] = field(default_factory=dict)
    """Id here → status, of the assets that the bundle has in use."""

    def place(self, record: AnyRecord) -> AnyRecord:
        """Return a record as it will be here: namespace, version and links."""
        moved = moved_into(record, self.into)
        taken = self.versions.get(self.ids.get(record.id, ""))
        if taken and isinstance(moved, ToolRecord | AgentRecord):
            moved = moved.model_copy(update={"version": taken[1]})
        return rename_in(moved, self.ids, {})


async def plan_import(memory: Memory, bundle: Bundle, into: str = "") -> Plan:
    """Compare a bundle with the memory; nothing is written.

    Raises:
        InputError: If `into` is no name of a namespace, or the bundle changed meanwhile.
        StoreError: If the memory cannot be read.
    """
    if into and not NAME.fullmatch(into):
        raise InputError(
            f"{into[:100]!r} is no name of a namespace.",
            hint="Use 1 to 64 letters, digits, `_` and `-`.",
        )
    plan = Plan(into=into)
    for kind in KINDS:
        if kind in ("tool", "agent"):
            await _plan_assets(memory, bundle, plan, kind)
        else:
            await _plan_texts(memory, bundle, plan, kind)
    return plan


async def in_pages(lines: Iterator[T]) -> AsyncIterator[list[T]]:
    """Yield what a blocking iterator yields, page by page, without blocking the event loop."""
    while page := await asyncio.to_thread(lambda: list(islice(lines, PAGE))):
        yield page


async def _plan_assets(memory: Memory, bundle: Bundle, plan: Plan, kind: RecordKind) -> None:
    names = _Names(memory, kind)
    taken = await _numbers(bundle, plan.into, kind)
    async for page in in_pages(bundle.lines(kind)):
        for line in page:
            if isinstance(line.record, ToolRecord | AgentRecord) and not _refused(plan, kind, line):
                await _plan_asset(names, taken, plan, kind, line.record)


class _Names:
    """The versions of each name: those in the memory, and those that are to come."""

    def __init__(self, memory: Memory, kind: RecordKind) -> None:
        self._memory, self._kind = memory, kind
        self._found: dict[tuple[str, str], list[Here]] = {}

    async def of(self, record: Asset) -> list[Here]:
        key = (record.namespace, record.name)
        if key not in self._found:
            where = {"namespace": record.namespace, "name": record.name}
            self._found[key] = [
                Here(one.version, one.id, one.status, content_of(one))
                async for page in self._memory.pages(self._kind, where)
                for one in page
                if isinstance(one, ToolRecord | AgentRecord)
            ]
        return self._found[key]


async def _numbers(bundle: Bundle, into: str, kind: RecordKind) -> dict[tuple[str, str], int]:
    """Return the highest version of each name in the bundle: numbers up to it are not free."""
    found: dict[tuple[str, str], int] = {}
    async for page in in_pages(bundle.lines(kind)):
        for line in page:
            record = moved_into(line.record, into)
            if isinstance(record, ToolRecord | AgentRecord) and not line.refused:
                key = (record.namespace, record.name)
                found[key] = max(found.get(key, 0), record.version)
    return found


async def _plan_asset(
    names: _Names, taken: dict[tuple[str, str], int], plan: Plan, kind: RecordKind, said: Asset
) -> None:
    record = moved_into(said, plan.into)
    assert isinstance(record, ToolRecord | AgentRecord)  # noqa: S101 - for the type checker
    versions = await names.of(record)
    tally = plan.tallies[kind]
    same = next((one for one in versions if one.id == record.id), None)
    held = any(one.version == record.version for one in versions)
    if same is None and held:
        same = _under_another_number(record, versions)
    if same is not None:
        plan.known.add(said.id)
        _compare(plan, kind, record, same)
    elif held:
        key = (record.namespace, record.name)
        taken[key] = max(taken[key], *(one.version for one in versions)) + 1
        tally.conflicting += 1
        tally.renumbered += 1
        _note(
            plan.conflicts,
            f"{record.name} v{record.version} is another here: it becomes v{taken[key]}",
        )
        number, record = record.version, record.model_copy(update={"version": taken[key]})
        plan.versions[record.id] = (number, record.version)
    else:
        tally.new += 1
    here = same.id if same else record.id
    if same is None:
        versions.append(Here(record.version, here, record.status, content_of(record)))
    if here != said.id:
        plan.ids[said.id] = here
    if record.status in RECRUITABLE:
        plan.in_use[here] = record.status


def _under_another_number(record: Asset, versions: Sequence[Here]) -> Here | None:
    """Return the version that is the same but for its number, as an earlier import left it."""
    for one in versions:
        if record.model_copy(update={"version": one.version}).id == one.id:
            return one
    return None


def _compare(plan: Plan, kind: RecordKind, record: AnyRecord, here: Here) -> None:
    tally = plan.tallies[kind]
    label = f"{record.name} v{here.version}" if isinstance(record, Asset) else f"{kind} {here.id}"
    tried = isinstance(record, AgentRecord) and here.status == "candidate"  # as an import leaves it
    if record.status != here.status and not (tried and record.status in RECRUITABLE):
        tally.conflicting += 1
        _note(plan.conflicts, f"{label} is {here.status} here, {record.status} there: it stays so")
    elif content_of(record) != here.content:
        tally.conflicting += 1
        _note(plan.conflicts, f"{label} is described in other words here: it stays so")
    else:
        tally.same += 1


async def _plan_texts(memory: Memory, bundle: Bundle, plan: Plan, kind: RecordKind) -> None:
    coming: set[str] = set()
    async for page in in_pages(bundle.lines(kind)):
        taken = [line for line in page if not _refused(plan, kind, line)]
        moved = [(line.record.id, plan.place(line.record)) for line in taken]
        found = await memory.get_many(kind, [record.id for _, record in moved])
        for said, record in moved:
            here = found.get(record.id)
            if here is not None:
                plan.known.add(said)
                _compare(plan, kind, record, Here(0, here.id, here.status, content_of(here)))  # type: ignore[arg-type]
            elif record.id in coming:
                plan.known.add(said)
                plan.tallies[kind].same += 1
            else:
                coming.add(record.id)
                plan.tallies[kind].new += 1
            if said != record.id:
                plan.ids[said] = record.id


def _refused(plan: Plan, kind: RecordKind, line: Line) -> bool:
    if line.refused:
        plan.tallies[kind].refused += 1
        _note(plan.refusals, f"{line.where}: {line.refused}")
    return bool(line.refused)


def _note(notes: list[str], text: str) -> None:
    if len(notes) < SHOWN:
        notes.append(text)
