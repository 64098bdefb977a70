"""Where the owner of a memory folder listens."""

import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

SOCKET_FILE: Final = "owner.sock"
PATH_BYTES: Final = 107
"""The longest path of a socket; the kernel's field has 108 bytes."""
WAITING: Final = 128
"""Connections that the kernel keeps until they are accepted."""


def listen(folder: Path) -> tuple[socket.socket, Path]:
    """Listen in `folder`, or where that cannot be, in a private folder of this user.

    The caller holds the folder's lock: what another owner left at the address is stale. Only a
    socket is replaced; anything else stays, and the next place is tried.

    Returns:
        The listening socket and its path.

    Raises:
        OSError: If there is no place for a socket; says what was tried.
    """
    refused = []
    for place in _places(folder):
        try:
            path = place()
            return _bind(path), path
        except OSError as exc:
            refused.append(str(exc))
    raise OSError("no place for a Unix socket: " + "; ".join(refused))


def withdraw(path: Path) -> None:
    """Remove the socket at `path`; anything else stays.

    Raises:
        OSError: If it cannot be removed.
    """
    try:
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    except FileNotFoundError:
        return


def _places(folder: Path) -> Iterator[Callable[[], Path]]:
    """Return the candidates, best first; each is looked at when it is called."""
    name = f"mem2evolve-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}.sock"
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    temporary = Path(tempfile.gettempdir()) / f"mem2evolve-{os.geteuid()}"
    yield lambda: folder / SOCKET_FILE
    yield lambda: _private(runtime) / name
    yield lambda: _private(temporary, make=True) / name


def _private(folder: Path, *, make: bool = False) -> Path:
    """Return `folder` if nobody else can have put anything into it.

    Raises:
        PermissionError: If it is a link, another user's, or open to others.
        OSError: If it cannot be looked at.
    """
    if make:
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a private folder of this user")
    return folder


def _bind(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > PATH_BYTES:
        raise OSError(f"{path} is longer than {PATH_BYTES} bytes")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        withdraw(path)
        os.fchmod(sock.fileno(), 0o600)  # Linux gives the file the mode of its socket
        sock.bind(str(path))
        sock.listen(WAITING)
    except OSError as exc:
        sock.close()
        raise OSError(f"{path}: {exc.strerror or exc}") from exc
    return sock
