"""What in a memory deserves a person's look, and what to do about it. Nothing is changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from ..memory import Memory
from ..records import RECRUITABLE, AgentRecord, ExperienceRecord, ToolRecord
from ..rows import Kept
from .hygiene import (
    UNUSED_DAYS,
    brought_in,
    find_twins,
    in_use,
    kind_of,
    losing_usage,
    name_of,
    why_loses,
)
from .snapshot import Ledger, Snapshot, moment

Trouble = Literal["contradiction", "loser", "missing tool", "twins", "quarantined", "no evidence"]
TROUBLES: Final[tuple[str, ...]] = get_args(Trouble)
COMMAND: Final = "mem2evolve"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing to look at."""

    trouble: Trouble
    namespace: str
    records: tuple[Kept, ...]
    """What it is about; of two lessons that contradict each other, the newer one first."""
    what: str
    do: str
    """A command to type, or two."""


async def examine(
    memory: Memory, snapshot: Snapshot, *, now: datetime, unused_days: int = UNUSED_DAYS
) -> list[Finding]:
    """Return what was found, worst first.

    Raises:
        StoreError: If the vectors cannot be read.
    """
    ledger = Ledger(snapshot)
    used = [one for one in snapshot.kept if in_use(one)]
    oldest = now - timedelta(days=unused_days)
    return [
        *_contradictions(snapshot, ledger),
        *_losers(used, ledger),
        *_missing_tools(snapshot),
        *[_twins(*pair) for pair in await find_twins(memory, used, ledger)],
        *_quarantined(snapshot, oldest, unused_days),
        *_unproved(snapshot, ledger),
    ]


def _contradictions(snapshot: Snapshot, ledger: Ledger) -> Iterator[Finding]:
    active = {one.id: one for one in snapshot.lessons if one.status == "active"}
    told: set[frozenset[str]] = set()
    for one in active.values():
        for other in (active[key] for key in one.contradicts if key in active):
            pair = frozenset((one.id, other.id))
            if (one.namespace, one.scope) != (other.namespace, other.scope) or pair in told:
                continue
            told.add(pair)
            what = f"{_said(one, ledger)} contradicts {_said(other, ledger)}"
            yield _found("contradiction", what, _settle(one, other), one, other)


def _settle(one: ExperienceRecord, other: ExperienceRecord) -> str:
    return (
        f"{COMMAND} memory edit {_short(one)} --knowledge … --because …, "
        f"or {COMMAND} memory delete {_short(one)} or {_short(other)}"
    )


def _said(lesson: ExperienceRecord, ledger: Ledger) -> str:
    usage = ledger.usage(lesson)
    fared = f"helped in {usage.wins} of {usage.uses}" if usage.uses else "not used"
    return f"{lesson.title!r} ({_short(lesson)}, {fared}: {lesson.knowledge})"


def _losers(used: list[Kept], ledger: Ledger) -> Iterator[Finding]:
    for record in used:
        if usage := losing_usage(record, ledger):
            what = f"{_called(record)} {why_loses(usage)}"
            yield _found("loser", what, _prune(record), record)


def _twins(first: Kept, second: Kept, score: float) -> Finding:
    what = f"{_called(second)} says the same as {_called(first)}: their cards are {score:.2f} close"
    do = _prune(second)
    if isinstance(second, ToolRecord):
        do = f"{COMMAND} tools retire {_short(second)} --because …"
    elif isinstance(second, AgentRecord):
        do = f"{COMMAND} memory delete {_short(second)}"
    return _found("twins", what, do, first, second)


def _quarantined(snapshot: Snapshot, oldest: datetime, days: int) -> Iterator[Finding]:
    for record in snapshot.kept:
        since = brought_in(record, "quarantined") or moment(record.created_at)
        if record.status != "quarantined" or since is None or since >= oldest:
            continue
        why = record.history[-1].reason if record.history else "no reason is known"
        what = (
            f"{_called(record)} is quarantined since {since.date()}, more than {days} days: {why}"
        )
        do = _prune(record)
        if isinstance(record, ToolRecord):
            do += f", or {COMMAND} tools activate {_short(record)} --because …"
        yield _found("quarantined", what, do, record)


def _unproved(snapshot: Snapshot, ledger: Ledger) -> Iterator[Finding]:
    for lesson in snapshot.lessons:
        if lesson.status == "active" and not ledger.evidence(lesson):
            what = f"{_called(lesson)} has no run here that taught it: it was imported without, or the run was deleted"
            do = f"{COMMAND} memory show {_short(lesson)}: edit or delete it only if it is wrong"
            yield _found("no evidence", what, do, lesson)


def _missing_tools(snapshot: Snapshot) -> Iterator[Finding]:
    versions: dict[tuple[str, str], list[ToolRecord]] = {}
    for tool in snapshot.tools:
        versions.setdefault((tool.namespace, tool.name), []).append(tool)
    for expert in snapshot.agents:
        for name in expert.tools if in_use(expert) else ():
            found = versions.get((expert.namespace, name), [])
            if any(tool.status in RECRUITABLE for tool in found):
                continue
            newest = max(found, key=lambda tool: tool.version, default=None)
            lacks = f"which is {newest.status}" if newest else "which does not exist"
            do = f"{COMMAND} memory delete {_short(expert)}"
            if newest is not None:
                do = f"{COMMAND} tools activate {_short(newest)} --because …"
            what = f"{_called(expert)} knows the tool {name}, {lacks}; it works without it"
            yield _found("missing tool", what, do, expert)


def _found(trouble: Trouble, what: str, do: str, *records: Kept) -> Finding:
    return Finding(
        trouble=trouble, namespace=records[0].namespace, records=records, what=what, do=do
    )


def _called(record: Kept) -> str:
    kind = "lesson" if isinstance(record, ExperienceRecord) else kind_of(record)
    return f"{kind} {name_of(record)!r} ({_short(record)})"


def _short(record: Kept) -> str:
    return record.id[:8]


def _prune(record: Kept) -> str:
    space = "" if record.namespace == "default" else f" --namespace {record.namespace}"
    return f"{COMMAND} memory prune{space}"
