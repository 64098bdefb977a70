"""The shards of one folder, owned by one thread. See `memory.backends.edge` for the rules."""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...errors import StoreDamaged
from .. import manifest as manifests
from ..store import INDEXED, Collection, Hit, Record, Where
from . import guard
from .faults import damaged, disk_full, translate
from .operations import Operations
from .owner import OwnerLock
from .payload import canonical, conditions, pack, require_uuid, unpack

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard, Filter, Point

T = TypeVar("T")

FLUSH_SECONDS: Final = 2.0
FLUSH_WRITES: Final = 1000
MIN_FREE_BYTES: Final = 64 * 2**20
"""Refuse to write below this. The engine maps its files into memory, and a full disk under a map
kills the process without a word."""
MIN_FREE_TO_OPEN_BYTES: Final = 16 * 2**20
"""Refuse to open a shard below this, for the same reason: opening replays the log."""
SEARCH_THREADS: Final = 2
ALL_VALUES: Final = 2**31
"""Limit of a facet query: every value."""


class Engine:
    """What this process holds open of a folder that it owns. Used by one thread.

    Args:
        folder: The memory's folder.
        lock: Its lock, released by `close`.
    """

    def __init__(self, folder: Path, lock: OwnerLock) -> None:
        self.folder = folder
        self._shards: dict[Collection, EdgeShard] = {}
        self._root: Path | None = None
        self._unflushed = 0
        self._oldest = 0.0
        self._broken: StoreDamaged | None = None
        self._lock = lock

    def run(self, job: Callable[[Operations], T]) -> T:
        """Return what `job` makes of the shards; its errors are this program's own."""
        if self._broken:
            raise self._broken
        try:
            return job(self)
        except BaseException as exc:
            error = translate(exc, self.folder, "use")
            if isinstance(error, StoreDamaged) and not isinstance(exc, Exception):
                self._broken = error  # after a panic the engine's own locks may be poisoned
            if error is exc:
                raise
            raise error from exc

    def tick(self) -> float | None:
        """Flush when it is time to; return the seconds until it will be."""
        if self._unflushed == 0 or self._broken:
            return None
        left = self._oldest + FLUSH_SECONDS - time.monotonic()
        if left > 0 and self._unflushed < FLUSH_WRITES:
            return left
        self._unflushed = 0
        try:
            for shard in self._shards.values():
                shard.flush()
            self._note()
        except BaseException as exc:  # noqa: BLE001 - a panic is no Exception; the next caller is told
            self._broken = damaged(self.folder, str(exc))
        return None

    def close(self) -> None:
        """Flush, close the shards, let the folder go."""
        try:
            self._put_away()
        except BaseException as exc:
            error = translate(exc, self.folder, "write")
            if error is exc:
                raise
            raise error from exc
        finally:
            self._shards.clear()
            self._lock.release()

    def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """Write records in one operation of the log: all or none."""
        from qdrant_edge import Point, UpdateOperation  # noqa: PLC0415 - heavy

        points = {
            key: Point(key, list(record.vector), pack(collection, record.payload))
            for record in records
            for key in [require_uuid(record.id)]
        }
        if points:
            self._check_room(MIN_FREE_BYTES)
            shard = self._shard(collection) or self._create(collection, list(points.values()))
            shard.update(UpdateOperation.upsert_points(list(points.values())))
            self._wrote(len(points))

    def get(self, collection: Collection, ids: Sequence[str]) -> list[Record]:
        """Return records by id, in the order asked for."""
        shard, wanted = self._shard(collection), canonical(ids)
        if shard is None or not wanted:
            return []
        found = {str(point.id): point for point in shard.retrieve(list(wanted), True, True)}
        return [self._record(found[key]) for key in wanted if key in found]

    def search(
        self, collection: Collection, vector: Sequence[float], where: Where | None, limit: int
    ) -> list[Hit]:
        """Return the closest records by an exact scan."""
        from qdrant_edge import Query, SearchParams, SearchRequest  # noqa: PLC0415 - heavy

        where_all = _filter(collection, where)
        shard = self._shard(collection)
        if shard is None or limit < 1:
            return []
        request = SearchRequest(
            query=Query.Nearest(list(vector)),
            limit=limit,
            filter=where_all,
            params=SearchParams(exact=True),
            with_payload=True,
        )
        return [
            Hit(id=str(point.id), score=point.score, payload=self._payload(point))
            for point in shard.search(request)
        ]

    def scroll(
        self, collection: Collection, where: Where | None, limit: int, after: str | None
    ) -> tuple[list[Record], str | None]:
        """Return a page in the order of ids, and where the next one begins."""
        from qdrant_edge import ScrollRequest  # noqa: PLC0415 - heavy

        where_all = _filter(collection, where)
        shard = self._shard(collection)
        if shard is None:
            return [], None
        request = ScrollRequest(
            offset=after, limit=limit, filter=where_all, with_payload=True, with_vector=True
        )
        points, following = shard.scroll(request)
        return [self._record(point) for point in points], str(following) if following else None

    def delete(self, collection: Collection, ids: Sequence[str]) -> None:
        """Remove records by id."""
        from qdrant_edge import UpdateOperation  # noqa: PLC0415 - heavy

        shard, unwanted = self._shard(collection), canonical(ids)
        if shard is not None and unwanted:
            shard.update(UpdateOperation.delete_points(list(unwanted)))
            self._wrote(len(unwanted))

    def count(self, collection: Collection, where: Where | None) -> int:
        """Count records, exactly."""
        from qdrant_edge import CountRequest  # noqa: PLC0415 - heavy

        where_all = _filter(collection, where)
        shard = self._shard(collection)
        return 0 if shard is None else shard.count(CountRequest(exact=True, filter=where_all))

    def facet(self, collection: Collection, field: str, where: Where | None) -> dict[str, int]:
        """Count records by each value of `field`, exactly."""
        from qdrant_edge import FacetRequest  # noqa: PLC0415 - heavy

        conditions(collection, {field: ""})
        where_all = _filter(collection, where)
        shard = self._shard(collection)
        if shard is None:
            return {}
        request = FacetRequest(field, limit=ALL_VALUES, exact=True, filter=where_all)
        return {str(hit.value): hit.count for hit in shard.facet(request).hits}

    def read_manifest(self) -> Mapping[str, Any] | None:
        """Return `manifest.json`, `None` if there is none."""
        return manifests.read_file(self.folder)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace `manifest.json`; what comes next uses the set of vectors that it names."""
        self._check_room(MIN_FREE_BYTES)
        manifests.write_file(self.folder, manifest)
        if self._root not in (None, root_of(self.folder, manifest)):
            self._put_away()

    def _shard(self, collection: Collection) -> "EdgeShard | None":
        """Return the open shard, `None` if nothing was ever written to the collection."""
        from qdrant_edge import EdgeShard  # noqa: PLC0415 - heavy

        root = self._root = self._root or root_of(self.folder, self.read_manifest())
        if collection in self._shards:
            return self._shards[collection]
        path = root / collection
        guard.check_whole(self.folder, path)
        if not path.exists():
            return None
        self._check_room(MIN_FREE_TO_OPEN_BYTES + guard.room_to_open(path))
        shard = self._shards[collection] = EdgeShard.load(str(path))
        _index(shard, collection)
        return shard

    def _create(self, collection: Collection, points: "list[Point]") -> "EdgeShard":
        """Make the shard aside and move it in, so that one half made is never found."""
        from qdrant_edge import Distance, EdgeConfig, EdgeShard, EdgeVectorParams  # noqa: PLC0415 - heavy

        root = root_of(self.folder, self.read_manifest())
        aside = root / f"{collection}.new"
        shutil.rmtree(aside, ignore_errors=True)
        size = len(points[0].vector)
        config = EdgeConfig(
            vectors=EdgeVectorParams(size=size, distance=Distance.Cosine),
            wal_enabled=True,
            max_search_threads=SEARCH_THREADS,
        )
        aside.mkdir(parents=True)
        shard = EdgeShard.create(str(aside), config)
        _index(shard, collection)
        shard.flush()
        shard.close()
        aside.rename(root / collection)
        guard.note(root, {collection: 0})
        made = self._shard(collection)
        assert made is not None  # noqa: S101 - for the type checker: it was just moved there
        return made

    def _put_away(self) -> None:
        """Flush and close the shards; they open again when they are used."""
        for shard in self._shards.values():
            shard.flush()
        self._note()
        while self._shards:
            self._shards.popitem()[1].close()
        self._root = None

    def _note(self) -> None:
        """Note how many records there are, once they are flushed."""
        if self._root is not None and self._shards:
            found = {str(name): _size(shard) for name, shard in self._shards.items()}
            guard.note(self._root, found)

    def _record(self, point: Any) -> Record:
        return Record(id=str(point.id), vector=list(point.vector), payload=self._payload(point))

    def _payload(self, point: Any) -> dict[str, Any]:
        try:
            return unpack(point.payload)
        except ValueError as exc:
            raise damaged(self.folder, f"record {point.id}: {exc}") from exc

    def _check_room(self, needed: int) -> None:
        if shutil.disk_usage(self.folder).free < needed:
            raise disk_full(self.folder)

    def _wrote(self, records: int) -> None:
        if self._unflushed == 0:
            self._oldest = time.monotonic()
        self._unflushed += records


def root_of(folder: Path, manifest: Mapping[str, Any] | None) -> Path:
    """Return where the shards are: in the memory's folder, or in the generation that its manifest names.

    Raises:
        StoreDamaged: If the manifest names none.
    """
    return generation_folder(folder, manifests.generation_of(manifest))


def generation_folder(folder: Path, generation: int) -> Path:
    """Return where the shards of a generation are."""
    return folder / f"generation-{generation}" if generation else folder


def _size(shard: "EdgeShard") -> int:
    from qdrant_edge import CountRequest  # noqa: PLC0415 - heavy

    return shard.count(CountRequest(exact=True))


def _index(shard: "EdgeShard", collection: Collection) -> None:
    """Make the payload indexes that the shard lacks."""
    from qdrant_edge import PayloadSchemaType, UpdateOperation  # noqa: PLC0415 - heavy

    for field in set(INDEXED[collection]) - set(shard.info().payload_schema):
        shard.update(UpdateOperation.create_field_index(field, PayloadSchemaType.Keyword))


def _filter(collection: Collection, where: Where | None) -> "Filter | None":
    from qdrant_edge import FieldCondition, Filter, MatchAny  # noqa: PLC0415 - heavy

    wanted = conditions(collection, where)
    must: list[Any] = [
        FieldCondition(key=field, match=MatchAny(any=values)) for field, values in wanted.items()
    ]
    return Filter(must=must) if must else None
