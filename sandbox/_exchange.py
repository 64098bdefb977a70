"""One request and all that comes back, awaited on a thread or on an event loop."""

import asyncio
import json
import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ._listener import Listener
from .base import Limits
from .fetching import Fetcher

MAX_DRAINS: Final = 8
"""Reads of output after an answer; a thread of the tool could print for ever."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What one call asks for."""

    source: str
    function: str
    args: str
    """A JSON object."""
    limits: Limits
    fetcher: Fetcher | None = None
    """What it may fetch; `None` for nothing."""
    plan: str = ""
    """How the box converts arguments and result, a JSON object; empty for not at all."""

    def rlimits(self, *, in_box: bool) -> dict[str, int]:
        """Return what the kernel is to hold the call to."""
        limits = self.limits
        names = {
            "AS": limits.memory_bytes,
            "CPU": limits.cpu_s,
            "FSIZE": limits.file_bytes,
            "NOFILE": limits.open_files,
            "CORE": 0,
        }
        # Outside a box this counts all processes of the user, not those of the tool.
        return names | ({"NPROC": limits.processes} if in_box else {})


@dataclass(frozen=True)
class Exchange:
    """A call between its request and its end."""

    listener: Listener
    request: Request
    marker: str = field(default_factory=partial(secrets.token_hex, 16))
    """Drawn for this call: a document without it was not written by our encoder."""
    started: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Send the request; the time of the call runs from here."""
        limits, fetcher = self.request.limits, self.request.fetcher
        if fetcher is not None:
            self.listener.let_fetch(fetcher.attend)
        body = (
            f'{{"function": {json.dumps(self.request.function)}, "marker": "{self.marker}", '
            f'"result_bytes": {limits.result_bytes}, "fetch": {json.dumps(fetcher is not None)}, '
            f'"args": {self.request.args}}}'
        )
        self.listener.ask(body.encode(), limits, self.marker)

    async def listen_from_loop(self) -> None:
        """Listen without a thread that waits, until the child has ended or a whole answer is there."""
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        timers: list[asyncio.TimerHandle] = []

        def look(*, read: bool) -> None:
            if read:
                self.listener.advance()
            left = self.listener.left()
            if left <= 0 or self.listener.has_answer():
                if not over.done():
                    over.set_result(None)
            elif left > 0 and not read:  # the clock's own look: set it again
                timers.append(loop.call_later(left, partial(look, read=False)))

        loop.add_reader(self.listener.fileno(), partial(look, read=True))
        look(read=False)
        try:
            await over
        finally:
            loop.remove_reader(self.listener.fileno())
            for timer in timers:
                timer.cancel()
        for _ in range(MAX_DRAINS):  # what was printed before the answer was written
            if not self.listener.advance():
                break
