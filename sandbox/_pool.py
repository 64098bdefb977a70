"""What both back-ends share: a few threads that each keep one box, and cancelling them."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ._answer import encode_args
from ._box import Call, Launch
from .base import Isolation, Limits, Outcome, Report

MAX_BOXES: Final = (os.cpu_count() or 2) + 2
"""At once. More calls wait for their turn; their time starts when they run."""


class PooledSandbox(ABC):
    """Calls run on our own threads: no event loop waits for one, and no event loop owns one.

    A box is started from the thread that waits for it, and the thread outlives it: bwrap's
    `--die-with-parent` follows the thread, not the process.
    """

    isolation: Isolation

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._running: set[Call] = set()

    async def call(
        self,
        source: str,
        function: str,
        args: Mapping[str, Any],
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        files: Mapping[str, Path] | None = None,
    ) -> Outcome:
        """Load `source` as a module and call `function(**args)` once, in a fresh box.

        Cancelling the awaiting task kills the box before the cancellation goes on.

        Args:
            source: A Python module. Compiled and run inside the box only.
            function: Name of the function in it.
            args: JSON values, passed by keyword.
            limits: What the call may use.
            files: Host files shown read-only in the box as `/data/NAME`.

        Returns:
            How the call ended. Never raises for what the code did.

        Raises:
            SandboxUnavailable: If the box could not be started.
            InputError: If one of `files` cannot be shown.
            ValueError: If `args` are not strict JSON.
        """
        call = Call(source=source, function=function, args=encode_args(args), limits=limits)
        outcome = await self._on_a_thread(call, dict(files or {}))
        return replace(outcome, isolation=self.isolation)

    async def close(self) -> None:
        """End what is still running. Idempotent; a later call starts anew."""
        threads, self._threads = self._threads, None
        if threads is None:
            return
        for call in tuple(self._running):
            call.cancel()
        await asyncio.to_thread(threads.shutdown, cancel_futures=True)

    @abstractmethod
    async def probe(self) -> Report:
        """Start a real box, look out from inside, and say what was found."""

    @abstractmethod
    def _launch(self, files: Mapping[str, Path]) -> Launch:
        """Say how to start a box. Called on a worker thread; may block.

        Raises:
            SandboxUnavailable: If none can be started here.
            InputError: If one of `files` cannot be shown.
        """

    async def _on_a_thread(self, call: Call, files: Mapping[str, Path]) -> Outcome:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_BOXES, thread_name_prefix="mem2evolve-box")
        self._running.add(call)
        job = self._threads.submit(lambda: call.run(self._launch(files)))
        waiter = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(waiter)
        except asyncio.CancelledError:
            if waiter.cancelled():  # by `close`, before its turn came; nobody cancelled us
                return Outcome(status="killed", error="The sandbox was closed.")
            call.cancel()
            if not job.cancel():
                await asyncio.wait([waiter])
            raise
        finally:
            self._running.discard(call)
