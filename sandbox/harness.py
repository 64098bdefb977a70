"""What the child of a box does: take its places, give up its powers, run the tool, tell the result.

Loaded by `bootstrap.py` inside the box, never imported by the program. The child holds the result
pipe, stdout and stderr, and, if it may fetch, its request's socket. How it ended is told by its
parent. What it writes on the result pipe is a claim about its own result, which the host checks.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import signal
import sys
import warnings

TYPE_CHECKING = False  # without `typing`, which would be an eighth of the box's memory
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, NoReturn

    from .conversion import Conversion
    from .courier import Courier
else:
    from courier import Courier

RESULT_FD = 3
REQUEST_FD = 4
"""Closed before the tool runs, unless it may fetch."""
TOOL_FILE = "<tool>"
CHUNK_BYTES = 1 << 20
LENGTH_BYTES = 8
MAX_DEPTH = 100
"""Lists and dicts inside one another; deeper results break readers further on."""
MAX_FRAMES, MAX_BASES, MAX_EXIT_CODE = 20, 10, 255

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
BPF_STEP_BYTES = 8

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


class Tool:
    """What a box was made for, as its parent holds it when it forks a child."""

    def __init__(
        self, source: str = "", bpf: bytes = b"", limits: dict[str, int] | None = None
    ) -> None:
        self.source = source
        self.limits = limits or {}
        self.code: CodeType | None = None
        """Set once it is known to compile; else each child compiles, and tells what is wrong."""
        self.ahead: list[tuple[str, list[str]]] = []
        """Modules of packages that a child imports while it waits, with the names taken of each."""
        self.conversion: Conversion | None = None
        """Where its annotations name what JSON does not have."""
        self._bpf = bpf

    def lock(self) -> None:
        """Install the filter for generated code on this process; it cannot be taken off."""
        if not self._bpf:  # no box, or our own code to warm up with
            return
        steps = ctypes.create_string_buffer(self._bpf, len(self._bpf))
        program = BpfProgram(len(self._bpf) // BPF_STEP_BYTES, ctypes.addressof(steps))
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        if prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the filter of system calls was refused")

    def compile(self) -> CodeType:
        """Compile the source, or raise what is wrong with it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(self.source, TOOL_FILE, "exec", dont_inherit=True)


class BpfProgram(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def become_tool(tool: Tool, fds: list[int], *, strict: bool) -> NoReturn:
    """Get ready for one call, wait for it, run the tool, write one document, end.

    All that needs no request is done before it. The request comes straight from the host: nothing
    of one call is in the memory from which the next one is forked.
    """
    streams = take_places(fds)
    set_limits(tool.limits, strict=strict)
    tool.lock()
    # Bound before the tool can put something else in their place.
    dumps, write, leave = json.dumps, os.write, os._exit
    warm_up(dumps)
    for name, parts in tool.ahead:
        with contextlib.suppress(BaseException):  # the tool's import will say the same
            __import__(name, None, None, parts)
    request = read_request()
    marker, size_limit = request["marker"].encode(), request["result_bytes"]
    given = {"fetch": Courier(REQUEST_FD).fetch} if request["fetch"] else {}
    try:
        answer = run(tool, request["function"], request["args"], given)
        body = encode(answer, dumps, tool.source)
    except SystemExit as end:
        flush(streams)
        code = end.code
        leave(code if isinstance(code, int) and 0 <= code <= MAX_EXIT_CODE else int(bool(code)))
    if len(body) > size_limit and answer["status"] == "ok":
        error = f"The result has {len(body):,} bytes as JSON; at most {size_limit:,} are allowed."
        body = dumps({"status": "bad_result", "error": error}).encode()
    flush(streams)
    view = memoryview(marker + b"%010d" % len(body) + body)
    while view:
        view = view[write(RESULT_FD, view) :]
    leave(0)


def take_places(fds: list[int]) -> tuple[Any, Any]:
    """Put request, result, stdout and stderr where they belong and let go of everything else."""
    os.dup2(fds[-1], 2)  # first, for what may go wrong here
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    request, result, out, err = (os.dup(fd) for fd in fds)  # out of one another's way
    # A null device of its own: flags set on a shared one would reach the next call.
    null = os.open(os.devnull, os.O_RDONLY)
    places = {0: null, 1: out, 2: err, RESULT_FD: result, REQUEST_FD: request}
    for target, source in places.items():
        os.dup2(source, target)
    os.closerange(REQUEST_FD + 1, 256)
    os.chdir("/tmp")  # noqa: S108 - the box's own
    # Anew, as the parent's were made for other files; by line, for the last words of a killed tool.
    sys.stdout, sys.stderr = (
        open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115 - to the end
        for fd in (1, 2)
    )
    return sys.stdout, sys.stderr


def warm_up(dumps: Callable[..., str]) -> None:
    """Touch what a call touches, so that its pages are this process's own before it comes."""
    answer = run(
        Tool("def f(a): return a\n"), "f", json.loads('{"a": [1, 2.5, "x", {"k": null}]}'), {}
    )
    encode(answer, dumps, "")
    del sys.modules["tool"]


def read_request() -> dict[str, Any]:
    """Wait for the call; without one, end."""
    body = bytearray()
    size = LENGTH_BYTES
    while len(body) < size:
        chunk = os.read(REQUEST_FD, CHUNK_BYTES)
        if not chunk:
            os._exit(0)
        body += chunk
        if len(body) >= LENGTH_BYTES:
            size = LENGTH_BYTES + int.from_bytes(body[:LENGTH_BYTES], "big")
    request: dict[str, Any] = json.loads(body[LENGTH_BYTES:])
    if not request["fetch"]:
        os.close(REQUEST_FD)
    return request


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


def run(tool: Tool, function: str, args: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Load the module, call the function, and say how it went."""
    module = type(sys)("tool")
    module.__dict__.update(given)
    sys.modules["tool"] = module
    try:
        # S102 is what this file is for.
        exec(tool.code or tool.compile(), module.__dict__)  # noqa: S102
        target = module.__dict__.get(function)
        if not callable(target):
            names = [n for n, v in module.__dict__.items() if callable(v) and not n.startswith("_")]
            error = f"The module has no function {function!r}; it has {', '.join(names) or 'none'}."
            return {"status": "no_function", "error": error}
        convert = tool.conversion
        value = convert.call(target, args, module.__dict__) if convert else target(**args)
        problem = json_problem(value, "the result", 0)
    except SystemExit:
        raise
    except BaseException as exc:  # noqa: BLE001 - the tool may raise anything
        return describe(exc, tool.source)
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
    bases = [kind.__name__ for kind in type(exc).__mro__[1:] if kind.__module__ == "builtins"]
    return {
        "status": "raised",
        "error_type": type(exc).__name__,
        "error_bases": bases[:MAX_BASES],
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
