"""Copying a memory, vectors and all, from one store to another."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import InputError, StoreError, StoreMismatch
from .manifest import Manifest
from .store import COLLECTIONS, Collection, MemoryStore, Record

PAGE: Final = 64
"""Records that are read, compared or written at once."""
CLOSE: Final = 0.9999
"""Cosine similarity from which two vectors are one: stores keep single precision."""

Tell = Callable[[str, int, int], None]
"""Is told what is done, how much of it, and of how much."""


@dataclass(kw_only=True)
class Difference:
    """What a target lacks, collection by collection."""

    total: dict[Collection, int] = field(default_factory=dict)
    """Records of the source."""
    missing: dict[Collection, int] = field(default_factory=dict)
    differing: dict[Collection, int] = field(default_factory=dict)
    """Records that are there with another payload or another vector."""
    example: str = ""
    """Collection and id of one that differs."""

    @property
    def left(self) -> int:
        """How many records a copy would write."""
        return sum(self.missing.values()) + sum(self.differing.values())


async def compare(
    source: MemoryStore, target: MemoryStore, tell: Tell = lambda *_: None
) -> Difference:
    """Say what the target lacks of the source; nothing is written.

    Args:
        source: What is copied.
        target: Where it goes.
        tell: See `Tell`.

    Raises:
        InputError: If the source holds nothing.
        StoreMismatch: If the target was made with another embedding model or version.
        StoreError: If one of them cannot be read.
    """
    await _manifest(source, target)
    found = Difference()
    total = sum([await source.count(collection) for collection in COLLECTIONS])
    seen = 0
    for collection in COLLECTIONS:
        found.total[collection] = found.missing[collection] = found.differing[collection] = 0
        async for page, there in _pairs(source, target, collection):
            seen += len(page)
            found.total[collection] += len(page)
            absent = [row for row in page if row.id not in there]
            other = [row for row in page if row.id in there and not _same(row, there[row.id])]
            found.missing[collection] += len(absent)
            found.differing[collection] += len(other)
            if other and not found.example:
                found.example = f"{collection} {other[0].id}"
            tell("compared", seen, max(total, seen))
    return found


async def transfer(
    source: MemoryStore,
    target: MemoryStore,
    *,
    overwrite: bool = False,
    tell: Tell = lambda *_: None,
) -> Difference:
    """Copy what the target lacks, and compare both once more.

    The source stays as it is, and so does what the target has beside it. Broken off, the same call goes on.

    Args:
        source: What is copied.
        target: Where it goes.
        overwrite: Replace records of the target that differ; without it they are refused before anything is written.
        tell: See `Tell`.

    Returns:
        What the target lacked before.

    Raises:
        InputError: If the source holds nothing.
        StoreMismatch: If the target was made with another embedding model or version, or holds records that differ.
        StoreError: If one of them cannot be read or written, or the copy is not equal at the end.
    """
    before = await compare(source, target, tell)
    check_differing(before, overwrite=overwrite)
    if await target.read_manifest() is None:
        # First, so that a copy that was broken off is known for what it is.
        await target.write_manifest(await _manifest(source, target))
    written = 0
    for collection in COLLECTIONS:
        async for page, there in _pairs(source, target, collection):
            rows = [row for row in page if row.id not in there or not _same(row, there[row.id])]
            if rows:
                await target.put(collection, rows)
                written += len(rows)
                tell("copied", written, max(before.left, written))
    await _verify(source, target, tell)
    return before


def check_differing(found: Difference, *, overwrite: bool) -> None:
    """Refuse a target with records that differ, unless they are to be replaced.

    Raises:
        StoreMismatch: If there are any.
    """
    differing = sum(found.differing.values())
    if differing and not overwrite:
        raise StoreMismatch(
            f"The target holds {differing:,} of these records with another content, such as {found.example}.",
            hint="Nothing was written. Add --overwrite to replace them with those of this home.",
        )


async def _verify(source: MemoryStore, target: MemoryStore, tell: Tell) -> None:
    after = await compare(source, target, tell)
    for collection in COLLECTIONS:
        fewer = await target.count(collection) < after.total[collection]
        if fewer or after.missing[collection] or after.differing[collection]:
            raise StoreError(
                f"The copy of {collection} is not equal: {after.missing[collection]} records are missing,"
                f" {after.differing[collection]} differ.",
                hint="Was the memory written to meanwhile? Give the same command again: it goes on from here.",
            )


async def _manifest(source: MemoryStore, target: MemoryStore) -> Mapping[str, Any]:
    """Return the manifest of the source, as it is kept, after comparing that of the target."""
    stored = await source.read_manifest()
    if stored is None:
        raise InputError(
            "There is nothing to copy: nothing was ever written to this memory.",
            hint="Choose another home with --home or MEM2EVOLVE_HOME.",
        )
    ours = Manifest.from_json(stored)
    ours.check(embedding=ours.embedding, dim=ours.dim)  # refuses a later version
    found = await target.read_manifest()
    if found is None:
        for collection in COLLECTIONS:
            if await target.count(collection):
                raise StoreMismatch(
                    f"The target has records in {collection}, but does not say how they were made.",
                    hint="Nothing was written. Use an empty server, or remove its collections mem2evolve_*.",
                )
        return stored
    theirs = Manifest.from_json(found)
    if _described(theirs) != _described(ours):
        raise StoreMismatch(
            f"The target was made with {_described(theirs)}, this memory with {_described(ours)}.",
            hint="Nothing was written. Use another server, or remove its collections mem2evolve_*.",
        )
    return stored


def _described(manifest: Manifest) -> str:
    return (
        f"{manifest.embedding} ({manifest.dim} numbers, schema {manifest.schema_version},"
        f" cards {manifest.card_version})"
    )


async def _pairs(
    source: MemoryStore, target: MemoryStore, collection: Collection
) -> AsyncIterator[tuple[Sequence[Record], dict[str, Record]]]:
    """Yield pages of the source, each with the target's records of the same ids."""
    after: str | None = None
    while True:
        page, after = await source.scroll(collection, limit=PAGE, after=after)
        if page:
            there = await target.get(collection, [row.id for row in page])
            yield page, {row.id: row for row in there}
        if after is None:
            return


def _same(one: Record, other: Record) -> bool:
    if len(one.vector) != len(other.vector) or _hash(one) != _hash(other):
        return False
    return sum(a * b for a, b in zip(one.vector, other.vector, strict=True)) >= CLOSE


def _hash(row: Record) -> str:
    return hashlib.sha256(json.dumps(dict(row.payload), sort_keys=True).encode()).hexdigest()
