"""Stays with a client while its call is worked on: reports progress, and stops the work when the client is gone."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import anyio
from mcp.server.context import ServerRequestContext
from starlette.requests import Request

T = TypeVar("T")

BEAT_S: Final = 0.2
"""Between two looks at the client."""
SIGN_S: Final = 2.0
"""A client that hears nothing new is told so often that the work goes on."""
MAX_NEWS_CHARS: Final = 300


class Progress:
    """What a client that asked for progress is told: news in the order they come, else that the work goes on."""

    def __init__(self) -> None:
        self._news: deque[str] = deque(maxlen=200)

    def tell(self, text: str) -> None:
        """Add news; they are sent at the next beat."""
        self._news.append(" ".join(text.split())[:MAX_NEWS_CHARS])

    def take(self) -> list[str]:
        """Return the news since the last time."""
        found = list(self._news)
        self._news.clear()
        return found


async def attend(
    ctx: ServerRequestContext[Any, Any], work: Coroutine[Any, Any, T], progress: Progress
) -> T:
    """Await work while its client is there.

    The work is a task of its own: it is cancelled once, and has ended when this returns.

    Raises:
        CancelledError: If the client cancelled the call or left.
    """
    task = asyncio.ensure_future(work)
    try:
        return await _attend(ctx, task, progress)
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task})


async def _attend(
    ctx: ServerRequestContext[Any, Any], task: "asyncio.Future[T]", progress: Progress
) -> T:
    loop = asyncio.get_running_loop()
    began = last = loop.time()
    step = 0
    while not task.done():
        await asyncio.wait({task}, timeout=BEAT_S)
        if not task.done() and await _gone(ctx):
            raise asyncio.CancelledError
        news = progress.take()
        if not news and loop.time() - last >= SIGN_S:
            news = [f"at work for {loop.time() - began:.0f} s"]
        for text in news:
            step, last = step + 1, loop.time()
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await ctx.session.report_progress(step, message=text)
    return task.result()


async def _gone(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the HTTP request of this call was broken off: nobody could be told the result."""
    return isinstance(ctx.request, Request) and await ctx.request.is_disconnected()
