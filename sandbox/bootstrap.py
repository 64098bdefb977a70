"""What runs inside the box: one trusted parent, and a child per call that runs the tool.

Started by file content as `python -I -S -B bootstrap.py CONTROL_FD MODE`; never imported by the
program. Only the standard library is there, and no second file: hence the length of this one.

The parent holds the control socket and never touches the tool's code. The child holds the result
pipe, stdout and stderr, and nothing else: how it ended is told by the parent, from its exit status.
What the child writes on the result pipe is a claim about its own result, which the host checks.
"""

import array
import contextlib
import ctypes
import json
import math
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

MODES = ("drop", "keep", "unsafe")
"""`drop`: root outside, give up uid and capabilities. `keep`: bwrap did. `unsafe`: no box."""

NOBODY = 65534
HEADER_BYTES = 8
CONTROL_FD = 3
RESULT_FD = 3
"""In the child, where it takes the place of the control socket."""
TOOL_FILE = "<tool>"
MAX_DEPTH = 100
"""Lists and dicts inside one another; deeper results break readers further on."""
MAX_FRAMES = 20
MAX_EXIT_CODE = 255
TICK_S = 0.005
"""Between looks at the child where the system has no pidfd."""

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
LAST_CAPABILITY = 63

ADVICE = {
    kind: advice
    for kinds, advice in (
        ("set frozenset", "return sorted(...) of it"),
        ("bytes bytearray", "return text, for example .decode() or .hex() of it"),
        ("datetime date time", "return .isoformat() of it"),
        ("timedelta", "return .total_seconds() of it"),
        ("Decimal Fraction", "return float(...) or str(...) of it"),
        ("complex", "return its parts in a list"),
        ("generator map filter zip range dict_keys dict_values", "return list(...) of it"),
        ("coroutine", "write `def`, not `async def`"),
    )
    for kind in kinds.split()
}
PLAIN = "return only dict with text keys, list, str, int, float, bool or None"


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


def receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Read one request: length, JSON, and the descriptors for result, stdout and stderr."""
    fds = array.array("i")
    header, ancillary, _, _ = control.recvmsg(HEADER_BYTES, socket.CMSG_SPACE(3 * fds.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if len(header) < HEADER_BYTES:
        return None
    size, body = int.from_bytes(header, "big"), bytearray()
    while len(body) < size:
        chunk = control.recv(min(1 << 20, size - len(body)))
        if not chunk:
            return None
        body += chunk
    return json.loads(body), list(fds)


def serve(control: socket.socket, mode: str) -> bool:
    """Answer one request. False when the host has hung up."""
    received = receive(control)
    if received is None:
        return False
    request, fds = received
    pid = os.fork()
    if pid == 0:
        try:
            become_tool(request, fds, mode)
        except BaseException as exc:  # noqa: BLE001 - the last words of a child that must end here
            os.write(2, f"{type(exc).__name__}: {exc}\n".encode())
        finally:
            os._exit(125)
    for fd in fds:
        os.close(fd)
    status = wait_for(pid, control)
    if status is None:
        return False
    if mode != "unsafe" and os.getpid() == 1:
        end_leftovers()
    control.sendall(json.dumps({"exit": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
    return True


def wait_for(pid: int, control: socket.socket) -> int | None:
    """Wait until the child has ended; None when the host hangs up first."""
    poller = select.poll()
    poller.register(control, select.POLLIN)
    pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    if pidfd is not None:
        poller.register(pidfd, select.POLLIN)
    try:
        while True:
            events = poller.poll(None if pidfd is not None else int(TICK_S * 1000))
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return status
            # The host never speaks during a call: anything readable here is the end of it.
            if any(fd == control.fileno() for fd, _ in events):
                return None
    finally:
        if pidfd is not None:
            os.close(pidfd)


def end_leftovers() -> None:
    """Kill what the tool left running. Called only as process 1 of the box's own process table."""
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ChildProcessError, ProcessLookupError):
        return


def become_tool(request: dict[str, Any], fds: list[int], mode: str) -> NoReturn:
    """Give up all but three pipes, set the limits, run the tool, write one document, end."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for source, target in zip(fds, (RESULT_FD, 1, 2), strict=True):
        os.dup2(source, target)
    os.closerange(RESULT_FD + 1, 256)
    os.chdir("/tmp")  # noqa: S108 - the box's own
    # Anew, as the parent's were made for other files; by line, for the last words of a killed tool.
    sys.stdout, sys.stderr = (
        open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115 - to the end
        for fd in (1, 2)
    )
    marker, size_limit = request["marker"].encode(), request["result_bytes"]
    set_limits(request["limits"], strict=mode != "unsafe")
    # Bound before the tool can put something else in their place.
    dumps, write, leave, streams = json.dumps, os.write, os._exit, (sys.stdout, sys.stderr)
    try:
        answer = run(request["source"], request["function"], request["args"])
        body = encode(answer, dumps, request["source"])
    except SystemExit as end:
        flush(streams)
        code = end.code
        leave(code if isinstance(code, int) and 0 <= code <= MAX_EXIT_CODE else int(bool(code)))
    if len(body) > size_limit and answer["status"] == "ok":
        error = f"The result has {len(body):,} bytes as JSON; at most {size_limit:,} are allowed."
        body = dumps({"status": "bad_result", "error": error}).encode()
    flush(streams)
    view = memoryview(marker + body)
    while view:
        view = view[write(RESULT_FD, view) :]
    leave(0)


def encode(answer: dict[str, Any], dumps: Callable[..., str], source: str) -> bytes:
    """Write the answer as JSON, or, where memory is too short for that, say so."""
    try:
        return dumps(answer, allow_nan=False).encode()
    except Exception as exc:  # noqa: BLE001 - the tool's objects may raise anything
        return dumps(describe(exc, source)).encode()


def flush(streams: tuple[Any, ...]) -> None:
    """Send what was printed; the tool may have closed the stream."""
    for stream in streams:
        with contextlib.suppress(Exception):
            stream.flush()


def set_limits(limits: dict[str, int], *, strict: bool) -> None:
    """Apply `{"AS": bytes, ...}` to this process; not strict: as far as the system lets us."""
    for name, value in limits.items():
        # SIGXCPU comes at the soft limit; a tool that ignores it is killed at the hard one.
        hard = value + 1 if name == "CPU" else value
        try:
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, hard))
        except (ValueError, OSError):
            if strict:
                raise


def run(source: str, function: str, args: dict[str, Any]) -> dict[str, Any]:
    """Load the module, call the function, and say how it went."""
    module = type(sys)("tool")
    sys.modules["tool"] = module
    try:
        # S102 is what this file is for.
        exec(compile(source, TOOL_FILE, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
        target = module.__dict__.get(function)
        if not callable(target):
            names = [n for n, v in module.__dict__.items() if callable(v) and not n.startswith("_")]
            error = f"The module has no function {function!r}; it has {', '.join(names) or 'none'}."
            return {"status": "no_function", "error": error}
        value = target(**args)
        problem = json_problem(value, "the result", 0)
    except SystemExit:
        raise
    except BaseException as exc:  # noqa: BLE001 - the tool may raise anything
        return describe(exc, source)
    if problem:
        return {"status": "bad_result", "error": problem}
    return {"status": "ok", "value": value}


def describe(exc: BaseException, source: str) -> dict[str, Any]:
    """Say what was raised, with the frames of the tool's own module only."""
    try:
        text = str(exc)
    except BaseException:  # noqa: BLE001 - the exception is the tool's own
        text = "(its text could not be made)"
    lines, frames, link = source.splitlines(), [], exc.__traceback__
    while link is not None:
        code, number = link.tb_frame.f_code, link.tb_lineno
        if code.co_filename == TOOL_FILE:
            shown = lines[number - 1].strip() if 0 < number <= len(lines) else ""
            frames.append(f"line {number}, in {code.co_name}: {shown}"[:300])
        link = link.tb_next
    if len(frames) > MAX_FRAMES:
        half = MAX_FRAMES // 2
        frames[half:-half] = [f"... {len(frames) - MAX_FRAMES} more frames"]
    return {
        "status": "raised",
        "error_type": type(exc).__name__,
        "error": text[:2000],
        "traceback": "\n".join(frames),
    }


def json_problem(value: Any, where: str, depth: int) -> str:
    """Say what keeps a value from being strict JSON, and what to return instead; else ""."""
    if depth > MAX_DEPTH:
        return f"The result is nested more than {MAX_DEPTH} deep."
    if isinstance(value, str):
        return text_problem(value, where)
    if isinstance(value, (list, tuple)):
        parts = (json_problem(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value))
    elif isinstance(value, dict):
        parts = (item_problem(key, item, where, depth) for key, item in value.items())
    else:
        return scalar_problem(value, where)
    return next(filter(None, parts), "")


def scalar_problem(value: Any, where: str) -> str:
    """Look at what is no text, list or dict."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where} is {value!r}, which JSON cannot hold: return None or raise ValueError."
    if value is None or isinstance(value, (bool, int, float)):
        return ""
    kind = type(value).__name__
    return f"{where} is of type {kind}, not JSON: {ADVICE.get(kind, PLAIN)}."


def item_problem(key: Any, item: Any, where: str, depth: int) -> str:
    """Look at one item of a dict; JSON would turn other keys into text without a word."""
    if not isinstance(key, str):
        kind = type(key).__name__
        return f"{where} has the key {key!r} of type {kind}: use text keys, as by str(key)."
    problem = text_problem(key, f"a key of {where}")
    return problem or json_problem(item, f"{where}[{key!r}]", depth + 1)


def text_problem(text: str, where: str) -> str:
    """Text with half a surrogate pair cannot be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        return f"{where} holds the lone surrogate {text[exc.start]!a}, which is not text."
    return ""


def main() -> None:
    """Give up privileges, say `ready`, answer calls until the host hangs up."""
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
    control.sendall(b'{"ready": true}\n')
    while serve(control, mode):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
