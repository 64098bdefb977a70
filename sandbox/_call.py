"""One call, from a fresh box or from one that waits, and the switch that ends it."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..errors import SandboxUnavailable
from ._box import Box, Launch
from ._exchange import Request
from ._shelf import Shelf, key_of
from .base import Outcome
from .packages import Environment

CANCELLED: Final = Outcome(status="killed", error="The call was cancelled.")
LOST: Final = Outcome(status="killed", error="The box ended while the tool was loaded into it.")


@dataclass(kw_only=True, eq=False)
class Call:
    """A request on its way. `run` belongs to one thread; `cancel` comes from any."""

    request: Request
    launch: Callable[[Mapping[str, Path], Path | None], Launch]
    files: Mapping[str, Path] = field(default_factory=dict)
    packages: Environment | None = None
    fresh: bool = True
    """Whether the box serves this call alone."""
    cancelled: bool = False
    _box: Box | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def cancel(self) -> None:
        """Kill the box of this call, now or as soon as there is one. Does not block."""
        with self._lock:
            self.cancelled = True
            if self._box is not None:
                self._box.kill()

    def run(self, shelf: Shelf) -> tuple[Outcome, Box | None]:
        """Make the call. A box that may serve again is returned, any other has ended.

        Raises:
            SandboxUnavailable: If no box starts.
            InputError: If a file cannot be shown.
        """
        key = self.key()
        while box := shelf.take(key) if key else None:
            outcome, kept = self._run_in(box, loaded=True)
            if outcome is not None:
                return outcome, kept
        folder = self.packages.folder if self.packages else None
        box = Box(self.launch(self.files, folder), key)
        outcome, kept = self._run_in(box, loaded=False)
        return outcome or LOST, kept

    def _run_in(self, box: Box, *, loaded: bool) -> tuple[Outcome | None, Box | None]:
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(box.end)
            if not self.hold(box):
                return CANCELLED, None
            outcome = self._use(box, loaded=loaded)
            if self.let_go() and box.key and box.fit:
                cleanup.pop_all()
                return outcome, box
        return outcome, None

    def _use(self, box: Box, *, loaded: bool) -> Outcome | None:
        if not loaded:
            try:
                box.wait_ready()
            except SandboxUnavailable:
                if self.cancelled:
                    return CANCELLED
                raise
            if not box.load(self.request, ahead=not self.fresh):
                return CANCELLED if self.cancelled else LOST
        return box.call(self.request)

    def key(self) -> str:
        """Return what a box must have been made for, empty for a fresh one. Looks at the files."""
        if self.fresh:
            return ""
        mark = (self.packages.mark if self.packages else "") + self.request.plan
        return key_of(self.request.source, self.request.limits, self.files, mark)

    def hold(self, box: Box) -> bool:
        """Make the box one that `cancel` kills. False if it came too late."""
        with self._lock:
            self._box = box
            return not self.cancelled

    def let_go(self) -> bool:
        """Leave the box to others: from here on a cancellation does not touch it."""
        with self._lock:
            self._box = None
            return not self.cancelled
