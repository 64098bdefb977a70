"""Boxes that wait for their next call."""

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ._box import Box
from .base import Limits

MAX_IDLE: Final = 8
"""Boxes kept waiting."""
MAX_IDLE_BYTES: Final = 256 << 20
"""Memory of their zygotes together."""


class Shelf:
    """Idle boxes, the least recently used first. A box is on it or in use, never both."""

    def __init__(self, most: int = MAX_IDLE, most_bytes: int = MAX_IDLE_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._boxes: list[Box] = []
        self._dead: list[Box] = []
        self._lock = threading.Lock()
        self._open = True

    def take(self, key: str) -> Box | None:
        """Take a box off that was made for the key and is still well. Does not block."""
        with self._lock:
            for box in [box for box in reversed(self._boxes) if box.key == key]:
                self._boxes.remove(box)
                if box.is_well():
                    return box
                self._dead.append(box)
        return None

    def give(self, box: Box) -> list[Box]:
        """Put a box up; return those that must go for it, which the caller ends."""
        with self._lock:
            if not self._open:
                return [box]
            self._boxes.append(box)
            gone, self._dead = self._dead, []
            while len(self._boxes) > self._most or (
                len(self._boxes) > 1 and sum(b.bytes for b in self._boxes) > self._most_bytes
            ):
                gone.append(self._boxes.pop(0))
            return gone

    def drop(self, box: Box) -> bool:
        """Take off a box that turned out not to be fit. False if someone else has it."""
        with self._lock:
            if box not in self._boxes:
                return False
            self._boxes.remove(box)
            return True

    def close(self) -> None:
        """End all, and take no more."""
        with self._lock:
            self._open = False
            boxes, self._boxes, self._dead = self._boxes + self._dead, [], []
        for box in boxes:
            box.kill()  # all are told before one is waited for
        for box in boxes:
            box.end()

    def __len__(self) -> int:
        return len(self._boxes)


def key_of(source: str, limits: Limits, files: Mapping[str, Path], packages: str = "") -> str:
    """Return the SHA-256 of what a box is made for: source, limits, packages, and the files as they are now.

    A file that has been replaced or written to is another one: the box shows the old.
    """
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass"))
    digest.update(repr((limits, packages)).encode())
    for name, path in sorted(files.items()):
        try:
            seen = path.stat()
        except OSError:  # starting the box will say so
            continue
        marks = (seen.st_dev, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns)
        digest.update(repr((name, str(path), *marks, seen.st_ctime_ns)).encode())
    return digest.hexdigest()
