"""A deletion as a plan, and carrying it out.

Order of the writes: files, records under new ids, mentions, then the records that go, what was asked for last. So a
deletion that was broken off is finished by asking for it again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ..memory import Memory
from ..projection import remove_projection
from ..records import RunRecord, ToolRecord
from ..rows import COLLECTION, AnyRecord, RecordKind
from .hygiene import kind_of

ASKED: Final = "asked for"
"""Why something goes that a person named."""


class Gone(NamedTuple):
    """A record that is deleted."""

    kind: RecordKind
    id: str
    name: str
    why: str


class Changed(NamedTuple):
    """A record that is written anew, under another id if `record` has one."""

    id: str
    record: AnyRecord
    why: str


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """A plan."""

    gone: tuple[Gone, ...]
    """In the order in which they go: lessons, tools, experts, runs."""
    changed: tuple[Changed, ...]
    """Renamed ones first."""
    notes: tuple[str, ...]
    """What a person should know: names of which no version is in use afterwards."""
    tools: tuple[ToolRecord, ...] = ()
    """Whose files go."""


class Step(NamedTuple):
    """One write: records to be written, or ids to be deleted."""

    written: tuple[tuple[str, AnyRecord], ...] = ()
    kind: RecordKind = "run"
    deleted: tuple[str, ...] = ()


def steps_of(plan: Deletion) -> list[Step]:
    """Return the writes in their order. What a renamed record was goes once nothing names it any more."""
    renamed = [one for one in plan.changed if one.id != one.record.id]
    mended = [one for one in plan.changed if one.id == one.record.id]
    steps = [
        Step(written=tuple((one.id, one.record) for one in part)) for part in (renamed, mended)
    ]
    olds = [(_kind_of(one.record), one.id) for one in renamed]
    with_it = [(one.kind, one.id) for one in plan.gone if one.why != ASKED]
    asked = [(one.kind, one.id) for one in plan.gone if one.why == ASKED]
    for part in (olds, with_it, asked):
        for kind in COLLECTION:
            ids = tuple(key for of, key in part if of == kind)
            steps.append(Step(kind=kind, deleted=ids))
    return [step for step in steps if step.written or step.deleted]


def _kind_of(record: AnyRecord) -> RecordKind:
    return "run" if isinstance(record, RunRecord) else kind_of(record)


async def carry_out(
    memory: Memory,
    plan: Deletion,
    tools_dir: Path | None,
    done: Callable[[Step], None] = lambda _: None,
) -> list[ToolRecord]:
    """Do what a plan says.

    Args:
        memory: The memory that it was made for.
        plan: From `plan_deletion`.
        tools_dir: Where the files of tools are; `None` to leave them.
        done: Told after each write.

    Returns:
        The tools whose files were edited by hand, and are left.

    Raises:
        StoreError: If the memory cannot be written. The same deletion, asked for again, goes on.
    """
    left = [] if tools_dir is None else await asyncio.to_thread(_remove_files, plan, tools_dir)
    for step in steps_of(plan):
        if step.written:
            await memory.rewrite(step.written)
        if step.deleted:
            await memory.delete(step.kind, *step.deleted)
        done(step)
    return left


def _remove_files(plan: Deletion, tools_dir: Path) -> list[ToolRecord]:
    """Remove the files of tools; return those whose files were edited by hand, and stay. Blocks."""
    made = [tool for tool in plan.tools if tool.origin == "generated"]
    return [tool for tool in made if not remove_projection(tools_dir, tool)]
