"""What runs inside the box as its process 1: the zygote, which loads a tool and forks per call.

Started as `python -E -s -S -B bootstrap.py CONTROL_FD MODE`; never imported by the program. Beside
it lie `harness.py`, which the children run, and what that may need; else only the standard library is there.

The zygote holds the control socket. It compiles the tool and imports what the tool imports of the
standard library, and never runs a line of it. It does not see arguments or results either: each
child gets its request from the host and answers to the host. Messages are a letter, a length and a
body: `L` loads a tool, `F` forks the child of the next call around four descriptors.
"""

from __future__ import annotations

import _socket as socket  # without `socket`, which adds but names
import array
import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys

TYPE_CHECKING = False  # without `typing`, which would be an eighth of the box's memory
if TYPE_CHECKING:
    from typing import Any

    from .conversion import Conversion
    from .harness import TOOL_FILE, Tool, become_tool
else:
    from harness import TOOL_FILE, Tool, become_tool
HERE = sys.path.pop(0)
"""This folder, off the path: a tool imports from the standard library alone."""

MODES = ("drop", "keep", "unsafe")
"""`drop`: root outside, give up uid and capabilities. `keep`: bwrap did. `unsafe`: no box."""

NOBODY = 65534
HEADER_BYTES = 9
CONTROL_FD = 3
SCRATCH = ("/tmp", "/dev/shm")  # noqa: S108 - the box's own
TICK_S = 0.005
"""Between looks at the child where the system has no pidfd."""
LOAD_LIMITS = {"AS": 1 << 30, "CPU": 5, "CORE": 0}
"""For a child that compiles the tool first: a compiler can be crashed, and process 1 must not."""
NOT_AHEAD = frozenset(
    {"__main__", "antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle"}
)
"""Modules that do something when imported, or are not worth it."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Threads of numeric packages would each take memory and CPU time of the call."""
ONLY_AST = 0x400
"""`ast.PyCF_ONLY_AST`, without the module `ast`."""

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
LAST_CAPABILITY = 63


def give_up_privileges(mode: str) -> None:
    """Drop to an unprivileged user and become unreadable for the child, which has the same uid."""
    if mode == "unsafe":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    if mode == "drop":
        os.setgroups([])
        for capability in range(LAST_CAPABILITY + 1):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    # A change of user clears the death signal that bwrap set, so it is set again.
    for option, value in (
        (PR_SET_PDEATHSIG, signal.SIGKILL),
        (PR_SET_NO_NEW_PRIVS, 1),
        (PR_SET_DUMPABLE, 0),
    ):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) was refused")


class HungUpError(Exception):
    """The host closed the control socket: nothing is left to do."""


class Zygote:
    """The parent of all children of a box, one at a time."""

    def __init__(self, control: socket.socket, mode: str) -> None:
        self.control = control
        self.boxed = mode != "unsafe"
        self.tool = Tool()
        self.scratch = [look(place) for place in SCRATCH]

    def serve(self) -> None:
        """Answer one message.

        Raises:
            HungUpError: If the host has hung up.
        """
        letter, body, fds = self.receive()
        answer = self.load(json.loads(body)) if letter == b"L" else self.call(fds)
        self.control.sendall(json.dumps(answer).encode() + b"\n")

    def receive(self) -> tuple[bytes, bytes, list[int]]:
        """Read one message and the descriptors that came with it."""
        fds = array.array("i")
        header, ancillary, _, _ = self.control.recvmsg(
            HEADER_BYTES, socket.CMSG_SPACE(4 * fds.itemsize)
        )
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        if len(header) < HEADER_BYTES:
            raise HungUpError
        size, body = int.from_bytes(header[1:], "big"), bytearray()
        while len(body) < size:
            chunk = self.control.recv(min(1 << 20, size - len(body)))
            if not chunk:
                raise HungUpError
            body += chunk
        return header[:1], bytes(body), list(fds)

    def load(self, request: dict[str, Any]) -> dict[str, int]:
        """Take a tool; if it is to be called often, get ready for it. Says the bytes it takes."""
        self.tool = Tool(request["source"], bytes.fromhex(request["filter"]), request["limits"])
        if request["plan"]:
            self.tool.conversion = conversion(json.loads(request["plan"]))
        if request["ahead"] and self.compiles():
            # Not the module's body: what it does at import belongs to each call, as does its time.
            self.tool.code = self.tool.compile()
            for name, parts in imports(self.tool.source):
                if name.partition(".")[0] not in sys.stdlib_module_names:
                    self.tool.ahead.append((name, parts))
                    continue
                with contextlib.suppress(BaseException):  # the tool's import will say the same
                    __import__(name, None, None, parts)
        if request["packages"]:  # now, when all is imported: none of it runs in process 1
            sys.path.append(request["packages"])
            os.environ.update(ONE_THREAD)
        gc.collect()
        gc.freeze()
        # The most it ever was: near enough for a cap.
        return {"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}

    def compiles(self) -> bool:
        """Try it in a child, under its filter."""
        pid = os.fork()
        if pid == 0:
            try:
                for name, value in LOAD_LIMITS.items():
                    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
                self.tool.lock()
                self.tool.compile()
                os._exit(0)
            finally:
                os._exit(1)
        return self.wait_for(pid) == 0

    def call(self, fds: list[int]) -> dict[str, Any]:
        """Fork a child, which waits for the request of its call, and say how it ended."""
        pid = os.fork()
        if pid == 0:
            try:
                become_tool(self.tool, fds, strict=self.boxed)
            except BaseException as exc:  # noqa: BLE001 - a child's last words; it must end here
                os.write(2, f"{type(exc).__name__}: {exc}\n".encode())
            finally:
                os._exit(125)
        for fd in fds:
            os.close(fd)
        status = self.wait_for(pid)
        if self.boxed and os.getpid() == 1:
            end_leftovers()
        dirty = self.boxed and (
            self.scratch != [look(place) for place in SCRATCH] or last_number() != pid
        )
        return {"exit": os.waitstatus_to_exitcode(status), "dirty": dirty}

    def wait_for(self, pid: int) -> int:
        """Wait until the child has ended."""
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        if pidfd is not None:
            poller.register(pidfd, select.POLLIN)
        try:
            while True:
                events = poller.poll(None if pidfd is not None else int(TICK_S * 1000))
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    return status
                # The host never speaks meanwhile: anything readable here is the end of it.
                if any(fd == self.control.fileno() for fd, _ in events):
                    raise HungUpError
        finally:
            if pidfd is not None:
                os.close(pidfd)


def conversion(plan: dict[str, Any]) -> Conversion:
    """Load our own module that converts; most tools need none, and pay for none."""
    if not TYPE_CHECKING:
        sys.path.insert(0, HERE)
        try:
            from conversion import Conversion  # noqa: PLC0415
        finally:
            sys.path.remove(HERE)
    return Conversion(plan)


def look(place: str) -> tuple[int, ...]:
    """Return what changes when anyone makes, removes, lists or alters anything in a folder."""
    try:
        seen = os.stat(place)  # noqa: PTH116 - `pathlib` would cost a tenth of the box's memory
    except OSError:
        return ()
    return (seen.st_mode, seen.st_uid, seen.st_nlink, seen.st_atime_ns, seen.st_ctime_ns)


def last_number() -> int:
    """Return the last process number used up in the box: by how many, a tool could tell the next."""
    with open("/proc/loadavg", "rb") as file:  # noqa: PTH123 - `pathlib` costs memory
        return int(file.read().split()[-1])


def end_leftovers() -> None:
    """Kill what the tool left running. Called only as process 1 of the box's own process table."""
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ChildProcessError, ProcessLookupError):
        return


def imports(source: str) -> list[tuple[str, list[str]]]:
    """Return the modules that a source imports, with the names it takes of each."""
    found: list[tuple[str, list[str]]] = []
    todo: list[Any] = [compile(source, TOOL_FILE, "exec", ONLY_AST, dont_inherit=True)]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += node
        elif hasattr(node, "_fields"):
            kind = type(node).__name__
            if kind == "Import":
                found += [(alias.name, []) for alias in node.names]
            elif kind == "ImportFrom" and node.module and not node.level:
                found.append((node.module, [alias.name for alias in node.names]))
            todo += [getattr(node, name, None) for name in node._fields]
    return [
        (name, [part for part in parts if part != "*"])
        for name, parts in found
        if NOT_AHEAD.isdisjoint(name.split("."))
    ]


def main() -> None:
    """Give up privileges, say `ready`, serve until the host hangs up."""
    mode = sys.argv[2]
    if mode not in MODES:
        raise ValueError(mode)
    os.dup2(int(sys.argv[1]), CONTROL_FD)
    os.closerange(CONTROL_FD + 1, os.sysconf("SC_OPEN_MAX"))
    control = socket.socket(fileno=CONTROL_FD)
    # Process 1 ignores signals from inside unless it has a handler, and Python has one for this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.clear()  # Python and bwrap set a few of their own
    give_up_privileges(mode)
    zygote = Zygote(control, mode)
    control.sendall(b'{"ready": true}\n')
    with contextlib.suppress(HungUpError, ConnectionError):
        while True:
            zygote.serve()
    os._exit(0)


if __name__ == "__main__":
    main()
