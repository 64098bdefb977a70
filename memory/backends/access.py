"""This process's way to one memory folder: as its owner, or through the process that owns it."""

import contextlib
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from ...errors import StoreError, StoreUnavailable
from .engine import Engine
from .faults import translate
from .operations import Operations
from .owner import OwnerLock, busy, owner_of
from .remote import Refused, Remote
from .service import Service
from .wire import Closed, Leaving, Lost
from .worker import Worker

T = TypeVar("T")

PATIENCE_SECONDS: Final = 10.0
"""How long to try to become the owner or to reach it."""
PAUSE_SECONDS: Final = 0.02
"""Between two tries."""
REPEATS: Final = 4
"""How often one request is repeated when its owner dies over it. A request that kills whoever
carries it out must not go round all processes."""


class Access:
    """Runs jobs on one folder, one after the other, in a thread of its own.

    The first job takes the folder's lock, or connects to the process that holds it. When that
    process ends, the job in flight tries again: whoever gets the lock owns the folder from then on
    and serves the others. The lock is the kernel's, so a stale owner cannot be met.

    Args:
        folder: The memory's folder.
        alone: Why it must not be shared, as a clause about its owner; then another process is not waited for, and
            none is served. Empty: it is shared.

    Attributes:
        users: How many stores of this process use it.
    """

    def __init__(self, folder: Path, alone: str = "") -> None:
        self.folder = folder
        self.alone = alone
        self.pid = os.getpid()
        self.users = 0
        self._end: Engine | Remote | None = None
        self._service: Service | None = None
        self._worker = Worker("mem2evolve-memory", tick=self._tick, refuse=self._refuse)

    def submit(self, job: Callable[[Operations], T]) -> Future[T]:
        """Run `job` in the worker thread; its errors are this program's own.

        It may run more than once, as after the death of the owner.
        """
        return self._worker.submit(partial(self._run, job))

    def close(self) -> None:
        """Finish what is queued, flush, let the folder go. Blocks; idempotent."""
        try:
            self._worker.stop(self._leave)
        finally:
            if self._service is not None:
                self._service.finish()

    def abandon(self) -> None:
        """Let go of the folder in a forked child, without touching the files.

        The child has copies of all descriptors, and with them of our lock, of the engine's own and
        of the sockets, which would outlive the parent. The files' are pointed elsewhere, not closed:
        their numbers still belong to the engine.
        """
        below = f"{self.folder}/"
        null = os.open(os.devnull, os.O_RDWR)
        for entry in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(entry.readlink()).startswith(below):
                    os.dup2(null, int(entry.name), inheritable=False)
        os.close(null)
        if self._service is not None:
            self._service.abandon()
        if isinstance(self._end, Remote):
            self._end.close()

    def _run(self, job: Callable[[Operations], T]) -> T:
        left = REPEATS
        while True:
            end = self._end = self._end or self._reach()
            try:
                return end.run(job)
            except Leaving:
                self._hang_up()
                time.sleep(PAUSE_SECONDS)
            except Lost as lost:
                self._hang_up()
                if left == 0:
                    raise StoreUnavailable(
                        f"The owner of the memory in {self.folder} was lost {REPEATS + 1} times over"
                        f" one request ({lost}).",
                        hint="Try again; if it comes back, that request harms the owner: report it.",
                    ) from lost
                left -= 1

    def _reach(self) -> Engine | Remote:
        """Own the folder or connect to its owner.

        Raises:
            StoreBusy: If neither can be done; names the owner.
            StoreError: If the folder cannot be used.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                return self._own(OwnerLock(self.folder))
            except BlockingIOError:
                if self.alone:
                    raise busy(self.folder, "and cannot be shared for this") from None
            except OSError as exc:
                raise translate(exc, self.folder, "open") from exc
            patience = deadline - time.monotonic()
            if patience <= 0:
                raise busy(self.folder, self._why_silent())
            try:
                if found := self._connect(patience):
                    return found
            except Refused as exc:
                raise busy(self.folder, str(exc)) from exc
            time.sleep(PAUSE_SECONDS)

    def _own(self, lock: OwnerLock) -> Engine:
        facts = {"alone": self.alone} if self.alone else self._serve()
        with contextlib.suppress(OSError):
            lock.announce(**facts)
        return Engine(self.folder, lock)

    def _serve(self) -> dict[str, str]:
        try:
            self._service = Service(self.folder, self.submit)
        except OSError as exc:
            return {"alone": str(exc)}  # it can still work alone
        return {"socket": str(self._service.path)}

    def _connect(self, patience: float) -> Remote | None:
        path = owner_of(self.folder).get("socket")
        if not isinstance(path, str):
            return None
        with contextlib.suppress(Lost):
            return Remote(Path(path), patience=patience)
        return None

    def _why_silent(self) -> str:
        alone = owner_of(self.folder).get("alone")
        return f"which cannot serve others ({alone})" if alone else "which does not answer"

    def _hang_up(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end.close()

    def _leave(self) -> None:
        if self._service is not None:
            self._service.shut()
        self._hang_up()

    def _tick(self) -> float | None:
        return self._end.tick() if self._end is not None else None

    def _refuse(self) -> StoreError:
        return Closed(
            f"The memory in {self.folder} was closed while it was in use.",
            hint="Close the memory after the last run has ended.",
        )
