"""MCP over standard input and output, for a client that starts this program."""

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from io import TextIOWrapper
from typing import Any, Final, cast

import anyio
from mcp.server.stdio import stdio_server

from .server import Front

END_S: Final = 10.0
"""For calls to be stopped and their boxes to end."""
AHEAD: Final = 16
"""Lines read before they are worked on."""

_log = logging.getLogger(__name__)


async def serve_stdio(front: Front, stop: asyncio.Event) -> bool:
    """Serve one client until it closes standard input, or `stop` is set.

    Returns:
        Whether all has ended. If not, the client does not read what was written for it, and the process
        must be left without waiting.
    """
    with _wire() as (incoming, outgoing):
        serving = asyncio.create_task(_serve(front, incoming, outgoing))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        serving.cancel()
        await asyncio.wait({serving}, timeout=END_S)
        if serving.done() and not serving.cancelled() and (exc := serving.exception()):
            raise exc
        return serving.done()


async def _serve(front: Front, incoming: int, outgoing: int) -> None:
    lines = cast("anyio.AsyncFile[str]", _Lines(incoming))
    text = TextIOWrapper(os.fdopen(outgoing, "wb", closefd=False), encoding="utf-8", newline="\n")
    try:
        async with stdio_server(lines, anyio.wrap_file(text)) as (read, write):
            await front.server.run(read, write, front.server.create_initialization_options())
    except* (BrokenPipeError, ConnectionResetError, anyio.BrokenResourceError):
        _log.info("The client has gone.")


class _Lines:
    """Lines of a descriptor, read by a thread that nobody waits for: a read from a silent client never ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(AHEAD)

    async def __aiter__(self) -> AsyncIterator[str]:
        threading.Thread(target=self._read, name="mem2evolve-stdin", daemon=True).start()
        while (line := await self._queue.get()) is not None:
            yield line

    def _read(self) -> None:
        with contextlib.suppress(OSError, RuntimeError, asyncio.CancelledError):  # at the end
            with open(self._fd, encoding="utf-8", errors="replace", closefd=False) as stream:
                for line in stream:
                    self._put(line)
            self._put(None)

    def _put(self, line: str | None) -> None:
        work: Any = self._queue.put(line)
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except BaseException:
            work.close()
            raise


@contextlib.contextmanager
def _wire() -> Iterator[tuple[int, int]]:
    """Keep standard input and output for the protocol: whatever else prints goes to standard error."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield incoming, outgoing
    finally:
        sys.stdout.flush()
        os.dup2(outgoing, 1)
