"""One box: a process that is started, loaded, asked, and killed. Everything here blocks."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ..errors import SandboxUnavailable
from ._answer import clean, read_document
from ._exchange import Exchange, Request
from ._listener import OBEY_S, Listener, read_some
from .base import Outcome, Status

START_S: Final = 30.0
"""A box takes a tenth of a second to start; on an overloaded machine much longer."""
GRACE_S: Final = 5.0
"""For the kernel to end a killed box and close its pipes."""
CHUNK_BYTES: Final = 1 << 16
TOLD_CHARS: Final = 2_000
ORDINARY: Final[frozenset[Status]] = frozenset({"ok", "raised", "no_function"})
"""After these a box may serve another call. What else happens to one is reason to doubt it."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start one box. `descriptors` belong to it and are closed once it runs."""

    command: tuple[str, ...]
    descriptors: tuple[int, ...] = ()
    bpf: bytes = b""
    """The filter that the children of this box install on themselves."""
    packages: str = ""
    """Where the box finds the packages of its tool; empty for none."""
    explain: Callable[[str], SandboxUnavailable]
    """Turns what a box said on stderr before it was ready into an error for the operator."""
    own_group: bool = False
    """Whether the process and its children must be killed as a group: there is no box."""


class Box:
    """A running box. The control socket is ours; what comes over it is from trusted code."""

    def __init__(self, launch: Launch, key: str = "") -> None:
        self.key = key
        """What it was made for; only the same may be run in it again."""
        self.bytes = 0
        """Memory of its zygote, once loaded."""
        self.fit = True
        """Whether all calls so far left nothing behind and did nothing odd."""
        self.in_box = not launch.own_group
        self._launch = launch
        self._next: Listener | None = None
        self._pending: Exchange | None = None
        """A call whose child has not been seen to its end."""
        self._lock = threading.Lock()
        self.control, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                [part.replace("{control}", str(theirs.fileno())) for part in launch.command],
                pass_fds=(theirs.fileno(), *launch.descriptors),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                env={},
                start_new_session=launch.own_group,
            )
        except OSError as exc:
            self.control.close()
            raise launch.explain(str(exc)) from exc
        finally:
            theirs.close()
            for fd in launch.descriptors:
                os.close(fd)

    @property
    def pid(self) -> int:
        """The process that this program started: bwrap's own, outside the box."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Wait for the first line of the zygote.

        Raises:
            SandboxUnavailable: If the box ended or stayed silent instead.
        """
        try:
            said = self._hear(START_S)
        except TimeoutError:
            self.kill()
            raise self._launch.explain(f"It was not ready after {START_S:.0f} s.") from None
        if not said:
            self.kill()
            raise self._launch.explain(self._read_stderr())

    def load(self, request: Request, *, ahead: bool) -> bool:
        """Give the zygote its tool and the limits of its calls. False if it did not survive that.

        Args:
            request: A call like those that will come.
            ahead: Compile it and import its imports now, since many calls will come.
        """
        body = {
            "source": request.source,
            "limits": request.rlimits(in_box=self.in_box),
            "ahead": ahead,
            "filter": self._launch.bpf.hex(),
            "packages": self._launch.packages,
            "plan": request.plan,
        }
        try:
            self._send(b"L", json.dumps(body).encode(), [])
            self.bytes = int(json.loads(self._hear(START_S))["bytes"])
        except (OSError, ValueError):  # `TimeoutError` is an `OSError`
            self.kill()
            return False
        return True

    def get_ready(self) -> bool:
        """See the last call to its end and have the next child forked. False if it is not fit.

        Nothing to do if someone is at it or a call is running.
        """
        if not self._lock.acquire(blocking=False):
            return True
        try:
            return self._settle() and self._fork_ahead()
        finally:
            self._lock.release()

    def call(self, request: Request) -> Outcome | None:
        """Ask, read until the call has ended, and say how; `None` if the box is not fit for it."""
        with self._lock:
            if not (self._settle() and self._fork_ahead()):
                return None
            exchange = self._pending = self._begin(request)
            exchange.listener.listen()
            outcome = self._finish(exchange)
            self._settle()
            return outcome

    async def call_from_loop(self, request: Request) -> Outcome | None:
        """Do what `call` does without a thread; `None` if the box is not ready this instant.

        It is over when a whole answer has come; how the child ends is seen by `get_ready`.
        Cancelling it leaves the box in the middle of the call, to be ended.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._next is None:
                return None
            exchange = self._pending = self._begin(request)
            await exchange.listen_from_loop()
            return self._finish(exchange)
        finally:
            self._lock.release()

    def _begin(self, request: Request) -> Exchange:
        listener, self._next, self.fit = self._next, None, False
        if listener is None:
            raise RuntimeError("no child was forked")
        exchange = Exchange(listener, request)
        exchange.begin()
        return exchange

    def _finish(self, exchange: Exchange) -> Outcome:
        listener = exchange.listener
        outcome = self._judge(exchange)
        self.fit = outcome.status in ORDINARY and not listener.dirty
        return replace(
            outcome,
            stdout=_shown(listener.stdout),
            stderr=_shown(listener.stderr),
            seconds=time.monotonic() - exchange.started,
        )

    def _settle(self) -> bool:
        exchange = self._pending
        if exchange is not None:
            if exchange.listener.left() > 0:  # the answer was taken before the child's end
                exchange.listener.hurry()
                exchange.listener.listen()
                self._finish(exchange)
            exchange.listener.close()
            self._pending = None  # not before: `is_well` takes what is still to be read for an end
        return self.fit

    def _fork_ahead(self) -> bool:
        if self._next is None:
            self._next = Listener(self.control, self.kill, in_box=self.in_box)
            with contextlib.suppress(OSError):  # it died: the call will see that
                self._send(b"F", b"", self._next.give())
        return True

    def is_well(self) -> bool:
        """Whether it still waits for a call: anything it says while it should be idle is its end."""
        return self._pending is not None or not select.select([self.control], [], [], 0)[0]

    def kill(self) -> None:
        """Tell the box to end. Does not block; from any thread.

        Its process 1 does nothing during a call but watch this socket, and takes the rest with
        it. Killing bwrap at once would leave the dead to whoever is process 1 outside.
        """
        with contextlib.suppress(OSError):
            if not self.in_box and self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the box and wait until it is gone, by force after a second."""
        self.kill()
        try:
            self._process.wait(OBEY_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with self._lock:
            self.fit = False  # whoever still means to get it ready comes too late
            self._read_stderr()
            if self._next is not None:
                self._next.close()
            if self._pending is not None:
                self._pending.listener.close()
            self._next = self._pending = None
            self.control.close()

    def _send(self, letter: bytes, body: bytes, fds: list[int]) -> None:
        self.control.settimeout(START_S)
        try:
            socket.send_fds(self.control, [letter + len(body).to_bytes(8, "big")], fds)
            self.control.sendall(body)
        finally:
            for fd in fds:
                os.close(fd)

    def _hear(self, seconds: float) -> bytes:
        """Read one line; empty at the end."""
        self.control.settimeout(seconds)
        try:
            return self.control.recv(CHUNK_BYTES)
        except ConnectionError:
            return b""

    def _judge(self, exchange: Exchange) -> Outcome:
        listener, limits = exchange.listener, exchange.request.limits
        if listener.timed_out:
            return Outcome(status="timeout", error=f"It ran longer than {limits.wall_s:g} s.")
        if listener.flooded:
            return Outcome(
                status="bad_result",
                error=f"The result has more than {limits.result_bytes:,} bytes as JSON.",
            )
        code = listener.exit_code
        if code is None and listener.left() > 0 and listener.has_answer():
            code = 0  # still ending: `_settle` looks again
        if code is None:
            error = "The box ended before the call did, most likely for lack of memory."
            return Outcome(status="killed", error=error)
        return read_document(
            bytes(listener.result), marker=exchange.marker, limits=limits, code=code
        )

    def _read_stderr(self) -> str:
        """Read what the box said before it was ready, to the end: the last process is then gone."""
        pipe, said = self._process.stderr, bytearray()
        if pipe is None or pipe.closed:
            return ""
        with pipe:
            while select.select([pipe], [], [], GRACE_S)[0]:
                data = read_some(pipe.fileno())
                said += data
                if not data:
                    break
        return clean(said.decode(errors="replace").strip(), TOLD_CHARS)


def _shown(output: bytearray) -> str:
    return clean(output.decode(errors="replace"), len(output) + 1)
