"""The store on a Qdrant server: many processes, many machines."""

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from ..errors import StoreDamaged
from .faults import translate_server
from .payload import canonical, conditions, pack, require_uuid, unpack
from .store import INDEXED, Collection, Hit, Record, Where

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient
    from qdrant_client.models import Filter

T = TypeVar("T")

PREFIX: Final = "mem2evolve_"
"""Of our collections' names: the server may hold others."""
MANIFEST: Final = "manifest"
"""Collection of a single point, whose payload is the manifest."""
MANIFEST_ID: Final = str(uuid.UUID(int=0))
BATCH: Final = 64
"""Records in one request, which Qdrant limits to 32 MB."""
TIMEOUT_SECONDS: Final = 30
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
        self._url, self._api_key, self._location, self._prefix = url, api_key, location, prefix
        # A client's connections belong to the event loop that opened them.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncQdrantClient] = (
            WeakKeyDictionary()
        )
        self._local: AsyncQdrantClient | None = None
        self._connecting = threading.Lock()
        self._known: set[str] = set()
        """Collections that have been seen on the server."""

    async def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """Write records, `BATCH` at a time; see `MemoryStore`."""
        rows = {require_uuid(record.id): record for record in records}
        points = [(key, row.vector, pack(collection, row.payload)) for key, row in rows.items()]
        if points:
            await self._ensure(collection, len(points[0][1]), INDEXED[collection])
        for at in range(0, len(points), BATCH):
            await self._upsert(collection, points[at : at + BATCH])

    async def get(self, collection: Collection, ids: Sequence[str]) -> list[Record]:
        """Return records by id; see `MemoryStore`."""
        wanted = canonical(ids)
        if not wanted or not await self._exists(collection):
            return []
        points = await self._call(
            lambda client: client.retrieve(
                self._prefix + collection, list(wanted), with_payload=True, with_vectors=True
            )
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
        if limit < 1 or not await self._exists(collection):
            return []

        async def query(client: "AsyncQdrantClient") -> Any:
            from qdrant_client.models import SearchParams  # noqa: PLC0415 - heavy; loaded by now

            return await client.query_points(
                self._prefix + collection,
                query=list(vector),
                query_filter=_filter(wanted),
                # In process it is exact anyhow, and being told so gives a warning.
                search_params=None if self._location else SearchParams(exact=True),
                limit=limit,
                with_payload=True,
            )

        found = await self._call(query)
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
        if not await self._exists(collection):
            return [], None
        points, following = await self._call(
            lambda client: client.scroll(
                self._prefix + collection,
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
        if (unwanted := canonical(ids)) and await self._exists(collection):
            await self._call(
                lambda client: client.delete(self._prefix + collection, list(unwanted), wait=True)
            )

    async def count(self, collection: Collection, *, where: Where | None = None) -> int:
        """Count records; see `MemoryStore`."""
        wanted = conditions(collection, where)
        if not await self._exists(collection):
            return 0
        name = self._prefix + collection
        result = await self._call(
            lambda client: client.count(name, count_filter=_filter(wanted), exact=True)
        )
        return result.count

    async def facet(
        self, collection: Collection, field: str, *, where: Where | None = None
    ) -> dict[str, int]:
        """Count records by value; see `MemoryStore`."""
        conditions(collection, {field: ""})
        wanted = conditions(collection, where)
        if not await self._exists(collection):
            return {}
        result = await self._call(
            lambda client: client.facet(
                self._prefix + collection,
                key=field,
                facet_filter=_filter(wanted),
                limit=ALL_VALUES,
                exact=True,
            )
        )
        return {str(hit.value): hit.count for hit in result.hits}

    async def read_manifest(self) -> Mapping[str, Any] | None:
        """Read the manifest's point; see `MemoryStore`."""
        if not await self._exists(MANIFEST):
            return None
        points = await self._call(
            lambda client: client.retrieve(self._prefix + MANIFEST, [MANIFEST_ID])
        )
        return points[0].payload if points else None

    async def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest's point; see `MemoryStore`."""
        await self._ensure(MANIFEST, 1, ())
        await self._upsert(MANIFEST, [(MANIFEST_ID, [1.0], dict(manifest))])

    async def close(self) -> None:
        """Close this event loop's connections; those of loops that have ended died with them."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        self._clients.clear()
        self._known.clear()
        if client is not None and client is not self._local:
            await client.close()

    async def _upsert(
        self, name: str, points: Sequence[tuple[str, Sequence[float], dict[str, Any]]]
    ) -> None:
        async def upsert(client: "AsyncQdrantClient") -> None:
            from qdrant_client.models import PointStruct  # noqa: PLC0415 - heavy; loaded by now

            rows = [PointStruct(id=key, vector=list(v), payload=load) for key, v, load in points]
            await client.upsert(self._prefix + name, rows, wait=True)

        await self._call(upsert)

    async def _exists(self, name: str) -> bool:
        if name not in self._known:
            if not await self._call(lambda client: client.collection_exists(self._prefix + name)):
                return False
            self._known.add(name)
        return True

    async def _ensure(self, name: str, size: int, indexed: Sequence[str]) -> None:
        """Make the collection and its indexes where missing. Two processes may do so at once."""
        if name in self._known:
            return

        async def make(client: "AsyncQdrantClient") -> None:
            from qdrant_client import models  # noqa: PLC0415 - heavy; loaded by now
            from qdrant_client.http.exceptions import UnexpectedResponse  # noqa: PLC0415 - as above

            full = self._prefix + name
            if not await client.collection_exists(full):
                vectors = models.VectorParams(size=size, distance=models.Distance.COSINE)
                try:
                    await client.create_collection(full, vectors_config=vectors)
                except UnexpectedResponse as exc:
                    if exc.status_code != _CONFLICT:
                        raise
            if self._location is None:  # in process, they have no effect and give a warning
                for field in indexed:
                    await client.create_payload_index(
                        full, field, models.PayloadSchemaType.KEYWORD, wait=True
                    )

        await self._call(make)
        self._known.add(name)

    async def _call(self, ask: "Callable[[AsyncQdrantClient], Awaitable[T]]") -> T:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = await asyncio.to_thread(self._connect, loop)
        try:
            return await ask(client)
        except Exception as exc:
            error = translate_server(exc, self._url or str(self._location))
            if error is exc:
                raise
            raise error from exc

    def _connect(self, loop: asyncio.AbstractEventLoop) -> "AsyncQdrantClient":
        from qdrant_client import AsyncQdrantClient  # noqa: PLC0415 - heavy

        with self._connecting:
            client = self._clients.get(loop) or self._local
            if client is None and self._location is not None:
                client = self._local = AsyncQdrantClient(location=self._location)
            elif client is None:
                # The version check would be one more request, made by the constructor.
                client = AsyncQdrantClient(
                    url=self._url,
                    api_key=self._api_key,
                    timeout=TIMEOUT_SECONDS,
                    check_compatibility=False,
                )
            self._clients[loop] = client
            return client

    def _record(self, point: Any) -> Record:
        return Record(id=str(point.id), vector=list(point.vector), payload=self._payload(point))

    def _payload(self, point: Any) -> dict[str, Any]:
        try:
            return unpack(point.payload)
        except ValueError as exc:
            raise StoreDamaged(
                f"Record {point.id} on {self._url or self._location} cannot be read: {exc}.",
                hint="Remove it, or restore the collection from a snapshot.",
            ) from exc


def _filter(wanted: Mapping[str, list[str]]) -> "Filter | None":
    from qdrant_client import models  # noqa: PLC0415 - heavy; loaded by now

    must: list[Any] = [
        models.FieldCondition(key=field, match=models.MatchAny(any=values))
        for field, values in wanted.items()
    ]
    return models.Filter(must=must) if must else None
