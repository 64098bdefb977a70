"""The memory as a whole: reading and rewriting all of it, for care, checks and export."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from .bank import Bank
from .manifest import Manifest
from .rows import COLLECTION, RECORD_TYPE, AnyRecord, KeptKind, RecordKind, parse, payload_of
from .store import Record, Where

_BATCH: Final = 256
"""Records written at once."""
_PAGE: Final = 64
"""Records read at once: some may be large."""


class Archive(Bank):
    """What goes over many records at once. A run does without it."""

    @property
    def embedding(self) -> str:
        """Fingerprint of the embedding model in use."""
        return self._embedder.name

    async def manifest(self) -> Manifest | None:
        """Return what the memory was made with; `None` if nothing was ever written."""
        await self._check()
        return self._manifest

    async def pages(
        self, kind: RecordKind, where: Where | None = None
    ) -> AsyncIterator[list[AnyRecord]]:
        """Yield the records that fit, page by page, in the order of their ids.

        Raises:
            ValueError: If `where` asks for a field that is not indexed.
        """
        page: list[AnyRecord] = []
        async for row in self.rows(kind, where):
            page.append(parse(kind, row.id, row.payload))
            if len(page) == _PAGE:
                yield page
                page = []
        yield page

    async def get_many(self, kind: RecordKind, ids: Sequence[str]) -> dict[str, AnyRecord]:
        """Return those records of `ids` that exist, by id."""
        await self._check()
        rows = await self._store.get(COLLECTION[kind], ids)
        return {row.id: parse(kind, row.id, row.payload) for row in rows}

    async def tally(
        self, kind: RecordKind, field: str, where: Where | None = None
    ) -> dict[str, int]:
        """Return how many records hold each value of an indexed field.

        Raises:
            ValueError: If a field is not indexed.
        """
        await self._check()
        return await self._store.facet(COLLECTION[kind], field, where=where)

    async def vectors(self, kind: KeptKind, where: Where) -> dict[str, Sequence[float]]:
        """Return the vectors of the cards that fit, by id."""
        return {row.id: row.vector async for row in self.rows(kind, where)}

    async def rewrite(self, records: Sequence[tuple[str, AnyRecord]]) -> None:
        """Write records over what is kept, history and all; each takes the vector of the id beside it.

        For care of the whole memory: everything else adds records or changes a status. What has no such id
        any more is passed over.
        """
        await self._check()
        for kind, collection in COLLECTION.items():
            mine = [(key, one) for key, one in records if isinstance(one, RECORD_TYPE[kind])]
            for at in range(0, len(mine), _BATCH):
                batch = mine[at : at + _BATCH]
                rows = await self._store.get(collection, [key for key, _ in batch])
                vectors = {row.id: row.vector for row in rows}
                fresh = [
                    Record(id=one.id, vector=vectors[key], payload=payload_of(one))
                    for key, one in batch
                    if key in vectors
                ]
                if fresh:
                    await self._store.put(collection, fresh)
