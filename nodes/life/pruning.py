"""Carries out what pruning found due: statuses, and the files that show them. Nothing is deleted."""

from collections.abc import Iterable

from ...memory.care.hygiene import Move
from ...memory.records import ExperienceRecord, ToolRecord
from ..desk import Resources
from .versions import move


async def carry_out(resources: Resources, moves: Iterable[Move]) -> list[Move]:
    """Change the statuses; what another process has changed since the plan was made is left alone.

    Broken off and asked for again, it goes on with what is left.

    Returns:
        What was moved.

    Raises:
        StoreError: If the memory cannot be read or written.
    """
    done = []
    for due in moves:
        record = await resources.memory.get(due.kind, due.id)
        if record is None or record.status != due.was:
            continue
        if isinstance(record, ToolRecord):
            await move(resources, record, due.to, due.reason)
        elif isinstance(record, ExperienceRecord):
            await resources.memory.set_status("experience", due.id, due.to, due.reason)
        else:
            await resources.memory.set_status("agent", due.id, due.to, due.reason)
        done.append(due)
    return done
