"""What the embedded engine and the server's client report, in this program's own errors."""

import errno
import re
from pathlib import Path
from typing import Final

from ...errors import StoreBusy, StoreDamaged, StoreError, StoreMismatch, StoreUnavailable

_ERRNO: Final = re.compile(r"\(os error (\d+)\)")
_KEY_REFUSED: Final = frozenset({401, 403})
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_SERVER_FAULT: Final = 500
_HOME_HINT: Final = "set MEM2EVOLVE_HOME to another folder"


def translate(exc: BaseException, folder: Path, doing: str) -> BaseException:
    """Return the error to raise for `exc`; what is no fault of the store is returned as it is.

    The engine raises bare `Exception`s, whose text is all there is to go by, and panics that derive
    from `BaseException`.

    Args:
        exc: What was raised.
        folder: The memory's folder.
        doing: What was tried: "open", "read" or "write".
    """
    text = " ".join(str(exc).split())
    if type(exc).__name__ == "PanicException":
        return damaged(folder, f"the engine gave up: {text}")
    if isinstance(exc, OSError):
        return _from_errno(exc.errno or 0, folder, doing, text)
    # What remains is ours, a programming error, or KeyboardInterrupt.
    return _from_text(text, folder, doing) if type(exc) is Exception else exc


def damaged(folder: Path, text: str) -> StoreDamaged:
    """Return the error for files that cannot be read."""
    return StoreDamaged(
        f"The memory in {folder} cannot be read: {text}",
        hint=f"Nothing was changed. Restore it from a backup, or {_HOME_HINT}.",
    )


def disk_full(folder: Path) -> StoreError:
    """Return the error for a disk without room."""
    return StoreError(
        f"The disk that holds {folder} is full; nothing was written.",
        hint=f"Free some space, or {_HOME_HINT}.",
    )


def _from_text(text: str, folder: Path, doing: str) -> StoreError:
    if "Vector dimension error" in text:
        return StoreMismatch(
            f"The memory in {folder} holds vectors of another length ({text}).",
            hint="Set MEM2EVOLVE_EMBEDDING back to the model that made it, or " + _HOME_HINT + ".",
        )
    if "WouldBlock" in text:
        return StoreBusy(
            f"The memory in {folder} is held by a process that left no name.",
            hint=f"Stop it, {_HOME_HINT}, or share a server through QDRANT_URL.",
        )
    if found := _ERRNO.search(text):
        return _from_errno(int(found[1]), folder, doing, text)
    return damaged(folder, text)


def _from_errno(number: int, folder: Path, doing: str, text: str) -> StoreError:
    if number in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(folder)
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreError(
            f"No permission to {doing} the memory in {folder}: {text}",
            hint=f"Make the folder writable for this user, or {_HOME_HINT}.",
        )
    if number in (errno.EEXIST, errno.ENOTDIR):
        return StoreError(
            f"The memory cannot be kept in {folder}: a file is in the way ({text}).",
            hint=f"Move the file, or {_HOME_HINT}.",
        )
    return StoreError(
        f"Could not {doing} the memory in {folder}: {text}",
        hint=f"Check the disk and its mount, or {_HOME_HINT}.",
    )


def translate_server(exc: Exception, server: str) -> Exception:
    """Return the error to raise for `exc`; what is no fault of the server is returned as it is.

    Args:
        exc: What the client raised.
        server: Its URL.
    """
    from qdrant_client.http.exceptions import (  # noqa: PLC0415 - heavy; loaded by now
        ApiException,
        UnexpectedResponse,
    )

    text = " ".join(str(exc).split())[:300]
    if "dimension error" in text or "not aligned" in text:
        return StoreMismatch(
            f"The memory at {server} holds vectors of another length: {text}",
            hint="Set MEM2EVOLVE_EMBEDDING back to the model that made it, or use another server.",
        )
    if isinstance(exc, UnexpectedResponse) and (
        known := _from_status(exc.status_code or 0, text, server)
    ):
        return known
    if isinstance(exc, ApiException):
        return StoreUnavailable(
            f"The Qdrant server at {server} does not answer: {text}",
            hint="Check that it runs and that QDRANT_URL is right, or unset QDRANT_URL to use the"
            " memory of this home.",
        )
    if isinstance(exc, AssertionError | ValueError):  # a reply of another form trips the client
        return StoreError(
            f"What answers at {server} is no Qdrant server: {text or type(exc).__name__}",
            hint="Check the address: it is that of Qdrant's REST interface, often on port 6333.",
        )
    return exc


def _from_status(status: int, text: str, server: str) -> StoreError | None:
    """Return the error for what a server refuses; `None` where it is in trouble itself."""
    if status == _NOT_FOUND and "exist" in text:
        return StoreMismatch(
            f"The memory at {server} was replaced since this program opened it: {text}",
            hint="Start this program again, with the embedding model that the memory has now.",
        )
    if status in _KEY_REFUSED:
        return StoreError(
            f"The Qdrant server at {server} refuses the key (HTTP {status}).",
            hint="Check QDRANT_API_KEY.",
        )
    if status < _SERVER_FAULT and status != _TOO_MANY:
        return StoreError(
            f"The Qdrant server at {server} refuses the request: {text}",
            hint="Check that QDRANT_URL names a Qdrant server, version 1.12 or later.",
        )
    return None
