"""What can be done with an open memory folder, by its owner or through it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..store import COLLECTIONS, Collection, Hit, Record, Where
from .wire import Frame, pack_records, unpack_records, unpack_vector


class Operations(Protocol):
    """The methods of `MemoryStore`, blocking. All are idempotent, so a lost one may be repeated."""

    def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """See `MemoryStore`."""
        ...

    def get(self, collection: Collection, ids: Sequence[str]) -> list[Record]:
        """See `MemoryStore`."""
        ...

    def search(
        self, collection: Collection, vector: Sequence[float], where: Where | None, limit: int
    ) -> list[Hit]:
        """See `MemoryStore`."""
        ...

    def scroll(
        self, collection: Collection, where: Where | None, limit: int, after: str | None
    ) -> tuple[list[Record], str | None]:
        """See `MemoryStore`."""
        ...

    def delete(self, collection: Collection, ids: Sequence[str]) -> None:
        """See `MemoryStore`."""
        ...

    def count(self, collection: Collection, where: Where | None) -> int:
        """See `MemoryStore`."""
        ...

    def facet(self, collection: Collection, field: str, where: Where | None) -> dict[str, int]:
        """See `MemoryStore`."""
        ...

    def read_manifest(self) -> Mapping[str, Any] | None:
        """See `MemoryStore`."""
        ...

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """See `MemoryStore`."""
        ...


def perform(target: Operations, request: Frame) -> Frame:
    """Do what a request of `memory.backends.remote` asks for; return the answer it reads.

    Raises:
        ValueError: If there is no such operation or collection.
        KeyError: If an argument is missing.
    """
    match request.head["do"]:
        case "read_manifest":
            return _answer(target.read_manifest())
        case "write_manifest":
            target.write_manifest(request.head["manifest"])
            return _answer(None)
    collection: Collection = request.head["in"]
    if collection not in COLLECTIONS:
        raise ValueError(f"there is no collection {collection!r}")
    return _perform_in(target, collection, request)


def _perform_in(target: Operations, collection: Collection, request: Frame) -> Frame:
    head = request.head
    match head["do"]:
        case "put":
            target.put(collection, unpack_records(head["rows"], request.numbers))
        case "get":
            return Frame(*_rows(target.get(collection, head["ids"])))
        case "search":
            vector = unpack_vector(request.numbers)
            hits = target.search(collection, vector, head["where"], head["limit"])
            return _answer([[hit.id, hit.score, hit.payload] for hit in hits])
        case "scroll":
            page, after = target.scroll(collection, head["where"], head["limit"], head["after"])
            answer, numbers = _rows(page)
            return Frame({**answer, "after": after}, numbers)
        case "delete":
            target.delete(collection, head["ids"])
        case "count":
            return _answer(target.count(collection, head["where"]))
        case "facet":
            return _answer(target.facet(collection, head["field"], head["where"]))
        case unknown:
            raise ValueError(f"there is no operation {unknown!r}")
    return _answer(None)


def _answer(value: Any) -> Frame:
    return Frame({"value": value})


def _rows(records: Sequence[Record]) -> tuple[dict[str, Any], bytes]:
    rows, numbers = pack_records(records)
    return {"value": rows}, numbers
