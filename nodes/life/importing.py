"""What comes in with a bundle: nothing that it says of itself is believed, least of all that a tool works.

Each record is written once, with the status that it has earned here, so none is in use before it was
checked; and an import that was killed is finished by the same import, given again.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...errors import StoreError
from ...graph.context import Context
from ...memory.backends.engine import MIN_FREE_BYTES
from ...memory.bundle.plan import Plan, in_pages
from ...memory.bundle.policy import readable
from ...memory.bundle.read import Bundle, Line, Tell
from ...memory.projection import SHOWN, write_projection
from ...memory.records import (
    RECRUITABLE,
    AgentRecord,
    Kind,
    RunRecord,
    Status,
    StatusChange,
    ToolRecord,
)
from ...memory.rows import AnyRecord, Asset, Kept, RecordKind
from ...sandbox.header import asked
from ...settings import Settings
from ..creation.check import screened
from ..creation.verify import MAX_REASON_CHARS, environment, failing, passed_reason
from ..desk import Desk, Resources
from ..permitted import box_of

ELSEWHERE: Final = "elsewhere: "
"""Begins what a history says that was written in another memory. Reasons are looked for by their first
words, such as a person's approval: those of a stranger must not be found."""
_FAULTS: Final = 3
"""Faults that a reason names."""
_ROOM: Final = 3
"""Bytes on the disk for each byte of a bundle, unpacked: records, indexes, vectors and the log."""
_WORDS: Final[dict[RecordKind, str]] = {
    "tool": "tools",
    "agent": "experts",
    "experience": "lessons",
    "run": "runs",
}


@dataclass(kw_only=True)
class Imported:
    """What an import wrote."""

    written: dict[RecordKind, int] = field(default_factory=dict)
    quarantined: list[str] = field(default_factory=list)
    """Assets that are not in use, each with the reason."""


def wanting(record: AnyRecord) -> list[str]:
    """Return what a tool may do, or asks for, besides computing."""
    if not isinstance(record, ToolRecord):
        return []
    return sorted({*record.permissions, *asked(record.code)})


async def wanting_more(bundle: Bundle, plan: Plan) -> list[str]:
    """Return the tools that come in and may do more than compute, each with what it wants."""
    found = []
    async for page in in_pages(bundle.lines("tool")):
        for line in page:
            tool = line.record
            if isinstance(tool, ToolRecord) and _comes(plan, line) and (wants := wanting(tool)):
                found.append(f"{tool.name} v{tool.version} wants {', '.join(wants)}")
    return found


async def bring_in(
    resources: Resources, bundle: Bundle, plan: Plan, tell: Tell = lambda *_: None
) -> Imported:
    """Write what is new of a bundle; tools first, so that a missing sandbox stops it before it began.

    Args:
        resources: The memory, and the sandbox in which tools are run on their cases.
        bundle: The bundle.
        plan: What was found out about it.
        tell: See `Tell`.

    Raises:
        SandboxUnavailable: If the cases cannot be run now.
        InputError: If the bundle changed meanwhile.
        StoreError: If the memory cannot be written. What was written before stays; the same import goes on from there.
    """
    await asyncio.to_thread(_check_room, resources.settings, bundle)
    importer = _Importer(Desk(resources, Context(), "import"), bundle, plan)
    for kind, tally in plan.tallies.items():
        count = 0
        async for page in in_pages(bundle.lines(kind)):
            coming = [line.record for line in page if _comes(plan, line)]
            async for made in importer.settled(coming):
                await importer.keep(made)
                count += len(made)
                tell(f"{_WORDS[kind]} imported", count, tally.coming)
        importer.done.written[kind] = count
    return importer.done


def _comes(plan: Plan, line: Line) -> bool:
    return not line.refused and line.record.id not in plan.known


def _check_room(settings: Settings, bundle: Bundle) -> None:
    if settings.qdrant_url:
        return
    folder = settings.home
    while not folder.exists():
        folder = folder.parent
    needed, free = _ROOM * bundle.unpacked + MIN_FREE_BYTES, shutil.disk_usage(folder).free
    if free < needed:
        raise StoreError(
            f"The import needs some {needed >> 20} MB, the disk that holds {settings.home} has {free >> 20};"
            " it is full.",
            hint="Nothing was changed. Free some space, or set MEM2EVOLVE_HOME to another folder.",
        )


class _Importer:
    """Gives each record the status that it has earned here, and writes it."""

    def __init__(self, desk: Desk, bundle: Bundle, plan: Plan) -> None:
        self._desk, self._plan = desk, plan
        self._source = f"imported from a bundle ({bundle.sha256[:12]})"
        self.done = Imported()

    async def settled(self, coming: Sequence[AnyRecord]) -> AsyncIterator[list[AnyRecord]]:
        """Yield records as they will be kept: texts together, tools one by one, since each takes its time."""
        texts: list[AnyRecord] = []
        for said in coming:
            record = self._plan.place(said)
            if isinstance(record, ToolRecord | AgentRecord):
                yield [await self._asset(record)]
            elif isinstance(record, RunRecord):
                texts.append(record.model_copy(update={"origin": "imported"}))
            else:
                texts.append(self._moved(record, record.status, ""))
        if texts:
            yield texts

    async def keep(self, made: Sequence[AnyRecord]) -> None:
        """Write records, and the files that show tools."""
        resources = self._desk.resources
        await resources.memory.put(*made)
        for one in made:
            if isinstance(one, ToolRecord) and one.status in SHOWN and resources.write_files:
                await asyncio.to_thread(write_projection, resources.settings.tools_dir, one)

    async def _asset(self, record: Asset) -> Kept:
        if isinstance(record, ToolRecord):
            status, why, under = await self._tested(record)
            record = record.model_copy(update={"environment": under})
        else:  # nothing here can test an expert: a verdict will
            in_use = record.status in RECRUITABLE
            status, why = ("candidate", "") if in_use else (record.status, "")
        if status in RECRUITABLE and (rival := await self._rival(record)):
            status, why = "quarantined", f"v{rival.version} is in use here; {_told(record)}"
        if status == "quarantined" and why:
            self.done.quarantined.append(f"{record.name} v{record.version}: {why}")
        return self._moved(record, status, why)

    async def _tested(self, tool: ToolRecord) -> tuple[Status, str, dict[str, str]]:
        """Return the status of a tool, why, and under what its cases passed here, if they did.

        Without that, they are run before it is used, should a person bring it back.
        """
        if tool.status == "retired":
            return "retired", "", {}
        if wants := wanting(tool):
            return "quarantined", f"it wants {', '.join(wants)}: {_told(tool)}", {}
        if tool.status != "quarantined" and not tool.cases:
            return "quarantined", f"it has no cases that could be run; {_told(tool)}", {}
        if tool.status not in RECRUITABLE:
            return tool.status, "", {}
        resources = self._desk.resources
        problems = await screened(resources, tool.code, tool.function)
        faults = [f"line {one.line}: {one.reason}" for one in problems]
        faults = faults or await failing(self._desk, tool)
        if faults:
            more = "" if len(faults) <= _FAULTS else f" and {len(faults) - _FAULTS} more"
            why = f"it fails here: {'; '.join(faults[:_FAULTS])}"
            return "quarantined", why[:MAX_REASON_CHARS] + more, {}
        today = await environment(box_of(resources, tool), tool.code)
        return tool.status, passed_reason(today), today

    async def _rival(self, record: Asset) -> Asset | None:
        """Return the version in use here whose place it would take. What is here is not displaced by a bundle."""
        kind: Kind = "tool" if isinstance(record, ToolRecord) else "agent"
        for one in await self._desk.memory.find_by_name(kind, record.name, record.namespace):
            there = self._plan.in_use.get(one.id)
            both = record.status == "active" and "active" in (there, one.status)
            if one.status in RECRUITABLE and one.id != record.id and (both or there is None):
                return one
        return None

    def _moved(self, record: Kept, status: Status, why: str) -> Kept:
        """Return a record with its status, its history told as that of another place, and how it came here."""
        source = self._source
        if numbers := self._plan.versions.get(record.id):
            source += f"; it was v{numbers[0]}, which is another here"
        lines = [_elsewhere(change) for change in record.history]
        first: Status = "candidate" if why else status
        lines.append(StatusChange(status=first, reason=source))
        if why:
            lines.append(StatusChange(status=status, reason=why))
        return record.model_copy(update={"status": status, "history": tuple(lines)})


def _told(record: Asset) -> str:
    if isinstance(record, AgentRecord):
        return "this one is not used"
    return f"read it, then `mem2evolve tools activate {record.name}@v{record.version} --because …`"


def _elsewhere(change: StatusChange) -> StatusChange:
    seen = readable(change)
    if seen.reason.startswith(ELSEWHERE):
        return seen
    return seen.model_copy(update={"reason": ELSEWHERE + seen.reason})
