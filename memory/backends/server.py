"""The store on a Qdrant server: many processes, many machines."""

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...errors import StoreDamaged
from ..manifest import generation_of
from ..store import COLLECTIONS, INDEXED, Collection, Hit, Record, Where
from .clients import Clients
from .payload import canonical, conditions, pack, require_uuid, unpack

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient
    from qdrant_client.models import Filter

PREFIX: Final = "mem2evolve_"
"""Of our collections' names: the server may hold others."""
MANIFEST: Final = "manifest"
"""Collection of a single point, whose payload is the manifest."""
MANIFEST_ID: Final = str(uuid.UUID(int=0))
BATCH: Final = 64
"""Records in one request, which Qdrant limits to 32 MB."""
ALL_VALUES: Final = 1_000_000
"""Limit of a facet query."""
_CONFLICT: Final = 409


class ServerStore:
    """A `MemoryStore` on a Qdrant server. Connects at the first call.

    Args:
        url: Of the server.
        api_key: If it asks for one.
        location: `:memory:` for a store in this process that dies with it, instead of `url`.
        prefix: Of the collections' names.

    Raises:
        StoreUnavailable: (from any method, as the rest) If the server does not answer.
        StoreMismatch: If a vector's length is not that of the collection.
        StoreError: If the server refuses the key or the request.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        location: str | None = None,
        prefix: str = PREFIX,
    ) -> None:
        self._server = Clients(url=url, api_key=api_key, location=location)
        self._prefix = prefix
        self._generation: int | None = None
        """Which set of vectors is in use; read with the first call."""
        self._ready: set[str] = set()
        """Full names of collections that have been seen, and have their indexes."""

    async def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """Write records, `BATCH` at a time; see `MemoryStore`."""
        rows = {require_uuid(record.id): record for record in records}
        points = [(key, row.vector, pack(collection, row.payload)) for key, row in rows.items()]
        if not points:
            return
        name = await self._name(collection)
        await self._ensure(name, len(points[0][1]), INDEXED[collection])
        for at in range(0, len(points), BATCH):
            await self._upsert(name, points[at : at + BATCH])

    async def get(self, collection: Collection, ids: Sequence[str]) -> list[Record]:
        """Return records by id; see `MemoryStore`."""
        wanted = canonical(ids)
        name = await self._name(collection)
        if not wanted or not await self._exists(name, INDEXED[collection]):
            return []
        points = await self._server.call(
            lambda client: client.retrieve(name, list(wanted), with_payload=True, with_vectors=True)
        )
        found = {str(point.id): point for point in points}
        return [self._record(found[key]) for key in wanted if key in found]

    async def search(
        self,
        collection: Collection,
        vector: Sequence[float],
        *,
        where: Where | None = None,
        limit: int = 5,
    ) -> list[Hit]:
        """Return the closest records; see `MemoryStore`. Exact, not approximate."""
        wanted = conditions(collection, where)
        name = await self._name(collection)
        if limit < 1 or not await self._exists(name, INDEXED[collection]):
            return []

        async def query(client: "AsyncQdrantClient") -> Any:
            from qdrant_client.models import SearchParams  # noqa: PLC0415 - heavy; loaded by now

            return await client.query_points(
                name,
                query=list(vector),
                query_filter=_filter(wanted),
                # In process it is exact anyhow, and being told so gives a warning.
                search_params=None if self._server.in_process else SearchParams(exact=True),
                limit=limit,
                with_payload=True,
            )

        found = await self._server.call(query)
        return [
            Hit(id=str(point.id), score=point.score, payload=self._payload(point))
            for point in found.points
        ]

    async def scroll(
        self,
        collection: Collection,
        *,
        where: Where | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> tuple[list[Record], str | None]:
        """Page through records in the order of their ids; see `MemoryStore`."""
        wanted = conditions(collection, where)
        name = await self._name(collection)
        if not await self._exists(name, INDEXED[collection]):
            return [], None
        points, following = await self._server.call(
            lambda client: client.scroll(
                name,
                scroll_filter=_filter(wanted),
                limit=limit,
                offset=after,
                with_payload=True,
                with_vectors=True,
            )
        )
        return [self._record(point) for point in points], str(following) if following else None

    async def delete(self, collection: Collection, ids: Sequence[str]) -> None:
        """Remove records; see `MemoryStore`."""
        name = await self._name(collection)
        if (unwanted := canonical(ids)) and await self._exists(name, INDEXED[collection]):
            await self._server.call(lambda client: client.delete(name, list(unwanted), wait=True))

    async def count(self, collection: Collection, *, where: Where | None = None) -> int:
        """Count records; see `MemoryStore`."""
        wanted = conditions(collection, where)
        name = await self._name(collection)
        if not await self._exists(name, INDEXED[collection]):
            return 0
        result = await self._server.call(
            lambda client: client.count(name, count_filter=_filter(wanted), exact=True)
        )
        return result.count

    async def facet(
        self, collection: Collection, field: str, *, where: Where | None = None
    ) -> dict[str, int]:
        """Count records by value; see `MemoryStore`."""
        conditions(collection, {field: ""})
        wanted = conditions(collection, where)
        name = await self._name(collection)
        if not await self._exists(name, INDEXED[collection]):
            return {}
        result = await self._server.call(
            lambda client: client.facet(
                name,
                key=field,
                facet_filter=_filter(wanted),
                limit=ALL_VALUES,
                exact=True,
            )
        )
        return {str(hit.value): hit.count for hit in result.hits}

    async def read_manifest(self) -> Mapping[str, Any] | None:
        """Read the manifest's point; see `MemoryStore`."""
        name = self._prefix + MANIFEST
        if not await self._exists(name, ()):
            return None
        points = await self._server.call(lambda client: client.retrieve(name, [MANIFEST_ID]))
        return points[0].payload if points else None

    async def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest's point; what comes next uses the set of vectors that it names."""
        name = self._prefix + MANIFEST
        await self._ensure(name, 1, ())
        await self._upsert(name, [(MANIFEST_ID, [1.0], dict(manifest))])
        self._generation = generation_of(manifest)

    async def close(self) -> None:
        """Close this event loop's connections; those of loops that have ended died with them."""
        self._ready.clear()
        self._generation = None
        await self._server.close()

    def beside(self, generation: int) -> "ServerStore":
        """Return a store for the vectors of another generation, which no manifest names yet."""
        other = ServerStore(prefix=self._prefix + _mark(generation))
        other._server = self._server
        return other

    async def drop(self, generation: int) -> None:
        """Remove a generation that is not in use; one that is not there is passed over."""
        kinds = (*COLLECTIONS, MANIFEST) if generation else COLLECTIONS
        for name in (self._prefix + _mark(generation) + kind for kind in kinds):
            self._ready.discard(name)
            if await self._server.has(name):
                await self._server.remove(name)

    async def _name(self, collection: Collection) -> str:
        """Return the name on the server: that of the generation which the manifest names."""
        if self._generation is None:
            self._generation = generation_of(await self.read_manifest())
        return self._prefix + _mark(self._generation) + collection

    async def _upsert(
        self, name: str, points: Sequence[tuple[str, Sequence[float], dict[str, Any]]]
    ) -> None:
        async def upsert(client: "AsyncQdrantClient") -> None:
            from qdrant_client.models import PointStruct  # noqa: PLC0415 - heavy; loaded by now

            rows = [PointStruct(id=key, vector=list(v), payload=load) for key, v, load in points]
            await client.upsert(name, rows, wait=True)

        await self._server.call(upsert)

    async def _exists(self, name: str, indexed: Sequence[str]) -> bool:
        """Whether the collection is there; an index that it lacks is made."""
        if name not in self._ready:
            if not await self._server.has(name):
                return False
            await self._index(name, indexed)
        return True

    async def _ensure(self, name: str, size: int, indexed: Sequence[str]) -> None:
        """Make the collection and its indexes where missing. Two processes may do so at once."""
        if await self._exists(name, indexed):
            return

        async def make(client: "AsyncQdrantClient") -> None:
            from qdrant_client import models  # noqa: PLC0415 - heavy; loaded by now
            from qdrant_client.http.exceptions import UnexpectedResponse  # noqa: PLC0415 - as above

            vectors = models.VectorParams(size=size, distance=models.Distance.COSINE)
            try:
                await client.create_collection(name, vectors_config=vectors)
            except UnexpectedResponse as exc:
                if exc.status_code != _CONFLICT:
                    raise

        await self._server.call(make)
        await self._index(name, indexed)

    async def _index(self, name: str, indexed: Sequence[str]) -> None:
        async def make(client: "AsyncQdrantClient") -> None:
            from qdrant_client import models  # noqa: PLC0415 - heavy; loaded by now

            present = (await client.get_collection(name)).payload_schema
            for field in [field for field in indexed if field not in present]:
                await client.create_payload_index(
                    name, field, models.PayloadSchemaType.KEYWORD, wait=True
                )

        if indexed and not self._server.in_process:  # there, they have no effect and give a warning
            await self._server.call(make)
        self._ready.add(name)

    def _record(self, point: Any) -> Record:
        return Record(id=str(point.id), vector=list(point.vector), payload=self._payload(point))

    def _payload(self, point: Any) -> dict[str, Any]:
        try:
            return unpack(point.payload)
        except ValueError as exc:
            raise StoreDamaged(
                f"Record {point.id} on {self._server.name} cannot be read: {exc}.",
                hint="Remove it, or restore the collection from a snapshot.",
            ) from exc


def _mark(generation: int) -> str:
    return f"g{generation}_" if generation else ""


def _filter(wanted: Mapping[str, list[str]]) -> "Filter | None":
    from qdrant_client import models  # noqa: PLC0415 - heavy; loaded by now

    must: list[Any] = [
        models.FieldCondition(key=field, match=models.MatchAny(any=values))
        for field, values in wanted.items()
    ]
    return models.Filter(must=must) if must else None
