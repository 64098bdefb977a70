"""Talking with the child of one call: what it is asked, and all that it says."""

import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

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
        self._deadline = 0.0
        self._asking, theirs = socket.socketpair()
        pairs = [os.pipe() for _ in range(3)]
        self._open = {pair[0]: pair[0] for pair in pairs}
        self._sinks = dict(zip(self._open, (self.result, self.stdout, self.stderr), strict=True))
        self._theirs = [theirs.detach(), *(pair[1] for pair in pairs)]

    def give(self) -> list[int]:
        """Hand over the ends for the box; the caller closes them."""
        theirs, self._theirs = self._theirs, []
        return theirs

    def ask(self, request: bytes, limits: Limits) -> None:
        """Start the call: its time runs from here."""
        self._deadline = time.monotonic() + limits.wall_s
        self._asking.settimeout(limits.wall_s)
        try:
            self._asking.sendall(request)
        except OSError:
            self.kill()  # it died under us: `listen` will see the end
        self._asking.close()

    def listen(self, limits: Limits) -> None:
        """Read until the child has ended and its pipes are empty, killing it when time is up."""
        caps = dict(
            zip(
                self._sinks,
                (limits.result_bytes + ENVELOPE_BYTES, limits.output_bytes, limits.output_bytes),
                strict=True,
            )
        )
        control = self.control.fileno()
        poller, waiting = select.poll(), {*self._sinks, control}
        for fd in waiting:
            poller.register(fd, select.POLLIN)
        while waiting and (left := self._left()) > 0:
            for fd, _ in poller.poll(max(1, int(left * 1000))):
                data = read_some(fd)
                sink = self.told if fd == control else self._sinks[fd]
                room = ENVELOPE_BYTES if fd == control else caps[fd]
                sink += data[: max(0, room - len(sink))]
                if fd != control and sink is self.result and len(sink) >= room:
                    self._stop(flooded=True)
                if not data or (fd == control and sink.endswith(b"\n")):
                    poller.unregister(fd)
                    waiting.discard(fd)
                    if fd == control and not self.in_box:
                        self.kill()  # leftovers of the tool would keep the pipes open

    def close(self) -> None:
        """Close our ends, and the others if they were never given away."""
        self._asking.close()
        for fd in (*self._open, *self._theirs):
            os.close(fd)

    def _left(self) -> float:
        """Seconds until this must end; at the first deadline the box is killed."""
        left = self._deadline - time.monotonic()
        if left > 0:
            return left
        if self.told or self.timed_out or self.flooded:
            return 0.0
        self._stop(flooded=False)
        return OBEY_S

    def _stop(self, *, flooded: bool) -> None:
        if self.flooded or self.timed_out:
            return
        self.flooded, self.timed_out = flooded, not flooded
        self._deadline = time.monotonic() + OBEY_S
        self.kill()


def read_some(fd: int) -> bytes:
    """Read what is there; empty at the end, also where that comes as an error."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except OSError:
        return b""
