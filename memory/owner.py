"""Who holds a memory folder: one process at a time."""

import fcntl
import json
import os
import sys
import time
from pathlib import Path
from typing import Final

from ..errors import StoreBusy
from .records import now

LOCK_FILE: Final = "owner.lock"
PATIENCE: Final = 0.5
"""Seconds to wait for a process that is just ending."""


class OwnerLock:
    """Holds `folder` for this process, until `release` or the end of the process.

    The kernel keeps the lock (`flock`), so a killed owner leaves none behind. The file only says
    who it is: pid, command and since when. Blocks: not for an event loop's thread.

    Raises:
        StoreBusy: If another process holds the folder; names it.
        OSError: If the lock file cannot be made or locked.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_FILE
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._fd, path)
            owner = json.dumps({"pid": os.getpid(), "command": _command(), "since": now()})
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, owner.encode(), 0)
        except BaseException:
            os.close(self._fd)
            raise

    def release(self) -> None:
        """Let go. The file stays: without it two processes could lock two files of one name."""
        os.ftruncate(self._fd, 0)
        fcntl.flock(self._fd, fcntl.LOCK_UN)  # a forked child may hold a copy of the descriptor
        os.close(self._fd)


def _lock(fd: int, path: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise _busy(path) from None
            time.sleep(0.05)


def _busy(path: Path) -> StoreBusy:
    try:
        owner = json.loads(path.read_text())
        who = f"process {owner['pid']} ({owner['command']}) since {owner['since']}"
        stop = f"Stop process {owner['pid']}"
    except (OSError, ValueError, KeyError, TypeError):
        who, stop = "another process", "Stop the other process"
    return StoreBusy(
        f"The memory in {path.parent} is held by {who}.",
        hint=f"{stop}, set MEM2EVOLVE_HOME to another folder, or share a server (QDRANT_URL).",
    )


def _command() -> str:
    return " ".join(" ".join(sys.orig_argv).split())[:200]
