"""The dual memory as nodes use it: records, and recall over them."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, Self

from ..models.embeddings import Embedder, open_embedder
from ..settings import Settings
from .archive import Archive
from .backends.edge import EdgeStore
from .backends.server import ServerStore
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
from .rows import COLLECTION, KeptKind, candidate, lesson
from .store import MemoryStore

JUDGED: Final = ("success", "failure")
"""Verdicts that count."""
_KNOWN: Final = ("active", "candidate", "quarantined")
"""Lessons of these statuses stand for what says the same: one that did harm does not come back reworded."""
NEAR: Final = 5
"""Lessons about the same situation that a new one is compared with."""
_SPARE: Final = 2
"""So many times more are fetched than shown: merit may lift what similarity put below."""


class Memory(Archive):
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
        made = embedder or open_embedder(settings.embedding)
        return cls(open_store(settings), made, lesson_floor=lesson_floor)

    @property
    def calibration(self) -> Calibration:
        """What similarities mean for the embedding model in use: as measured here, else as shipped.

        What was measured here is known from the first call on.
        """
        kept = self._manifest.calibration if self._manifest else None
        return kept or calibration_of(self._embedder.name)

    async def calibrated(self) -> Calibration:
        """Return `calibration`, also before any other call."""
        await self._check()
        return self.calibration

    async def remember(self, record: ExperienceRecord) -> tuple[str, bool]:
        """Write a lesson unless one says the same.

        The same is said by a lesson of the same namespace, scope and outcome whose card is at least
        `calibration.twin` close, and which it does not contradict. A quarantined one counts too: a lesson
        that did harm does not come back reworded.

        Returns:
            The id of the lesson to link as learned, and whether it is new.
        """
        [vector] = await self.embed([record.card])
        where = {
            "namespace": record.namespace,
            "scope": record.scope,
            "outcome": record.outcome,
            "status": _KNOWN,
        }
        limit = 1 + len(record.contradicts)
        closest = await self._store.search("experiences", vector, where=where, limit=limit)
        others = [hit for hit in closest if hit.id not in record.contradicts]
        if others and others[0].score >= self.calibration.twin:
            return others[0].id, False
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

    async def confirmed(
        self, pairs: Sequence[str], *, namespace: str = "default"
    ) -> dict[str, str]:
        """Return those of the pairs (see `records.fit_id`) that a run confirmed, each with such a run's id."""
        await self._check()
        if not pairs:
            return {}
        where: dict[str, Sequence[str]] = {
            "namespace": [namespace],
            "confirmed": pairs,
            "origin": ["own"],  # what came with a bundle is not believed
        }
        known = await self._store.facet("runs", "confirmed", where=where)
        found: dict[str, str] = {}
        for pair in (one for one in pairs if one in known):
            page, _ = await self._store.scroll(
                "runs", where={**where, "confirmed": [pair]}, limit=1
            )
            if page:
                found[pair] = page[0].id
        return found

    async def near_lessons(
        self, situation: str, *, scope: Literal["agent", "tool"], namespace: str, limit: int = NEAR
    ) -> list[tuple[ExperienceRecord, float]]:
        """Return the lessons about the same situation, at least δ close, closest first; quarantined ones too."""
        [vector] = await self.embed([situation])
        where = {"namespace": namespace, "scope": scope, "status": _KNOWN}
        hits = await self._store.search("experiences", vector, where=where, limit=limit)
        delta = self.calibration.delta
        return [(lesson(hit.id, hit.payload), hit.score) for hit in hits if hit.score >= delta]

    async def opponents(self, record: ExperienceRecord) -> list[ExperienceRecord]:
        """Return the active lessons of its scope and namespace that give the opposite advice, newest first."""
        where = {"namespace": record.namespace, "scope": record.scope, "status": "active"}
        found = {
            one.id: one
            for one in await self.list("experience", {**where, "contradicts": record.id}, None)
        }
        for key in record.contradicts:
            one = await self.get("experience", key)
            if one is not None and all(getattr(one, name) == where[name] for name in where):
                found.setdefault(key, one)
        found.pop(record.id, None)
        return sorted(found.values(), key=lambda one: (one.created_at, one.id), reverse=True)

    async def closeness(self, query: str, records: Sequence[ExperienceRecord]) -> list[float]:
        """Return the cosine similarity of each lesson to a query."""
        asked, *cards = await self.embed([query, *(record.card for record in records)])
        return [sum(a * b for a, b in zip(asked, one, strict=True)) for one in cards]

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
        where: dict[str, Sequence[str]] = {
            "namespace": [namespace],
            "verdict": JUDGED,
            "origin": ["own"],
        }
        if wanted is not None:
            where[used] = sorted(wanted)
        uses = await self._store.facet("runs", used, where=where)
        wins = await self._store.facet("runs", won, where=where)
        return {
            key: Usage(n, min(n, wins.get(key, 0)))
            for key, n in uses.items()
            if wanted is None or key in wanted
        }


def open_store(settings: Settings) -> MemoryStore:
    """Return where the records of `settings` are kept: on the server they name, else in the home's folder."""
    if settings.qdrant_url:
        return ServerStore(url=settings.qdrant_url, api_key=settings.qdrant_api_key)
    return EdgeStore(settings.state_dir / "memory")
