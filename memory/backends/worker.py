"""One thread that owns a thing that must not be shared between threads."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Runs what it is given, one after the other, in a thread of its own.

    Bound to no event loop: a loop waits with `asyncio.wrap_future`. The thread is a daemon, so that
    `atexit` hooks can still use it (an executor's threads are gone by then).

    Args:
        name: Name of the thread.
        tick: Called after each job and when its last answer ran out. Returns the seconds after
            which it wants to be called again, `None` if there is nothing to wait for.
        refuse: Makes the error raised for work that comes after `stop`.
    """

    def __init__(
        self, name: str, *, tick: Callable[[], float | None], refuse: Callable[[], Exception]
    ) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._tick = tick
        self._refuse = refuse
        self._stopped = False
        self._door = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queue `job` and return at once. The result is the job's, or the exception it raised."""
        future: Future[T] = Future()
        with self._door:  # held for a moment only: nothing is queued behind the end
            if not self._stopped:
                self._jobs.put((job, future))
                return future
        future.set_exception(self._refuse())
        return future

    def stop(self, last: Callable[[], None]) -> None:
        """Finish what is queued, run `last` and end the thread. Blocks; idempotent."""
        done: Future[None] = Future()
        with self._door:
            if self._stopped:
                return
            self._stopped = True
            self._jobs.put((last, done))
            self._jobs.put(None)
        self._thread.join()
        done.result()

    def _run(self) -> None:
        wait: float | None = None
        while True:
            try:
                item = self._jobs.get(timeout=wait)
            except queue.Empty:
                wait = self._tick()
                continue
            if item is None:
                return
            job, future = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as exc:  # noqa: BLE001 - the caller's to judge; an engine's panic is no Exception
                    future.set_exception(exc)
            wait = self._tick()
