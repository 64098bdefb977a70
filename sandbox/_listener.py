"""Talking with the child of one call: what it is asked, and all that it says."""

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ._answer import HEADER_BYTES, MARKER_BYTES
from .base import Limits

OBEY_S: Final = 1.0
"""For a box to end when told to, before it is killed."""
CHUNK_BYTES: Final = 1 << 16
ENVELOPE_BYTES: Final = 1 << 16
"""What a document may hold besides the value: marker, status, error and traceback."""


@dataclass
class Listener:
    """Reads four streams until the call is over. Only `told` comes from trusted code."""

    control: socket.socket
    kill: Callable[[], None]
    in_box: bool
    result: bytearray = field(default_factory=bytearray)
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    told: bytearray = field(default_factory=bytearray)
    timed_out: bool = False
    flooded: bool = False

    def __post_init__(self) -> None:
        self._deadline, self._attended = 0.0, False
        self._asking, theirs = socket.socketpair()
        pairs = [os.pipe() for _ in range(3)]
        self._open = [pair[0] for pair in pairs]
        for fd in self._open:
            os.set_blocking(fd, False)  # an event loop reads them, after it was told that it can
        self._theirs = [theirs.detach(), *(pair[1] for pair in pairs)]
        sinks = (self.result, self.stdout, self.stderr)
        self._sinks = dict(zip(self._open, sinks, strict=True))
        self._sinks[self.control.fileno()] = self.told
        self._waiting = set(self._sinks)
        self._ready = Ready(self._waiting)

    def fileno(self) -> int:
        """Return a descriptor that is readable when `advance` has something to read."""
        return self._ready.fileno()

    def give(self) -> list[int]:
        """Hand over the ends for the box; the caller closes them."""
        theirs, self._theirs = self._theirs, []
        return theirs

    def ask(self, request: bytes, limits: Limits, marker: str) -> None:
        """Start the call: its time runs from here. Blocks if the request is large."""
        self._marker = marker.encode()
        sizes = (limits.result_bytes, limits.output_bytes, limits.output_bytes)
        self._room = dict(zip(self._open, sizes, strict=True))
        self._room[self._open[0]] += ENVELOPE_BYTES
        self._deadline = time.monotonic() + limits.wall_s
        # With its length, so that the child is woken once and not by a hang-up as well.
        body = len(request).to_bytes(8, "big") + request
        try:
            self._asking.setblocking(False)  # a small one fits at once: no event loop waits for it
            rest = body[self._asking.send(body) :]
            self._asking.settimeout(limits.wall_s)
            if rest:
                self._asking.sendall(rest)
        except OSError:
            self.kill()  # it died under us: `advance` will see the end

    def let_fetch(self, attend: Callable[[socket.socket], None]) -> None:
        """Let what comes back over the request's socket be answered, as long as the call lasts."""
        attend(self._asking)
        self._attended = True

    def listen(self) -> None:
        """Read until the child has ended and its pipes are empty, killing it when time is up."""
        while (left := self.left()) > 0:
            self.advance(left)

    def advance(self, seconds: float = 0.0) -> bool:
        """Read what there is, waiting for it so long. False if there was nothing."""
        found = self._ready.wait(seconds)
        for fd in found:
            data = read_some(fd)
            ours, sink = fd not in self._room, self._sinks[fd]
            room = ENVELOPE_BYTES if ours else self._room[fd]
            sink += data[: max(0, room - len(sink))]
            if sink is self.result and len(sink) >= room:
                self._stop(flooded=True)
            if not data or (ours and sink.endswith(b"\n")):
                self._ready.forget(fd)
                self._waiting.discard(fd)
                if ours and not self.in_box:
                    self.kill()  # leftovers of the tool would keep the pipes open
        return bool(found)

    def left(self) -> float:
        """Seconds until it must end, 0 when it has; at the first deadline the box is killed."""
        if not self._waiting:
            return 0.0
        left = self._deadline - time.monotonic()
        if left > 0:
            return left
        if self.told or self.timed_out or self.flooded:
            return 0.0
        self._stop(flooded=False)
        return OBEY_S

    def has_answer(self) -> bool:
        """Whether a whole document has come, also if the child that wrote it has not ended yet."""
        size = self.result[MARKER_BYTES:HEADER_BYTES]
        if len(size) < HEADER_BYTES - MARKER_BYTES or not size.isdigit():
            return False
        whole = len(self.result) == HEADER_BYTES + int(size)
        return whole and self.result.startswith(self._marker)

    def hurry(self) -> None:
        """Leave no more time than an end takes."""
        self._deadline = min(self._deadline, time.monotonic() + OBEY_S)

    @property
    def exit_code(self) -> int | None:
        """How the child ended, as the zygote saw it; `None` if it has not said so."""
        try:
            return int(json.loads(self.told)["exit"])
        except (ValueError, KeyError):
            return None

    @property
    def dirty(self) -> bool:
        """Whether the zygote found that the call left something behind."""
        try:
            return bool(json.loads(self.told)["dirty"])
        except (ValueError, KeyError):
            return False

    def close(self) -> None:
        """Close our ends, and the others if they were never given away."""
        if self._attended:
            with contextlib.suppress(OSError):
                self._asking.shutdown(socket.SHUT_RDWR)  # whoever attends to it holds a copy
        self._asking.close()
        self._ready.close()
        for fd in (*self._open, *self._theirs):
            os.close(fd)

    def _stop(self, *, flooded: bool) -> None:
        if self.flooded or self.timed_out:
            return
        self.flooded, self.timed_out = flooded, not flooded
        self._deadline = time.monotonic() + OBEY_S
        self.kill()


class Ready:
    """Which of some descriptors can be read: by epoll, which an event loop can wait for, or poll."""

    def __init__(self, fds: Iterable[int]) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._poller = self._epoll or select.poll()
        for fd in fds:
            self._poller.register(fd, select.POLLIN)
        self.forget = self._poller.unregister

    def fileno(self) -> int:
        """Return the epoll's own descriptor; there is none where there is no epoll."""
        return -1 if self._epoll is None else self._epoll.fileno()

    def wait(self, seconds: float) -> list[int]:
        """Return those that can be read within that time."""
        if self._epoll is not None:
            return [fd for fd, _ in self._epoll.poll(seconds)]
        return [fd for fd, _ in self._poller.poll(seconds * 1000)]

    def close(self) -> None:
        """Let go of the epoll."""
        if self._epoll is not None:
            self._epoll.close()


def read_some(fd: int) -> bytes:
    """Read what is there; empty at the end, also where that comes as an error."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except OSError:
        return b""
