"""What an attack is: a small tool that tries to escape or to harm, and what it may end as."""

import textwrap
from dataclasses import dataclass
from typing import Final

from mem2evolve.sandbox import Limits

USUAL: Final = Limits()
SHORT: Final = Limits(wall_s=1.5, cpu_s=1)
"""For attacks that only time ends."""

REFUSED: Final = frozenset(
    {
        "ok",
        "killed",
        "AttributeError",  # this Python lacks the call
        "BlockingIOError",
        "ConnectionRefusedError",
        "FileNotFoundError",
        "NotADirectoryError",
        "OSError",
        "PermissionError",
        "ProcessLookupError",
        "TimeoutError",
    }
)
"""Ends of an attack that the system turned down: said by a value, by an exception, or by a signal."""

PRELUDE: Final = """\
import ctypes, os, signal, socket, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)

def kernel(x86_64, aarch64, *args):
    number = x86_64 if os.uname().machine == "x86_64" else aarch64
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return libc.syscall(ctypes.c_long(number), *words)

def again(left, right):
    import json
    return [sum([left, right]), json.dumps({"a": [len("ab")]}), sorted([3, 1, 2]), os.getcwd()]
"""
"""Before every attack. `again` is asked of the same source after it, and must be right."""
AGAIN: Final = [5, '{"a": [2]}', [1, 2, 3], "/tmp"]  # noqa: S108 - the box's own


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One kind of attack. It got through if it returns text that starts with BAD, or if it shows on the host."""

    name: str
    without: str
    """What would happen without the box."""
    body: str
    """Of `attack(host)`; `host` is what `Host.facts` says."""
    top: str = ""
    """Before the function, at the top level of the module. `@TAG@` stands for `host["tag"]`."""
    ends: frozenset[str] = REFUSED
    """Statuses and names of exceptions it may end with: an attack that fails for another reason proves nothing."""
    limits: Limits = USUAL
    safe_unboxed: bool = True
    """Whether it may run in a bare subprocess: at worst it touches what the trial itself set up."""
    by_filter: bool = False
    """Whether only a filter of system calls stops it."""
    files: bool = False
    """Whether the secret is given as /data/in."""
    late: bool = False
    """Whether its effect would come after the call."""
    times: int = 1
    """Calls of the same source."""
    answers_again: bool = True
    """Whether `again` of the same source must still be right; not where the module itself is the attack."""

    def source(self, tag: str) -> str:
        """Return the tool."""
        body = textwrap.indent(textwrap.dedent(self.body).strip("\n"), "    ")
        top = textwrap.dedent(self.top).replace("@TAG@", tag).strip("\n")
        return f"{PRELUDE}\n{top}\n\ndef attack(host):\n{body}\n"


@dataclass(frozen=True, kw_only=True)
class Forgery:
    """A tool `add(left, right)` that is wrong and tries to pass its cases all the same."""

    name: str
    without: str
    """How it would pass where tool and cases share a process, a stream, or an exit status."""
    source: str
