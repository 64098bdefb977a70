"""What no longer earns its place: losers, the unused, twins. A plan of changes of status; nothing is deleted.

- *Loser*: used in at least `MIN_USES` judged runs, and the upper end of the Wilson interval of its wins is below
  `FAIR`: with 95 % confidence it fails more often than it helps. What was brought back after a quarantine is judged by
  its uses since.
- *Unused*: not made, moved, used or taught for a number of days.
- *Twins*: active lessons that say the same and do not contradict each other.

Built-in and host tools are left alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from ..memory import Memory
from ..recall import Usage, wilson_lower_bound
from ..records import RECRUITABLE, AgentRecord, ExperienceRecord, Status, ToolRecord
from ..rows import Kept, KeptKind
from .snapshot import Ledger, Snapshot, brought_back, count_uses, moment

MIN_USES: Final = 5
"""Judged runs before anything is called a loser."""
FAIR: Final = 0.5
UNUSED_DAYS: Final = 90
LOSES: Final = "loses: "
"""Begins the reason of a quarantine for losing."""
_BLOCK: Final = 1024
"""Rows compared with all others at once: 1,024 times 10,000 similarities are 40 MB."""

Rule = Literal["loses", "unused", "quarantined", "twin"]


@dataclass(frozen=True, kw_only=True)
class Move:
    """A change of status that is due."""

    rule: Rule
    kind: KeptKind
    id: str
    name: str
    namespace: str
    was: Status
    to: Status
    reason: str


class Twins(NamedTuple):
    """Two records that say the same; the first has the better record."""

    first: Kept
    second: Kept
    score: float
    """Cosine similarity of their cards."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What pruning would do, and what it leaves to a person."""

    moves: tuple[Move, ...]
    twins: tuple[Twins, ...]
    """Assets that say the same: only reported."""


def loses(usage: Usage) -> bool:
    """Say whether a track record is that of a loser."""
    return usage.uses >= MIN_USES and upper_bound(usage) < FAIR


def upper_bound(usage: Usage) -> float:
    """Return the upper end of the Wilson score interval of the wins, in [0, 1]; 1 without evidence."""
    return 1.0 - wilson_lower_bound(usage.uses - usage.wins, usage.uses)


def why_loses(usage: Usage) -> str:
    """Return the figures as a reason."""
    return (
        f"{LOSES}{usage.wins} of {usage.uses} judged runs won; "
        f"with 95 % confidence below {upper_bound(usage):.2f}, {FAIR:.2f} is fair"
    )


def kind_of(record: Kept) -> KeptKind:
    """Return which bank a record belongs to."""
    if isinstance(record, ExperienceRecord):
        return "experience"
    return "tool" if isinstance(record, ToolRecord) else "agent"


def name_of(record: Kept) -> str:
    """Return what a person calls it."""
    if isinstance(record, ExperienceRecord):
        return record.title
    return f"{record.name} v{record.version}"


def in_use(record: Kept) -> bool:
    """Say whether it was made or learned here, and may be recruited or recalled."""
    return _is_own(record) and record.status in RECRUITABLE


def _is_own(record: Kept) -> bool:
    return isinstance(record, ExperienceRecord) or record.origin == "generated"


def losing_usage(record: Kept, ledger: Ledger) -> Usage | None:
    """Return the uses and wins by which it loses, `None` if it does not."""
    usage = count_uses(record.id, ledger.runs_with(record), brought_back(record.history))
    return usage if loses(usage) else None


async def plan_pruning(
    memory: Memory, snapshot: Snapshot, *, now: datetime, unused_days: int = UNUSED_DAYS
) -> Plan:
    """Return what is due. A record is moved at most once: the first rule that holds decides.

    Raises:
        StoreError: If the vectors cannot be read.
    """
    ledger = Ledger(snapshot)
    moves: dict[str, Move] = {}
    for record in snapshot.kept:
        found = _due(record, ledger, now - timedelta(days=unused_days), unused_days)
        if found is not None:
            moves[record.id] = found
    left = [one for one in snapshot.kept if in_use(one) and one.id not in moves]
    report: list[Twins] = []
    for pair in await find_twins(memory, left, ledger):
        if isinstance(pair.first, ExperienceRecord):
            told = f"says the same as {pair.first.title!r} ({pair.first.id}), which has the better record"
            reason = f"{told}; their cards are {pair.score:.2f} close"
            moves[pair.second.id] = _move("twin", pair.second, "superseded", reason)
        else:
            report.append(pair)
    return Plan(moves=tuple(moves.values()), twins=tuple(report))


def _due(record: Kept, ledger: Ledger, oldest: datetime, days: int) -> Move | None:
    if record.status == "quarantined" and _is_own(record):
        since = brought_in(record, "quarantined") or moment(record.created_at)
        why = record.history[-1].reason if record.history else "no reason is known"
        reason = f"quarantined since {_day(since)}, more than {days} days: {why}"
        gone = since is not None and since < oldest
        return _move("quarantined", record, "retired", reason) if gone else None
    if not in_use(record):
        return None
    usage = losing_usage(record, ledger)
    if usage is not None:
        return _move("loses", record, "quarantined", why_loses(usage))
    last = ledger.last_sign(record)
    reason = f"not used since {_day(last)}, more than {days} days"
    unused = last is not None and last < oldest
    return _move("unused", record, "retired", reason) if unused else None


def _day(when: datetime | None) -> str:
    return str(when.date()) if when else "an unknown day"


def brought_in(record: Kept, status: Status) -> datetime | None:
    """Return when it got a status the last time; `None` if that is not known."""
    return next(
        (moment(change.at) for change in reversed(record.history) if change.status == status), None
    )


def _move(rule: Rule, record: Kept, to: Status, reason: str) -> Move:
    return Move(
        rule=rule,
        kind=kind_of(record),
        id=record.id,
        name=name_of(record),
        namespace=record.namespace,
        was=record.status,
        to=to,
        reason=reason,
    )


async def find_twins(memory: Memory, records: Iterable[Kept], ledger: Ledger) -> list[Twins]:
    """Return the pairs that say the same among records of one kind, namespace and, for lessons, scope and outcome.

    The versions of one asset are no twins, and neither are lessons that contradict each other. Each record is
    the second of at most one pair, and the first of none then.
    """
    groups: dict[tuple[str, ...], list[Kept]] = {}
    for record in records:
        if record.status != "active":
            continue
        key: tuple[str, ...] = (kind_of(record), record.namespace)
        if isinstance(record, ExperienceRecord):
            key += (record.scope, record.outcome)
        groups.setdefault(key, []).append(record)
    found: list[Twins] = []
    for (kind, space, *_), group in groups.items():
        if len(group) > 1:
            where = {"namespace": space, "status": "active"}
            vectors = await memory.vectors(kind, where)  # type: ignore[arg-type]  # one of the three
            ranked = sorted(
                (one for one in group if one.id in vectors), key=lambda one: _rank(one, ledger)
            )
            found += _twins_in(ranked, vectors, memory.calibration.twin)
    return found


def _rank(record: Kept, ledger: Ledger) -> tuple[float, int, int, str, str]:
    """Order by record: merit, fewest losses, most evidence, oldest."""
    usage = ledger.usage(record)
    evidence = len(ledger.evidence(record)) if isinstance(record, ExperienceRecord) else 0
    return (-usage.merit, usage.uses - usage.wins, -evidence, record.created_at, record.id)


def _twins_in(
    ranked: Sequence[Kept], vectors: Mapping[str, Sequence[float]], least: float
) -> Iterator[Twins]:
    import numpy as np  # noqa: PLC0415 - heavy

    matrix = np.asarray([vectors[one.id] for one in ranked], dtype=np.float32)
    gone: set[int] = set()
    for start in range(0, len(ranked), _BLOCK):
        close = matrix[start : start + _BLOCK] @ matrix.T
        for i, j in zip(*np.nonzero(close >= least), strict=True):
            first, second = start + int(i), int(j)
            if second <= first or {first, second} & gone:
                continue
            if _are_twins(ranked[first], ranked[second]):
                gone.add(second)
                yield Twins(ranked[first], ranked[second], float(close[i, j]))


def _are_twins(one: Kept, other: Kept) -> bool:
    if isinstance(one, ExperienceRecord) and isinstance(other, ExperienceRecord):
        return other.id not in one.contradicts and one.id not in other.contradicts
    if isinstance(one, ToolRecord | AgentRecord) and isinstance(other, ToolRecord | AgentRecord):
        return one.name != other.name
    return False
