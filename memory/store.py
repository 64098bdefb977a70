"""The one door to long-term memory. Nothing outside `memory/` imports a database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

Collection = Literal["tools", "agents", "experiences", "runs"]
"""Each kind of record has a collection of its own: searching only the right kind finds better."""

COLLECTIONS: Final[tuple[Collection, ...]] = ("tools", "agents", "experiences", "runs")

Where = Mapping[str, str | Sequence[str]]
"""Field → value it must equal, or values of which it must equal one. All must hold.

A field that holds a list matches when any of its items does. Only fields in `INDEXED` can be asked
for.
"""

INDEXED: Final[Mapping[Collection, tuple[str, ...]]] = {
    "tools": ("namespace", "name", "status", "origin", "run_id"),
    "agents": ("namespace", "name", "status", "origin", "run_id"),
    "experiences": ("namespace", "scope", "status", "outcome", "run_id"),
    "runs": (
        "namespace",
        "status",
        "verdict",
        "assets",
        "won",
        "lessons",
        "helped",
        "learned",
        "confirmed",
    ),
}
"""Payload fields with a keyword index, made when the collection is."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One stored record."""

    id: str
    """A UUID in canonical text form."""
    vector: Sequence[float]
    """Embedding of the record's card. The first one written fixes the length for its collection.

    It comes back with unit length, to single precision.
    """
    payload: Mapping[str, Any]
    """JSON values only; they come back exactly as they were, whatever their size."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A record that a search found."""

    id: str
    score: float
    """Cosine similarity to the query, in [-1, 1]. Higher is closer."""
    payload: Mapping[str, Any]


class MemoryStore(Protocol):
    """Keeps records. `tests/memory/store_contract.py` is the full definition.

    Every method may raise `StoreUnavailable` when the store does not answer: nothing was written
    then. Another `StoreError` when it cannot be opened, read or written; `ValueError` for a `where`
    that asks for a field outside `INDEXED`. One store may be used from several event loops, one
    after the other.
    """

    async def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """Write records; one with the same id is replaced.

        When it returns, the records survive the death of the process.

        Raises:
            ValueError: If an id is not a UUID.
            StoreMismatch: If a vector's length is not that of the collection.
        """
        ...

    async def get(self, collection: Collection, ids: Sequence[str]) -> list[Record]:
        """Return those of `ids` that exist, in the order asked for; what is no UUID does not."""
        ...

    async def search(
        self,
        collection: Collection,
        vector: Sequence[float],
        *,
        where: Where | None = None,
        limit: int = 5,
    ) -> list[Hit]:
        """Return at most `limit` records that fit `where`, closest first; empty if none."""
        ...

    async def scroll(
        self,
        collection: Collection,
        *,
        where: Where | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> tuple[list[Record], str | None]:
        """Page through records in a stable order.

        Returns:
            The page, and what to pass as `after` for the next one (`None`: that was the last).
        """
        ...

    async def delete(self, collection: Collection, ids: Sequence[str]) -> None:
        """Remove records; ids that do not exist are passed over."""
        ...

    async def count(self, collection: Collection, *, where: Where | None = None) -> int:
        """Return how many records fit, exactly."""
        ...

    async def facet(
        self, collection: Collection, field: str, *, where: Where | None = None
    ) -> dict[str, int]:
        """Return for each value of an indexed field how many records hold it, exactly."""
        ...

    async def read_manifest(self) -> Mapping[str, Any] | None:
        """Return what `write_manifest` left, `None` for a new store."""
        ...

    async def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Keep what the store was made with (see `memory.manifest`), replacing what was there."""
        ...

    async def close(self) -> None:
        """Flush and let go of the store. Idempotent; any other call opens it anew."""
        ...
