"""What both back-ends share: a few threads that each run a call, and the boxes between calls."""

import asyncio
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from ._answer import encode_args
from ._box import Box, Launch
from ._call import Call
from ._exchange import Request
from ._plan import plan_of
from ._shelf import Shelf
from .base import Isolation, Limits, Outcome, Packages, Report
from .fetching import Fetcher
from .packages import Environments, NoPackagesError

MAX_CALLS: Final = (os.cpu_count() or 2) + 2
"""At once. More wait for their turn; their time starts when they run."""


SMALL_CHARS: Final = 16 << 10
"""Arguments that fit a socket at once."""
CLOSED: Final = Outcome(status="killed", error="The sandbox was closed.")


@dataclass(eq=False)
class Era:
    """What lives from the first call to `close`.

    A box is started from one of these threads, and they outlive it: bwrap's `--die-with-parent`
    follows the thread, not the process.
    """

    shelf: Shelf = field(default_factory=Shelf)
    running: set[Call] = field(default_factory=set)
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="mem2evolve-box")
    )

    def work(self, call: Call, done: "Future[Outcome]") -> None:
        """Run a call; once its outcome is out, get its box ready for the next. On a thread."""
        if not done.set_running_or_notify_cancel():
            return
        try:
            outcome, box = call.run(self.shelf)
            # On the shelf before the outcome is told: who calls again at once finds it there.
            gone = [] if box is None else self.shelf.give(box)
        except BaseException as exc:  # noqa: BLE001 - it belongs to whoever waits
            done.set_exception(exc)
            return
        done.set_result(outcome)
        self.tidy(box, gone)

    async def ask(self, call: Call) -> Outcome | None:
        """Run a call from the event loop, in a box that waits for it; `None` if there is none.

        It costs no switch of threads, which on a busy machine take longer than the call.
        """
        # Looking at files and sending a large request block: those calls go by a thread.
        slow = call.fresh or call.files or len(call.request.args) > SMALL_CHARS
        box = None if slow else self.shelf.take(call.key())
        if box is None:
            return None
        self.running.add(call)
        try:
            held = call.hold(box)
            outcome = await box.call_from_loop(call.request) if held else None
        except BaseException:
            box.kill()
            await asyncio.wait([asyncio.wrap_future(self.later(box.end))])
            raise
        finally:
            self.running.discard(call)
        if call.let_go() and (outcome is None or box.fit):
            work = partial(self.tidy, box, self.shelf.give(box))
            # Once the caller waits for something else: it should have its outcome first.
            asyncio.get_running_loop().call_soon(self.later, work)
        else:
            await asyncio.wait([asyncio.wrap_future(self.later(box.end))])
        return outcome

    def tidy(self, box: Box | None, gone: list[Box]) -> None:
        """Get a box on the shelf ready for its next call, and end those that had to go for it."""
        if box is not None and box not in gone and not box.get_ready() and self.shelf.drop(box):
            box.end()
        for old in gone:
            old.end()

    def later(self, do: Callable[[], None]) -> "Future[None]":
        """Do something that blocks, on a thread; when they have ended, here."""
        try:
            return self.threads.submit(do)
        except RuntimeError:  # closed meanwhile
            done: Future[None] = Future()
            do()
            done.set_result(None)
            return done

    def end(self, *, wait: bool = True) -> None:
        """End everything, and the threads last; blocks until it is gone."""
        for call in tuple(self.running):
            call.cancel()
        self.shelf.close()
        self.threads.shutdown(wait=wait, cancel_futures=True)


class PooledSandbox(ABC):
    """Calls run on our own threads: no event loop waits for one, and no event loop owns one."""

    isolation: Isolation
    keeps_boxes: ClassVar[bool] = True
    """Whether a box may serve a second call. Only where nothing of the first can survive in it."""

    def __init__(self, environments: Environments | None = None) -> None:
        self._environments = environments or Environments()
        self._era: Era | None = None
        self._starting = threading.Lock()

    async def call(  # noqa: PLR0913 - the last four by name, each with a default
        self,
        source: str,
        function: str,
        args: Mapping[str, Any],
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        files: Mapping[str, Path] | None = None,
        fresh: bool = False,
        fetcher: Fetcher | None = None,
        allowed: Collection[str] = (),
    ) -> Outcome:
        """Load `source` as a module and call `function(**args)` once, in a process of its own.

        Cancelling the awaiting task kills the call's box before the cancellation goes on.

        Args:
            source: A Python module. Compiled and run inside the box only. Packages that its PEP 723 header
                declares are fetched, outside the box, and can be imported.
            function: Name of the function in it.
            args: JSON values, passed by keyword.
            limits: What the call may use.
            files: Host files shown read-only in the box as `/data/NAME`.
            fresh: Start a box for this call alone and end it afterwards.
            fetcher: Answers the function `fetch(url)` that the module then has; without it there is none.
            allowed: Names of packages that this source may declare besides those on the operator's list.

        Returns:
            How the call ended. Never raises for what the code did.

        Raises:
            SandboxUnavailable: If the box could not be started, or packages not be fetched.
            InputError: If one of `files` cannot be shown.
            ValueError: If `args` are not strict JSON.
        """
        plain = encode_args(args)
        try:
            packages = await self._environments.of(source, allowed)
        except NoPackagesError as exc:
            return Outcome(status="no_packages", error=f"{exc}"[:2000], isolation=self.isolation)
        call = Call(
            request=Request(
                source=source,
                function=function,
                args=plain,
                limits=limits,
                fetcher=fetcher,
                plan=plan_of(source, function),
            ),
            launch=self._launch,
            files=dict(files or {}),
            packages=packages,
            fresh=fresh or not self.keeps_boxes,
        )
        era = self._current()
        outcome = await era.ask(call) or await self._on_a_thread(era, call)
        return replace(outcome, isolation=self.isolation)

    async def provide(self, source: str, allowed: Collection[str] = ()) -> Packages:
        """Have the packages ready that a source declares, fetching them if need be.

        Args:
            source: A Python module.
            allowed: Names of packages that this source may declare besides those on the operator's list.

        Raises:
            SandboxUnavailable: If they could not be fetched now.
        """
        return await self._environments.provide(source, allowed)

    async def close(self) -> None:
        """End what is still running, and all boxes. Idempotent; a later call starts anew."""
        with self._starting:
            era, self._era = self._era, None
        if era is not None:
            await asyncio.to_thread(era.end)

    @abstractmethod
    async def probe(self) -> Report:
        """Start a real box, look out from inside, and say what was found."""

    @abstractmethod
    def _launch(self, files: Mapping[str, Path], packages: Path | None) -> Launch:
        """Say how to start a box. Called on a worker thread; may block.

        Raises:
            SandboxUnavailable: If none can be started here.
            InputError: If one of `files` cannot be shown.
        """

    def _current(self) -> Era:
        with self._starting:
            if self._era is None:
                self._era = Era()
                # Forgotten, or the interpreter exits; perhaps on one of the threads themselves.
                weakref.finalize(self, self._era.end, wait=False)
            return self._era

    async def _on_a_thread(self, era: Era, call: Call) -> Outcome:
        done: Future[Outcome] = Future()
        try:
            job = era.threads.submit(era.work, call, done)
        except RuntimeError:
            return CLOSED
        job.add_done_callback(lambda job: done.cancel() if job.cancelled() else None)
        era.running.add(call)
        waiter = asyncio.wrap_future(done)
        try:
            return await asyncio.shield(waiter)
        except asyncio.CancelledError:
            if waiter.cancelled():  # by `close`, before its turn came; nobody cancelled us
                return CLOSED
            call.cancel()
            if not job.cancel():
                await asyncio.wait([waiter])
            raise
        finally:
            era.running.discard(call)
