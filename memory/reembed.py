"""Making all vectors anew for another embedding model, beside the old ones, and changing over.

The manifest names the generation of vectors in use, and it is replaced in one step. So whenever this is killed,
the old set or the new one is there whole, with the manifest that belongs to it. A second call goes on with what
was made, if it was made by the same model, and removes what is no longer needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ..errors import StoreBusy
from ..models.embeddings import Embedder
from .manifest import CARD_VERSION, Manifest
from .migrations import migrate
from .rows import COLLECTION, RecordKind, parse
from .store import Collection, MemoryStore, Record

PAGE: Final = 128
"""Records read, embedded and written at once."""
PASSES: Final = 5
"""How often the old records are gone through, until one pass finds nothing that the new set lacks."""

Tell = Callable[[int, int], None]
"""Told how many records of how many have been looked at, in one pass."""


class Generations(MemoryStore, Protocol):
    """A store that can keep another set of vectors beside the one in use."""

    def beside(self, generation: int) -> "Generations":
        """Return a store for the vectors of another generation."""
        ...

    async def drop(self, generation: int) -> None:
        """Remove a generation that is not in use."""
        ...


@dataclass(frozen=True, kw_only=True)
class Reembedded:
    """What was done."""

    before: str
    """The embedding model that the memory had; empty if nothing was ever written."""
    after: str
    records: int
    embedded: int
    """Of them, how many were embedded by this call; the rest was there from one that was broken off."""
    changed: bool


async def reembed(store: Generations, embedder: Embedder, tell: Tell) -> Reembedded:
    """Make the vectors of all records anew, unless they are those of this model and card text already.

    Nobody else may write meanwhile: an embedded store is opened `alone`; on a server what others write
    is taken along until the last pass.

    Raises:
        StoreMismatch: If the memory is of a later schema.
        StoreBusy: If others keep on writing.
        StoreError: If it cannot be read or written. The old vectors are still in use.
        ModelError: If the model cannot be used. The same.
    """
    stored = await store.read_manifest()
    if stored is None:
        return Reembedded(before="", after=embedder.name, records=0, embedded=0, changed=False)
    old = await migrate(store, Manifest.from_json(stored))
    await _drop_left_over(store, old.generation)
    [probe] = await embedder.embed(["dimension"])
    new = _successor(old, embedder.name, len(probe))
    total = sum([await store.count(collection) for collection in COLLECTION.values()])
    report = Reembedded(
        before=old.embedding, after=new.embedding, records=total, embedded=0, changed=True
    )
    if old.card_version == CARD_VERSION and old.same_model(embedder.name, len(probe)):
        await store.drop(new.generation)
        return replace(report, changed=False)
    beside = store.beside(new.generation)
    try:
        if await beside.read_manifest() != _mark(new):
            await beside.close()
            await store.drop(new.generation)
            await beside.write_manifest(_mark(new))
        embedded = await _fill(store, beside, embedder, total, tell)
    finally:
        await beside.close()
    await store.write_manifest(new.to_json())
    await _drop_left_over(store, new.generation)
    return replace(report, embedded=embedded)


def _successor(old: Manifest, embedding: str, dim: int) -> Manifest:
    """Return the manifest after the change; what was measured for another model is not kept."""
    kept = old.calibration if old.same_model(embedding, dim) else None
    return replace(
        old,
        embedding=embedding,
        dim=dim,
        card_version=CARD_VERSION,
        generation=old.generation + 1,
        calibration=kept,
    )


def _mark(new: Manifest) -> dict[str, Any]:
    """Return the manifest of the new set while it is being made: a store of its own, whose records are its first."""
    return replace(new, generation=0, calibration=None).to_json()


async def _drop_left_over(store: Generations, current: int) -> None:
    """Remove the generation before: a call that was killed after the change left it."""
    if current:
        await store.drop(current - 1)


async def _fill(
    store: MemoryStore, beside: MemoryStore, embedder: Embedder, total: int, tell: Tell
) -> int:
    """Bring the new set up to the old one; return how many records were embedded."""
    embedded = 0
    for _ in range(PASSES):
        done = changed = 0
        for kind, collection in COLLECTION.items():
            after: str | None = None
            while True:
                page, after = await store.scroll(collection, limit=PAGE, after=after)
                fresh = await _copy(beside, kind, page, embedder)
                changed += fresh
                embedded += fresh
                done += len(page)
                tell(done, total)
                if after is None:
                    break
            changed += await _remove_extra(store, beside, collection)
        if not changed:
            return embedded
    raise StoreBusy(
        f"The memory was written to in each of {PASSES} passes; its old vectors are still in use.",
        hint="Stop the programs that use it, then run `mem2evolve memory reembed` again.",
    )


async def _copy(
    beside: MemoryStore, kind: RecordKind, page: Sequence[Record], embedder: Embedder
) -> int:
    """Embed and write those of a page that the new set lacks or has otherwise; return how many."""
    collection = COLLECTION[kind]
    there = {row.id: row.payload for row in await beside.get(collection, [row.id for row in page])}
    missing = [row for row in page if there.get(row.id) != row.payload]
    if missing:
        cards = [parse(kind, row.id, row.payload).card for row in missing]
        vectors = await embedder.embed(cards)
        pairs = zip(missing, vectors, strict=True)
        await beside.put(
            collection,
            [Record(id=row.id, vector=vector, payload=row.payload) for row, vector in pairs],
        )
    return len(missing)


async def _remove_extra(store: MemoryStore, beside: MemoryStore, collection: Collection) -> int:
    """Remove from the new set what was deleted from the old one; return how many."""
    if await beside.count(collection) == await store.count(collection):
        return 0
    extra: list[str] = []
    after: str | None = None
    while True:
        page, after = await beside.scroll(collection, limit=PAGE, after=after)
        kept = {row.id for row in await store.get(collection, [row.id for row in page])}
        extra += [row.id for row in page if row.id not in kept]
        if after is None:
            break
    await beside.delete(collection, extra)
    return len(extra)
