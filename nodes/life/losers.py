"""What loses by the runs so far is quarantined when the run that used it ends."""

from collections.abc import Sequence
from typing import Any

from ...memory.care.hygiene import LOSES, in_use, kind_of, loses, name_of, why_loses
from ...memory.care.snapshot import brought_back, count_uses
from ...memory.memory import JUDGED
from ...memory.recall import Usage
from ...memory.records import ExperienceRecord, RunRecord
from ...memory.rows import Kept
from ..desk import Desk
from .keeping import move


async def set_aside_losers(desk: Desk, run: RunRecord) -> list[dict[str, Any]]:
    """Quarantine what this run used and what loses by its uses so far, with the figures as the reason.

    Built-in and host tools are only ranked below others. Repeated, it changes nothing and tells the same.

    Raises:
        StoreError: If the memory cannot be read or written.
    """
    if run.verdict not in JUDGED:
        return []
    found = []
    for record, usage in [
        *await _losing(desk, run, run.assets, lessons=False),
        *await _losing(desk, run, run.lessons, lessons=True),
    ]:
        reason = why_loses(usage)
        if in_use(record):
            await _quarantine(desk, run, record, reason)
        elif not _did(run, record):
            continue
        kind = "lesson" if isinstance(record, ExperienceRecord) else kind_of(record)
        found.append({"id": record.id, "kind": kind, "name": name_of(record), "reason": reason})
    return found


async def _losing(
    desk: Desk, run: RunRecord, ids: Sequence[str], *, lessons: bool
) -> list[tuple[Kept, Usage]]:
    usage = await desk.memory.usage(
        "experience" if lessons else "tool", namespace=run.namespace, ids=ids
    )
    found: list[tuple[Kept, Usage]] = []
    for key in sorted(key for key, used in usage.items() if loses(used)):
        record = await _kept(desk, key, lessons=lessons)
        if record is None:
            continue
        counted = usage[key]
        if since := brought_back(record.history):
            field = "lessons" if lessons else "assets"
            where = {field: key, "namespace": run.namespace, "verdict": JUDGED}
            runs = await desk.memory.list("run", where, limit=None)
            counted = count_uses(key, runs, since)
        if loses(counted):
            found.append((record, counted))
    return found


async def _kept(desk: Desk, key: str, *, lessons: bool) -> Kept | None:
    if lessons:
        return await desk.memory.get("experience", key)
    return await desk.memory.get("tool", key) or await desk.memory.get("agent", key)


async def _quarantine(desk: Desk, run: RunRecord, record: Kept, reason: str) -> None:
    if isinstance(record, ExperienceRecord):
        await desk.memory.set_status("experience", record.id, "quarantined", reason, run_id=run.id)
    else:
        await move(desk, run.id, record, "quarantined", reason)


def _did(run: RunRecord, record: Kept) -> bool:
    """Say whether this step did it already, before it was broken off."""
    last = record.history[-1] if record.history else None
    return bool(
        last
        and (last.status, last.run_id) == ("quarantined", run.id)
        and last.reason.startswith(LOSES)
    )
