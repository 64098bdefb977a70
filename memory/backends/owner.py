"""Who holds a memory folder: one process at a time."""

import contextlib
import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from ...errors import StoreBusy
from ..records import now

LOCK_FILE: Final = "owner.lock"


class OwnerLock:
    """Holds `folder` for this process, until `release` or the end of the process.

    The kernel keeps the lock (`flock`), so a killed owner leaves none behind. The file only says
    who it is: pid, command, since when, and where it listens. Blocks: not for an event loop's thread.

    Raises:
        BlockingIOError: If another process holds the folder.
        OSError: If the lock file cannot be made or locked.
    """

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._owner = {"pid": os.getpid(), "command": _command(), "since": now()}
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(self._owner)
        except BaseException:
            os.close(self._fd)
            raise

    def announce(self, **facts: str) -> None:
        """Say more about this owner: `socket`, where it listens, or `alone`, why it does not.

        Raises:
            OSError: If it cannot be written.
        """
        self._write({**self._owner, **facts})

    def release(self) -> None:
        """Let go. The file stays: without it two processes could lock two files of one name."""
        with contextlib.suppress(OSError):  # a full disk must not keep the folder held
            os.ftruncate(self._fd, 0)
        fcntl.flock(self._fd, fcntl.LOCK_UN)  # a forked child may hold a copy of the descriptor
        os.close(self._fd)

    def _write(self, facts: dict[str, Any]) -> None:
        text = json.dumps(facts).encode()
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))


def owner_of(folder: Path) -> dict[str, Any]:
    """Return what the owner of `folder` says of itself; empty if nothing can be read."""
    try:
        owner = json.loads((folder / LOCK_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def busy(folder: Path, why: str) -> StoreBusy:
    """Return the error for a folder whose owner does not serve this process.

    Args:
        folder: The memory's folder.
        why: A relative clause about the owner: "which does not answer".
    """
    owner = owner_of(folder)
    if {"pid", "command", "since"} <= owner.keys():
        who = f"process {owner['pid']} ({owner['command']}) since {owner['since']}"
        stop = f"Stop process {owner['pid']}"
    else:
        who, stop = "another process", "Stop the other process"
    return StoreBusy(
        f"The memory in {folder} is held by {who}, {why}.",
        hint=f"{stop}, set MEM2EVOLVE_HOME to another folder, or share a server (QDRANT_URL).",
    )


def _command() -> str:
    return " ".join(" ".join(sys.orig_argv).split())[:200]
