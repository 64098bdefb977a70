"""Async work from callers without an event loop: one loop in the background for all of them."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from functools import cache
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver

from ..errors import ConfigError
from ..nodes.creation.question import CHECKPOINTER
from .savers import InThreads

T = TypeVar("T")
_END: Final = object()


def two_ways(step: Callable[[Any], Awaitable[Any]], name: str) -> RunnableLambda[Any, Any]:
    """Make a node of an async function, with a sync path beside it: `graph.invoke` runs it on the background loop."""

    async def run(state: Any) -> Any:
        return await step(state)

    def run_sync(state: Any) -> Any:
        return in_background(run(state))

    return RunnableLambda(run_sync, run, name=name)


def in_background(work: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine that runs on the background loop, with the caller's context variables.

    Raises:
        ConfigError: If the caller is a coroutine of that loop, which would wait for itself.
    """
    _not_from_there(work)
    future = _start(work)
    try:
        return future.result()
    except BaseException:  # Ctrl-C in the waiting thread ends the work too
        future.cancel()
        raise


def iterate_in_background(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield what an async generator yields on the background loop. Closing this one closes that one first."""
    queue: SimpleQueue[Any] = SimpleQueue()

    async def pump() -> None:
        try:
            async with aclosing(items):
                async for item in items:
                    queue.put(item)
        finally:
            queue.put(_END)

    work = pump()
    _not_from_there(work)
    future = _start(work)
    ended = False
    try:
        while (item := queue.get()) is not _END:
            yield item
        ended = True
        future.result()
    finally:
        future.cancel()
        while not ended and queue.get() is not _END:
            pass


def _start(work: Coroutine[Any, Any, T]) -> "Future[T]":
    # The context variables travel along: the callback is scheduled from this thread.
    return asyncio.run_coroutine_threadsafe(_with_saver(work), _background_loop())


async def _with_saver(work: Awaitable[T]) -> T:
    """Lend sub-graphs the caller's checkpointer in a form that they can await."""
    config = var_child_runnable_config.get()
    saver = (config or {}).get("configurable", {}).get(CHECKPOINTER)
    if config and isinstance(saver, BaseCheckpointSaver) and not isinstance(saver, InThreads):
        configurable = {**config["configurable"], CHECKPOINTER: InThreads(saver)}
        var_child_runnable_config.set({**config, "configurable": configurable})
    return await work


def _not_from_there(work: Coroutine[Any, Any, Any]) -> None:
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is not None and here is _background_loop():
        work.close()
        raise ConfigError(
            "A call that blocks was made from a coroutine that this program runs.",
            hint="Await the async call instead, as in `await agent.run(…)` or `graph.ainvoke(…)`.",
        )


@cache
def _background_loop() -> asyncio.AbstractEventLoop:
    """One loop for all sync calls of the process, so that clients and their connections live on."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="mem2evolve-sync", daemon=True).start()
    return loop
