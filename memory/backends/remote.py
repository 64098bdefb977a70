"""A memory folder that another process owns, reached through that process."""

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ..store import Collection, Hit, Record, Where
from . import wire
from .operations import Operations
from .wire import Frame, Leaving, Lost

T = TypeVar("T")

SILENCE_SECONDS: Final = 10.0
"""An owner that says nothing for so long, not even that it is still at work, hangs."""


class Refused(Exception):
    """The owner is there but will never serve this process; the text says why."""


class Remote:
    """One connection to the owner. One request at a time; used by one thread.

    Each method may raise what the owner's `Engine` raises, of the same type and with the same text;
    `Lost` when the owner died, hangs or leaves. The request may have been carried out then. It can
    be repeated: every operation is idempotent, and a request whose connection is closed before it
    was begun is never carried out later, so an old write cannot overtake a new one.

    Args:
        path: Where the owner listens.
        patience: Seconds to wait for its greeting.

    Raises:
        Lost: If nobody answers there.
        Refused: If another user or another version of this program does.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._greet(path, patience)
        except BaseException:
            self._sock.close()
            raise

    def run(self, job: Callable[[Operations], T]) -> T:
        """Return what `job` makes of this memory."""
        return job(self)

    def tick(self) -> None:
        """Nothing is waiting here: the owner flushes."""

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """See `Operations`."""
        rows, numbers = wire.pack_records(records)
        self._ask({"do": "put", "in": collection, "rows": rows}, numbers)

    def get(self, collection: Collection, ids: Sequence[str]) -> list[Record]:
        """See `Operations`."""
        return _records(self._ask({"do": "get", "in": collection, "ids": list(ids)}))

    def search(
        self, collection: Collection, vector: Sequence[float], where: Where | None, limit: int
    ) -> list[Hit]:
        """See `Operations`."""
        head = {"do": "search", "in": collection, "where": _plain(where), "limit": limit}
        answer = self._ask(head, wire.pack_vector(vector))
        return [
            Hit(id=key, score=score, payload=payload)
            for key, score, payload in answer.head["value"]
        ]

    def scroll(
        self, collection: Collection, where: Where | None, limit: int, after: str | None
    ) -> tuple[list[Record], str | None]:
        """See `Operations`."""
        head = {"do": "scroll", "in": collection, "where": _plain(where)}
        answer = self._ask({**head, "limit": limit, "after": after})
        return _records(answer), answer.head["after"]

    def delete(self, collection: Collection, ids: Sequence[str]) -> None:
        """See `Operations`."""
        self._ask({"do": "delete", "in": collection, "ids": list(ids)})

    def count(self, collection: Collection, where: Where | None) -> int:
        """See `Operations`."""
        answer = self._ask({"do": "count", "in": collection, "where": _plain(where)})
        return int(answer.head["value"])

    def facet(self, collection: Collection, field: str, where: Where | None) -> dict[str, int]:
        """See `Operations`."""
        head = {"do": "facet", "in": collection, "field": field, "where": _plain(where)}
        found: dict[str, int] = self._ask(head).head["value"]
        return found

    def read_manifest(self) -> Mapping[str, Any] | None:
        """See `Operations`."""
        found: Mapping[str, Any] | None = self._ask({"do": "read_manifest"}).head["value"]
        return found

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """See `Operations`."""
        self._ask({"do": "write_manifest", "manifest": dict(manifest)})

    def _greet(self, path: Path, patience: float) -> None:
        self._sock.settimeout(patience)
        try:
            self._sock.connect(str(path))
            if not wire.same_user(self._sock):
                raise Refused(f"which runs as another user ({wire.peer_uid(self._sock)})")
        except OSError as exc:
            raise Lost(f"{path}: {exc}") from exc
        wire.send(self._sock, Frame({"protocol": wire.PROTOCOL}))
        theirs = wire.receive(self._sock, limit=wire.GREETING_BYTES).head.get("protocol")
        if theirs != wire.PROTOCOL:
            raise Refused(
                "which runs another version of mem2evolve"
                f" (its protocol is {theirs!r}, this one's {wire.PROTOCOL})"
            )
        self._sock.settimeout(SILENCE_SECONDS)

    def _ask(self, head: dict[str, Any], numbers: bytes = b"") -> Frame:
        wire.send(self._sock, Frame(head, numbers))
        while True:
            answer = wire.receive(self._sock)
            if "value" in answer.head:
                return answer
            if "error" in answer.head:
                raise wire.unpack_error(answer.head["error"])
            if "leaving" in answer.head:
                raise Leaving("the owner is leaving")


def _records(answer: Frame) -> list[Record]:
    return wire.unpack_records(answer.head["value"], answer.numbers)


def _plain(where: Where | None) -> dict[str, Any] | None:
    """Return `where` as JSON values."""
    if where is None:
        return None
    return {
        field: value if isinstance(value, str) else list(value) for field, value in where.items()
    }
