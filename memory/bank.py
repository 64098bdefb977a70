"""Typed records over a store: writing, reading, listing, and the one change they allow."""

import builtins
import heapq
from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal, Self, overload

from ..errors import NotFoundError
from ..models.embeddings import Embedder
from .manifest import Manifest
from .migrations import migrate
from .recall import Calibration
from .records import (
    AgentRecord,
    ExperienceRecord,
    Kind,
    RunRecord,
    Status,
    StatusChange,
    ToolRecord,
)
from .rows import (
    COLLECTION,
    RECORD_TYPE,
    AnyRecord,
    Asset,
    Kept,
    KeptKind,
    RecordKind,
    parse,
    payload_of,
    row_of,
)
from .store import MemoryStore, Record, Where

_LISTS: Final[dict[KeptKind, str]] = {"tool": "tools", "agent": "agents", "experience": "memory"}
"""The command that lists each kind."""
_PAGE: Final = 256
"""Records read at once when all are wanted."""


class Bank:
    """Keeps records of all four kinds. `memory.memory.Memory` adds recall.

    Two changes of one record at the same moment are not merged: the last one stays.

    Args:
        store: Where records are kept.
        embedder: Makes the vectors of their cards.
    """

    def __init__(self, store: MemoryStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self._manifest: Manifest | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Flush and let go of the store. Idempotent; the next call opens it anew."""
        self._manifest = None
        await self._store.close()

    async def put(self, *records: AnyRecord) -> builtins.list[str]:
        """Write records, their cards embedded in one batch; return their ids.

        Writing one again is no change: an asset or lesson that is there already keeps its status,
        history, run and time (`set_status` changes the status). A run is replaced.

        Raises:
            ValueError: If a run's id is not a UUID.
        """
        vectors = await self.embed([record.card for record in records])
        if vectors:
            await self._claim(len(vectors[0]))
        for kind, collection in COLLECTION.items():
            batch = {
                record.id: (record, vector)
                for record, vector in zip(records, vectors, strict=True)
                if isinstance(record, RECORD_TYPE[kind])
            }
            if not batch:
                continue
            found = [] if kind == "run" else await self._store.get(collection, [*batch])
            kept = {row.id: row for row in found}
            await self._store.put(
                collection, [row_of(record, v, kept.get(key)) for key, (record, v) in batch.items()]
            )
        return [record.id for record in records]

    @overload
    async def set_status(
        self, kind: Literal["tool"], record_id: str, status: Status, reason: str, run_id: str = ""
    ) -> ToolRecord: ...
    @overload
    async def set_status(
        self, kind: Literal["agent"], record_id: str, status: Status, reason: str, run_id: str = ""
    ) -> AgentRecord: ...
    @overload
    async def set_status(
        self,
        kind: Literal["experience"],
        record_id: str,
        status: Status,
        reason: str,
        run_id: str = "",
    ) -> ExperienceRecord: ...
    @overload
    async def set_status(
        self, kind: KeptKind, record_id: str, status: Status, reason: str, run_id: str = ""
    ) -> Kept: ...
    async def set_status(
        self, kind: KeptKind, record_id: str, status: Status, reason: str, run_id: str = ""
    ) -> Kept:
        """Change the status of an asset or a lesson; its content and id stay.

        The same change by the same run, made again, is passed over.

        Returns:
            The record as it is now, the change last in its history.

        Raises:
            NotFoundError: If there is no such record.
        """
        await self._check()
        rows = await self._store.get(COLLECTION[kind], [record_id])
        if not rows:
            raise NotFoundError(
                f"There is no {kind} with the id {record_id!r}.",
                hint=f"List them with `mem2evolve {_LISTS[kind]} list --all`.",
            )
        record = parse(kind, rows[0].id, rows[0].payload)
        if isinstance(record, RunRecord):
            raise TypeError("a run's status is part of its record: put the run")
        change = StatusChange(status=status, reason=reason, run_id=run_id)
        last = record.history[-1] if record.history else None
        if last and (last.status, last.reason, last.run_id) == (status, reason, run_id):
            return record
        changed = record.model_copy(update={"status": status, "history": (*record.history, change)})
        row = Record(id=rows[0].id, vector=rows[0].vector, payload=payload_of(changed))
        await self._store.put(COLLECTION[kind], [row])
        return changed

    @overload
    async def get(self, kind: Literal["tool"], record_id: str) -> ToolRecord | None: ...
    @overload
    async def get(self, kind: Literal["agent"], record_id: str) -> AgentRecord | None: ...
    @overload
    async def get(self, kind: Literal["experience"], record_id: str) -> ExperienceRecord | None: ...
    @overload
    async def get(self, kind: Literal["run"], record_id: str) -> RunRecord | None: ...
    @overload
    async def get(self, kind: Kind, record_id: str) -> Asset | None: ...
    @overload
    async def get(self, kind: RecordKind, record_id: str) -> AnyRecord | None: ...
    async def get(self, kind: RecordKind, record_id: str) -> AnyRecord | None:
        """Return the record of that id, `None` if there is none."""
        await self._check()
        for row in await self._store.get(COLLECTION[kind], [record_id]):
            return parse(kind, row.id, row.payload)
        return None

    @overload
    async def find_by_name(
        self, kind: Literal["tool"], name: str, namespace: str = "default"
    ) -> builtins.list[ToolRecord]: ...
    @overload
    async def find_by_name(
        self, kind: Literal["agent"], name: str, namespace: str = "default"
    ) -> builtins.list[AgentRecord]: ...
    @overload
    async def find_by_name(
        self, kind: Kind, name: str, namespace: str = "default"
    ) -> Sequence[Asset]: ...
    async def find_by_name(
        self, kind: Kind, name: str, namespace: str = "default"
    ) -> Sequence[Asset]:
        """Return all versions of an asset, whatever their status, newest first."""
        found = await self.list(kind, {"name": name, "namespace": namespace}, limit=None)
        return sorted(found, key=lambda record: (record.version, record.created_at), reverse=True)

    @overload
    async def list(
        self, kind: Literal["tool"], where: Where | None = None, limit: int | None = 100
    ) -> builtins.list[ToolRecord]: ...
    @overload
    async def list(
        self, kind: Literal["agent"], where: Where | None = None, limit: int | None = 100
    ) -> builtins.list[AgentRecord]: ...
    @overload
    async def list(
        self, kind: Literal["experience"], where: Where | None = None, limit: int | None = 100
    ) -> builtins.list[ExperienceRecord]: ...
    @overload
    async def list(
        self, kind: Literal["run"], where: Where | None = None, limit: int | None = 100
    ) -> builtins.list[RunRecord]: ...
    @overload
    async def list(
        self, kind: Kind, where: Where | None = None, limit: int | None = 100
    ) -> Sequence[Asset]: ...
    @overload
    async def list(
        self, kind: RecordKind, where: Where | None = None, limit: int | None = 100
    ) -> Sequence[AnyRecord]: ...
    async def list(
        self, kind: RecordKind, where: Where | None = None, limit: int | None = 100
    ) -> Sequence[AnyRecord]:
        """Return the records that fit, newest first. Looks at all of them, whatever `limit` is.

        Args:
            kind: Which records.
            where: See `memory.store.Where`.
            limit: Most to return; `None` for all.

        Raises:
            ValueError: If `where` asks for a field that is not indexed.
        """
        newest: builtins.list[Record] = []
        async for row in self.rows(kind, where):
            newest.append(row)
            if limit is not None and len(newest) >= 2 * limit + _PAGE:
                newest = heapq.nlargest(limit, newest, key=_age)
        newest.sort(key=_age, reverse=True)
        return [parse(kind, row.id, row.payload) for row in newest[:limit]]

    async def rows(self, kind: RecordKind, where: Where | None = None) -> AsyncIterator[Record]:
        """Yield the rows that fit as they are stored, unread, in the order of their ids."""
        await self._check()
        after: str | None = None
        while True:
            page, after = await self._store.scroll(
                COLLECTION[kind], where=where, limit=_PAGE, after=after
            )
            for row in page:
                yield row
            if after is None:
                return

    async def count(self, kind: RecordKind, where: Where | None = None) -> int:
        """Return how many records fit.

        Raises:
            ValueError: If `where` asks for a field that is not indexed.
        """
        await self._check()
        return await self._store.count(COLLECTION[kind], where=where)

    async def delete(self, kind: RecordKind, *ids: str) -> None:
        """Remove records; ids that do not exist are passed over."""
        await self._check()
        await self._store.delete(COLLECTION[kind], ids)

    async def embed(self, texts: Sequence[str]) -> builtins.list[builtins.list[float]]:
        """Return a unit vector per text, by the model that made this memory; each is cached."""
        await self._check()
        vectors = await self._embedder.embed(texts) if texts else []
        await self._check()  # some models tell their dimension only now
        return vectors

    async def keep_calibration(self, calibration: Calibration) -> None:
        """Keep what was measured for the embedding model in use; it holds until the model changes."""
        [vector] = await self.embed(["calibration"])
        await self._claim(len(vector))
        stored = Manifest.from_json(await self._store.read_manifest() or {})
        self._manifest = stored.with_calibration(calibration)
        await self._store.write_manifest(self._manifest.to_json())

    async def _claim(self, dim: int) -> None:
        """Write the manifest of a memory that has none."""
        if self._manifest is None:
            made = Manifest(embedding=self._embedder.name, dim=dim)
            await self._store.write_manifest(made.to_json())
            await self._check()  # on a server another process may have been faster

    async def _check(self) -> None:
        """Check the manifest, once it is there.

        Raises:
            StoreMismatch: If the memory was made with another model or version.
            StoreDamaged: If the manifest cannot be read.
        """
        name, dim = self._embedder.name, self._embedder.dim
        if self._manifest is None or (dim and dim != self._manifest.dim):
            stored = await self._store.read_manifest()
            if stored is not None:
                manifest = Manifest.from_json(stored)
                manifest.check(embedding=name, dim=dim)
                self._manifest = await migrate(self._store, manifest)


def _age(row: Record) -> tuple[str, str]:
    return str(row.payload.get("created_at", "")), row.id
