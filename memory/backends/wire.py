"""What the processes that share a memory say to each other over a socket.

A frame is a fixed header, JSON text, and raw numbers: the vectors, 64-bit floats in the order of the
records. Nothing is unpickled. Both ends run on one machine, so the machine's own byte order serves.
"""

import builtins
import json
import os
import socket
import struct
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ... import errors
from ...errors import Mem2EvolveError, StoreError
from ..store import Record

PROTOCOL: Final = 2
"""Raised when frames or operations change. The frames of the greeting never do."""
MAX_FRAME_BYTES: Final = 512 * 2**20
"""A longer frame is refused before it is read."""
GREETING_BYTES: Final = 1000
"""Limit of the first frame from each side."""

_HEADER: Final = struct.Struct("=4sIQ")
"""Magic, bytes of JSON, bytes of numbers."""
_MAGIC: Final = b"m2em"
_PIECE: Final = 2**20
_CREDENTIALS: Final = struct.Struct("=iII")
"""As in `struct ucred`: process, user, group."""
_FLOAT_BYTES: Final = 8


class Lost(Exception):
    """The other side is gone, silent, or does not speak this protocol."""


class Leaving(Lost):
    """The owner is about to let the folder go and took no notice of the request."""


class Closed(StoreError):
    """The memory was closed in this process while it was in use."""


class Frame(NamedTuple):
    """One message."""

    head: dict[str, Any]
    numbers: bytes = b""


def send(sock: socket.socket, frame: Frame) -> None:
    """Send a frame whole.

    Raises:
        StoreError: If it is too long; nothing was sent.
        Lost: If the other side is gone or takes nothing.
        TypeError: If the head is not JSON.
    """
    text = json.dumps(frame.head).encode()
    size = len(text) + len(frame.numbers)
    if size > MAX_FRAME_BYTES:
        raise StoreError(
            f"{size >> 20} MiB are too many to share between processes at once"
            f" (at most {MAX_FRAME_BYTES >> 20}).",
            hint="Read or write fewer records in one call.",
        )
    try:
        sock.sendall(_HEADER.pack(_MAGIC, len(text), len(frame.numbers)) + text)
        if frame.numbers:
            sock.sendall(frame.numbers)
    except OSError as exc:
        raise Lost(f"nothing can be sent: {exc}") from exc


def receive(sock: socket.socket, *, limit: int = MAX_FRAME_BYTES) -> Frame:
    """Wait for a frame, as long as the socket's time-out says between two pieces of it.

    Raises:
        Lost: If the other side is gone or silent, or what comes is no frame of at most `limit` bytes.
    """
    try:
        magic, text, numbers = _HEADER.unpack(_exactly(sock, _HEADER.size))
        if magic != _MAGIC or text + numbers > limit:
            raise Lost("what came is no frame of this protocol")
        head = json.loads(_exactly(sock, text))
        if not isinstance(head, dict):
            raise Lost("the frame holds no JSON object")
        return Frame(head, bytes(_exactly(sock, numbers)))
    except (OSError, ValueError, RecursionError) as exc:
        raise Lost(f"nothing can be read: {exc}") from exc


def peer_uid(sock: socket.socket) -> int:
    """Return the user on the other side, as the kernel says."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return int(uid)


def same_user(sock: socket.socket) -> bool:
    """Whether the other side runs as this user."""
    return peer_uid(sock) == os.geteuid()


def pack_vector(vector: Sequence[float]) -> bytes:
    """Return a vector as raw numbers."""
    return array("d", vector).tobytes()


def unpack_vector(numbers: bytes) -> list[float]:
    """Return the vector that `pack_vector` was given.

    Raises:
        ValueError: If these are not whole numbers of 8 bytes.
    """
    return array("d", numbers).tolist()


def pack_records(records: Sequence[Record]) -> tuple[list[list[Any]], bytes]:
    """Return records as JSON rows and raw numbers."""
    rows = [[record.id, len(record.vector), dict(record.payload)] for record in records]
    return rows, b"".join(pack_vector(record.vector) for record in records)


def unpack_records(rows: Sequence[Sequence[Any]], numbers: bytes) -> list[Record]:
    """Return the records that `pack_records` was given.

    Raises:
        ValueError: If the rows do not fit the numbers.
    """
    if sum(size for _, size, _ in rows) * _FLOAT_BYTES != len(numbers):
        raise ValueError("the vectors do not fit their records")
    vector, found, start = unpack_vector(numbers), [], 0
    for key, size, payload in rows:
        found.append(Record(id=key, vector=vector[start : start + size], payload=payload))
        start += size
    return found


def pack_error(exc: BaseException) -> dict[str, Any]:
    """Return an exception as JSON: type, text, hint."""
    return {
        "type": type(exc).__name__,
        "args": [arg if isinstance(arg, str | int | float) else str(arg) for arg in exc.args],
        "hint": getattr(exc, "hint", None),
    }


def unpack_error(packed: Mapping[str, Any]) -> Exception:
    """Return the exception that `pack_error` was given, of the same type where that can be."""
    name, args, hint = packed["type"], packed["args"], packed["hint"]
    text = " ".join(str(arg) for arg in args)
    if isinstance(hint, str):
        kind = getattr(errors, name, StoreError)
        known = isinstance(kind, type) and issubclass(kind, Mem2EvolveError)
        return kind(text, hint=hint) if known else StoreError(text, hint=hint)
    builtin = getattr(builtins, name, None)
    if isinstance(builtin, type) and issubclass(builtin, Exception):
        try:
            return builtin(*args)
        except TypeError:  # a constructor of another shape, as of UnicodeDecodeError
            pass
    return StoreError(
        f"The process that owns the memory failed: {name}: {text}",
        hint="Report this; the memory itself was not harmed.",
    )


def _exactly(sock: socket.socket, size: int) -> bytearray:
    """Read `size` bytes, taking memory only for what has come."""
    found = bytearray()
    while len(found) < size:
        piece = sock.recv(min(size - len(found), _PIECE))
        if not piece:
            raise Lost("the other side is gone")
        found += piece
    return found
