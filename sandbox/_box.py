"""One box: a process that is started, asked, listened to, and killed. Everything here blocks."""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ..errors import SandboxUnavailable
from ._answer import clean, read_document
from ._listener import OBEY_S, Listener, read_some
from .base import Limits, Outcome

START_S: Final = 30.0
"""A box takes a tenth of a second to start; on an overloaded machine much longer."""
GRACE_S: Final = 5.0
"""For the kernel to end a killed box and close its pipes."""
CHUNK_BYTES: Final = 1 << 16
TOLD_CHARS: Final = 2_000


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start one box. `descriptors` belong to it and are closed once it runs."""

    command: tuple[str, ...]
    descriptors: tuple[int, ...] = ()
    explain: Callable[[str], SandboxUnavailable]
    """Turns what a box said on stderr before it was ready into an error for the operator."""
    own_group: bool = False
    """Whether the process and its children must be killed as a group: there is no box."""


@dataclass(kw_only=True, eq=False)
class Call:
    """What one call asks for, and the switch that ends it from another thread."""

    source: str
    function: str
    args: Mapping[str, Any]
    limits: Limits
    box: "Box | None" = None
    cancelled: bool = False

    def cancel(self) -> None:
        """Kill the box, now or as soon as there is one. Does not block; from any thread."""
        # `run` sets `box` before it looks at `cancelled`: one of the two sees the other.
        self.cancelled = True
        if self.box is not None:
            self.box.kill()

    def run(self, launch: Launch) -> Outcome:
        """Start a fresh box, make the call, and leave nothing behind.

        Raises:
            SandboxUnavailable: If the box does not start.
        """
        with contextlib.ExitStack() as cleanup:
            box = Box(launch)
            cleanup.callback(box.end)
            self.box = box
            if self.cancelled:
                return Outcome(status="killed", error="The call was cancelled.")
            box.wait_ready(time.monotonic() + START_S)
            return box.call(self)


class Box:
    """A running box. The control socket is ours; what comes over it is from trusted code."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.in_box = not launch.own_group
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

    def wait_ready(self, deadline: float) -> None:
        """Wait for the first line of the trusted parent.

        Raises:
            SandboxUnavailable: If the box ended or stayed silent instead.
        """
        self.control.settimeout(max(0.0, deadline - time.monotonic()))
        try:
            said = self.control.recv(CHUNK_BYTES)
        except TimeoutError:
            self.kill()
            raise self._launch.explain(f"It was not ready after {START_S:.0f} s.") from None
        except OSError:
            said = b""
        if not said:
            self.kill()
            raise self._launch.explain(self._read_stderr())

    def call(self, call: Call) -> Outcome:
        """Send the call, read until it has ended, and say how."""
        marker, limits = secrets.token_hex(16), call.limits
        request: dict[str, Any] = {
            "source": call.source,
            "function": call.function,
            "args": dict(call.args),
            "marker": marker,
            "result_bytes": limits.result_bytes,
            "limits": {
                "AS": limits.memory_bytes,
                "CPU": limits.cpu_s,
                "FSIZE": limits.file_bytes,
                "NOFILE": limits.open_files,
                "CORE": 0,
            },
        }
        if self.in_box:
            # Outside a box this counts all processes of the user, not those of the tool.
            request["limits"]["NPROC"] = limits.processes
        started = time.monotonic()
        listener = Listener(
            self.control, self.kill, in_box=self.in_box, deadline=started + limits.wall_s
        )
        with contextlib.closing(listener):
            self._send(json.dumps(request).encode(), listener.give())
            listener.listen(limits)
        outcome = self._judge(listener, marker, limits)
        return replace(
            outcome,
            stdout=_shown(listener.stdout),
            stderr=_shown(listener.stderr),
            seconds=time.monotonic() - started,
        )

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
        self._read_stderr()
        self.control.close()

    def _send(self, body: bytes, fds: list[int]) -> None:
        self.control.settimeout(START_S)
        try:
            socket.send_fds(self.control, [len(body).to_bytes(8, "big")], fds)
            self.control.sendall(body)
        except OSError:
            self.kill()  # it died under us: the listener will see the end
        finally:
            for fd in fds:
                os.close(fd)

    def _judge(self, listener: "Listener", marker: str, limits: Limits) -> Outcome:
        if listener.timed_out:
            return Outcome(status="timeout", error=f"It ran longer than {limits.wall_s:g} s.")
        if listener.flooded:
            return Outcome(
                status="bad_result",
                error=f"The result has more than {limits.result_bytes:,} bytes as JSON.",
            )
        try:
            code = int(json.loads(listener.told)["exit"])
        except (ValueError, KeyError):
            error = "The box ended before the call did, most likely for lack of memory."
            return Outcome(status="killed", error=error)
        return read_document(bytes(listener.result), marker=marker, limits=limits, code=code)

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
