"""Whether what is stored is whole: records that can be read, under their own ids, with vectors that fit them."""

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from ...errors import StoreDamaged
from ..bank import Bank
from ..records import RunRecord, ToolRecord
from ..rows import COLLECTION, AnyRecord, RecordKind, parse
from ..store import Record

SAME_VECTOR: Final = 0.999
"""Cosine similarity that a stored vector and its card's must have; rounding takes less."""
UNIT: Final = 1e-3
"""By how much a vector's length may differ from 1."""
_BATCH: Final = 64


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is not as it should be."""

    kind: RecordKind
    id: str
    name: str
    """What a person knows it by; empty when it cannot be read."""
    what: str


async def faults(memory: Bank, *, vectors: bool = False) -> AsyncIterator[Fault]:
    """Yield what is wrong with the records, in the order of kinds and ids. Reads all, changes none.

    Args:
        memory: Any.
        vectors: Embed every card again, and compare. Takes some 10 ms a record.

    Raises:
        StoreError: If the memory cannot be opened at all.
    """
    ids = {kind: {row.id async for row in memory.rows(kind)} for kind in COLLECTION}
    for kind in COLLECTION:
        batch: list[tuple[Record, AnyRecord]] = []
        async for row in memory.rows(kind):
            try:
                record = parse(kind, row.id, row.payload)
            except StoreDamaged as exc:
                yield Fault(kind=kind, id=row.id, name="", what=str(exc))
                continue
            for what in _wrong(row, record, ids):
                yield Fault(kind=kind, id=row.id, name=name_of(record), what=what)
            batch.append((row, record))
            if vectors and len(batch) == _BATCH:
                async for fault in _strangers(memory, kind, batch):
                    yield fault
                batch.clear()
        if vectors:
            async for fault in _strangers(memory, kind, batch):
                yield fault


def name_of(record: AnyRecord) -> str:
    """Return what a person knows a record by."""
    if isinstance(record, RunRecord):
        return " ".join(record.task.split())[:60]
    name = record.card.partition(": ")[0]
    return f"{name} v{record.version}" if isinstance(record, ToolRecord) else name


def _wrong(row: Record, record: AnyRecord, ids: dict[RecordKind, set[str]]) -> list[str]:
    found = []
    if record.id != row.id:
        found.append("its content was changed: it does not give its id")
    length = math.sqrt(math.fsum(x * x for x in row.vector))
    if not abs(length - 1) <= UNIT:
        found.append(f"its vector has length {length:.3g}, not 1")
    for field, lost in _dangling(record, ids):
        found.append(f"{field} names {', '.join(lost)}, which is not there")
    return found


def _dangling(record: AnyRecord, ids: dict[RecordKind, set[str]]) -> list[tuple[str, list[str]]]:
    """Return the fields that refer to records which do not exist."""
    lessons, assets = ids["experience"], ids["tool"] | ids["agent"]
    refers: dict[str, tuple[tuple[str, ...], set[str]]] = {}
    if isinstance(record, RunRecord):
        refers = {
            field: (getattr(record, field), lessons) for field in ("lessons", "helped", "learned")
        }
        refers |= {field: (getattr(record, field), assets) for field in ("assets", "won")}
    else:
        own = assets if hasattr(record, "version") else lessons
        refers["supersedes"] = ((record.supersedes,) if record.supersedes else (), own)
        refers["supports"] = (getattr(record, "supports", ()), lessons)
        refers["contradicts"] = (getattr(record, "contradicts", ()), lessons)
    lost = {
        field: [key[:8] for key in keys if key not in known]
        for field, (keys, known) in refers.items()
    }
    return [(field, keys) for field, keys in lost.items() if keys]


async def _strangers(
    memory: Bank, kind: RecordKind, batch: list[tuple[Record, AnyRecord]]
) -> AsyncIterator[Fault]:
    """Yield those whose vector is not that of their card: made by another model, or for another text."""
    expected = await memory.embed([record.card for _, record in batch])
    for (row, record), vector in zip(batch, expected, strict=True):
        same = len(row.vector) == len(vector)
        cosine = math.fsum(a * b for a, b in zip(row.vector, vector, strict=True)) if same else 0.0
        if cosine < SAME_VECTOR:
            what = f"its vector is not that of its card (cosine {cosine:.3f})"
            yield Fault(kind=kind, id=row.id, name=name_of(record), what=what)
