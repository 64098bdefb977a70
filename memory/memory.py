"""The dual memory as nodes use it: records, and recall over them."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, Literal, Self

from ..models.embeddings import Embedder, open_embedder
from ..settings import Settings
from .bank import Bank
from .edge import EdgeStore
from .manifest import Manifest
from .recall import (
    CANDIDATES,
    LESSON_FLOOR,
    Calibration,
    Candidate,
    Need,
    Usage,
    calibration_of,
    rank,
    rank_lessons,
)
from .records import RECRUITABLE, ExperienceRecord
from .rows import COLLECTION, AnyRecord, KeptKind, RecordKind, candidate, lesson, parse
from .server import ServerStore
from .store import MemoryStore, Where

_JUDGED: Final = ("success", "failure")
_SPARE: Final = 2
"""So many times more are fetched than shown: merit may lift what similarity put below."""
_PAGE: Final = 64
"""Records read at once when all are gone through."""


class Memory(Bank):
    """Assets, lessons and runs, with recall over them.

    Nothing is opened or loaded before the first call. May be used from several event loops, one
    after the other. Use it as an async context manager, or `close` it.

    Every method may raise `StoreError` (see `memory.store`); `StoreMismatch` if the memory was made
    with another embedding model; those that embed a text, the errors of `Embedder.embed`.

    Args:
        store: Where records are kept.
        embedder: Makes the vectors of cards and queries.
        lesson_floor: Cosine similarity below which a lesson is not shown at all.
    """

    def __init__(
        self, store: MemoryStore, embedder: Embedder, *, lesson_floor: float = LESSON_FLOOR
    ) -> None:
        super().__init__(store, embedder)
        self._lesson_floor = lesson_floor

    @classmethod
    def open(
        cls,
        settings: Settings,
        embedder: Embedder | None = None,
        *,
        lesson_floor: float = LESSON_FLOOR,
    ) -> Self:
        """Return the memory of `settings`: on the server they name, else in the home's folder.

        Raises:
            ConfigError: If the embedding model's name is malformed.
        """
        store: MemoryStore
        if settings.qdrant_url:
            store = ServerStore(url=settings.qdrant_url, api_key=settings.qdrant_api_key)
        else:
            store = EdgeStore(settings.state_dir / "memory")
        return cls(store, embedder or open_embedder(settings.embedding), lesson_floor=lesson_floor)

    @property
    def calibration(self) -> Calibration:
        """What similarities mean for the embedding model in use."""
        return calibration_of(self._embedder.name)

    @property
    def embedding(self) -> str:
        """Fingerprint of the embedding model in use."""
        return self._embedder.name

    async def remember(self, record: ExperienceRecord) -> tuple[str, bool]:
        """Write a lesson unless one says the same.

        The same is said by a lesson of the same namespace, scope and outcome whose card is at least
        `calibration.twin` close. A quarantined one counts too: a lesson that did harm does not come back
        reworded.

        Returns:
            The id of the lesson to link as learned, and whether it is new.
        """
        [vector] = await self.embed([record.card])
        where = {
            "namespace": record.namespace,
            "scope": record.scope,
            "outcome": record.outcome,
            "status": ("active", "candidate", "quarantined"),
        }
        closest = await self._store.search("experiences", vector, where=where, limit=1)
        if closest and closest[0].score >= self.calibration.twin:
            return closest[0].id, False
        await self.put(record)
        return record.id, True

    async def recall_assets(
        self, needs: Sequence[Need], *, namespace: str = "default", limit: int = CANDIDATES
    ) -> list[list[Candidate]]:
        """Return for each need the assets of its kind that are closest, best first.

        All needs are embedded in one batch. Only what may be recruited is found, whatever its
        similarity: compare `Candidate.score` with `calibration`.
        """
        vectors = await self.embed([need.card for need in needs])
        if not needs:
            return []
        where = {"namespace": namespace, "status": RECRUITABLE}
        hits = [
            await self._store.search(
                COLLECTION[need.kind], vector, where=where, limit=limit * _SPARE
            )
            for need, vector in zip(needs, vectors, strict=True)
        ]
        ids = {hit.id for found in hits for hit in found}
        usage = await self.usage("tool", namespace=namespace, ids=ids)
        return [
            rank(candidate(need.kind, hit, usage.get(hit.id)) for hit in found)[:limit]
            for need, found in zip(needs, hits, strict=True)
        ]

    async def recall_lessons(
        self,
        query: str,
        *,
        scope: Literal["agent", "tool"],
        k: int,
        namespace: str = "default",
    ) -> list[tuple[ExperienceRecord, float]]:
        """Return at most `k` active lessons with their cosine similarity, best first.

        None closer than the lesson floor gives none: a lesson about something else distracts.
        Among equally close ones, those that helped before come first.
        """
        [vector] = await self.embed([query])
        hits = await self._store.search(
            "experiences",
            vector,
            where={"namespace": namespace, "scope": scope, "status": "active"},
            limit=max(k, 1) * _SPARE,
        )
        close = [hit for hit in hits if hit.score >= self._lesson_floor]
        if not close:
            return []
        usage = await self.usage("experience", namespace=namespace, ids=[hit.id for hit in close])
        ranked = rank_lessons([(hit.id, hit.score) for hit in close], usage)[:k]
        found = {hit.id: hit.payload for hit in close}
        return [(lesson(key, found[key]), score) for key, score in ranked]

    async def usage(
        self, kind: KeptKind, *, namespace: str = "default", ids: Iterable[str] | None = None
    ) -> dict[str, Usage]:
        """Count uses and wins over the runs with a verdict; what was never used is absent.

        Runs that came with a bundle do not count.

        Args:
            kind: Tools and agents are counted together, as `assets` of a run.
            namespace: Of the runs.
            ids: Count these only, which is faster; `None` for all.
        """
        await self._check()
        used, won = ("lessons", "helped") if kind == "experience" else ("assets", "won")
        wanted = None if ids is None else set(ids)
        where: dict[str, Sequence[str]] = {"namespace": [namespace], "verdict": _JUDGED}
        if wanted is not None:
            where[used] = sorted(wanted)
        uses = await self._counted(used, where)
        wins = await self._counted(won, where)
        return {
            key: Usage(n, min(n, wins.get(key, 0)))
            for key, n in uses.items()
            if n > 0 and (wanted is None or key in wanted)
        }

    async def _counted(self, field: str, where: Where) -> dict[str, int]:
        """Count runs by a field, less those that were imported: older runs do not say that they are own."""
        found = await self._store.facet("runs", field, where=where)
        imported = {"origin": "imported", **where}
        if found and await self._store.count("runs", where=imported):
            foreign = await self._store.facet("runs", field, where=imported)
            found = {key: n - foreign.get(key, 0) for key, n in found.items()}
        return found

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
        await self._check()
        after: str | None = None
        while True:
            rows, after = await self._store.scroll(
                COLLECTION[kind], where=where, limit=_PAGE, after=after
            )
            yield [parse(kind, row.id, row.payload) for row in rows]
            if after is None:
                return

    async def get_many(self, kind: RecordKind, ids: Sequence[str]) -> dict[str, AnyRecord]:
        """Return those records of `ids` that exist, by id."""
        await self._check()
        rows = await self._store.get(COLLECTION[kind], ids)
        return {row.id: parse(kind, row.id, row.payload) for row in rows}
