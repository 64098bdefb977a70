"""Environments of packages for tools: made outside the box, shared by all that declare the same."""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..errors import SandboxUnavailable
from ..settings import cache_dir
from ._uv import PackageError, install
from .base import Packages, Problem
from .header import OPENING, package_name, read_header

FOLDER: Final = "packages"
"""Of an environment: what a box shows."""
MARKER: Final = "environment.json"
"""Of an environment: what is in it, with the SHA-256 of each file; written last."""
RECHECK_S: Final = 60.0
"""Between looks at whether an environment in use is still the one that was checked."""
MAX_AGE_DAYS: Final = 90.0
"""Environments unused for so long are deleted when another one is made."""
DAY_S: Final = 86_400.0
NO_MODULES: Final = frozenset({"__pycache__", "bin"})
SUFFIXES: Final = (".py", ".so")

Install = Callable[[Sequence[str], Path], None]


class NoPackagesError(Exception):
    """A source cannot have the packages that it declares."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(" ".join(problem.reason for problem in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A folder of packages that was whole when it was last looked at."""

    folder: Path
    modules: tuple[str, ...]
    versions: tuple[str, ...]
    """As `numpy==2.1.0`, sorted."""
    mark: str
    """Differs when the folder has been made anew."""


@dataclass(kw_only=True)
class Environments:
    """The environments in a folder, which processes share."""

    allowed: Collection[str] = ()
    """Names of the packages that tools may declare."""
    root: Path | None = None
    """The user's cache folder, if not given."""
    install: Install = install
    _held: dict[tuple[str, ...], tuple[Environment, float]] = field(default_factory=dict)

    async def provide(self, source: str, allowed: Collection[str] = ()) -> Packages:
        """Have ready what a source declares, and say what it may import then.

        Args:
            source: A Python module.
            allowed: Names of packages that it may declare besides those of everybody.

        Raises:
            SandboxUnavailable: If it could not be fetched now.
        """
        try:
            environment = await self.of(source, allowed)
        except NoPackagesError as exc:
            return Packages(problems=exc.problems)
        if environment is None:
            return Packages()
        return Packages(environment.modules, versions=environment.versions)

    async def of(self, source: str, allowed: Collection[str] = ()) -> Environment | None:
        """Return the environment that a source declares, made if need be; `None` for none.

        Args:
            source: A Python module.
            allowed: Names of packages that it may declare besides those of everybody.

        Raises:
            NoPackagesError: If it declares what it cannot have.
            SandboxUnavailable: If it could not be fetched now.
        """
        if OPENING not in source:
            return None
        header = read_header(source, {*self.allowed, *allowed})
        if header.problems:
            raise NoPackagesError(header.problems)
        if not header.dependencies:
            return None
        held, looked = self._held.get(header.dependencies, (None, 0.0))
        if held is None or time.monotonic() - looked > RECHECK_S:
            try:
                held = await asyncio.to_thread(self.get, header.dependencies)
            except PackageError as exc:
                line = source.count("\n", 0, source.index(OPENING)) + 1
                raise NoPackagesError([Problem(line, f"{exc}")]) from exc
        return held

    def get(self, dependencies: tuple[str, ...]) -> Environment:
        """Return the environment of these dependencies, checked or made. Blocks.

        Raises:
            PackageError: If there is no wheel for one of them.
            SandboxUnavailable: If they could not be fetched, or there is no place for them.
        """
        key = key_of(dependencies)
        try:
            root = self._root()
            held, _ = self._held.get(dependencies, (None, 0.0))
            made = False
            with _locked(root, key):
                found = _look(root / key, key, whole=held is None)
                if held is not None and found is not None and found.mark != held.mark:
                    found = _look(root / key, key, whole=True)
                if found is None:
                    self._make(root, key, dependencies)
                    found, made = _look(root / key, key, whole=False), True
                if found is None:
                    raise FileNotFoundError(root / key)
                os.utime(root / key / MARKER)
            if made:
                self.prune()
        except OSError as exc:
            raise SandboxUnavailable(
                f"The packages {', '.join(dependencies)} cannot be kept: {exc}",
                hint="Make room, or point MEM2EVOLVE_CACHE at a folder that can be written.",
            ) from exc
        self._held[dependencies] = (found, time.monotonic())
        return found

    def prune(self, max_age_days: float = MAX_AGE_DAYS) -> int:
        """Delete environments that no process has used for so long; return how many. Blocks."""
        root, oldest, gone = self._root(), time.time() - max_age_days * DAY_S, 0
        for path in list(root.iterdir()):
            if not path.is_dir():
                continue
            if path.name.startswith("."):  # left by a process that was killed at it
                if path.stat().st_mtime < time.time() - DAY_S:
                    shutil.rmtree(path, ignore_errors=True)
                continue
            with contextlib.suppress(BlockingIOError), _locked(root, path.name, wait=False):
                if _last_used(path) < oldest:
                    _remove(path)
                    gone += 1
        return gone

    def _root(self) -> Path:
        root = self.root or cache_dir() / "environments"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return root

    def _make(self, root: Path, key: str, dependencies: tuple[str, ...]) -> None:
        """Make it beside its place and move it there, so that there is all of it or nothing."""
        made = root / f".{key}-{secrets.token_hex(4)}"
        folder = made / FOLDER
        try:
            folder.mkdir(parents=True)
            self.install(dependencies, folder)
            _make_readable(made)
            files = _digests(folder)
            body = {"dependencies": dependencies, "modules": _modules(folder), "files": files}
            (made / MARKER).write_text(json.dumps(body), encoding="utf-8")
            if (root / key).exists():
                _remove(root / key)
            made.rename(root / key)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def key_of(dependencies: Sequence[str]) -> str:
    """Return the name of an environment: what is in it depends on nothing else of this machine."""
    system = [platform.system(), platform.machine(), platform.libc_ver()]
    python = [sys.implementation.cache_tag, list(sys.version_info[:3])]
    text = json.dumps([sorted(dependencies), python, system])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@contextlib.contextmanager
def _locked(root: Path, key: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of one environment, also against other processes.

    Raises:
        BlockingIOError: If another one holds it, and this one is not to wait.
    """
    with (root / f"{key}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _look(place: Path, key: str, *, whole: bool) -> Environment | None:
    """Return an environment if it is as it was made; `None` if it is damaged or not there.

    Args:
        place: Its folder.
        key: What it must be called.
        whole: Whether each file is compared with what it was.
    """
    folder, marker = place / FOLDER, place / MARKER
    try:
        body = json.loads(marker.read_text(encoding="utf-8"))
        modules = tuple(map(str, body["modules"]))
        if key_of(body["dependencies"]) != key or (whole and _digests(folder) != body["files"]):
            return None
        seen = folder.stat()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    marks = (key, seen.st_dev, seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns)
    return Environment(folder=folder, modules=modules, versions=_versions(folder), mark=repr(marks))


def _digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file, by its path; of a link, which a wheel cannot hold, its text."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _modules(folder: Path) -> list[str]:
    """Return what can be imported at the top level, without what the standard library has."""
    names = set()
    for path in folder.iterdir():
        if path.name not in NO_MODULES and (path.is_dir() or path.suffix in SUFFIXES):
            names.add(path.name.partition(".")[0])
    return sorted(n for n in names - sys.stdlib_module_names if n.isidentifier())


def _versions(folder: Path) -> tuple[str, ...]:
    """Return name and version of each package, from the name of the folder that its wheel says it with."""
    told = [path.stem.split("-", 1) for path in folder.glob("*.dist-info")]
    return tuple(sorted(f"{package_name(one[0])}=={one[1]}" for one in told if len(one) > 1))


def _make_readable(place: Path) -> None:
    """Let the box's user read it, whoever that is and whatever our umask."""
    for path in (place, *place.rglob("*")):
        if not path.is_symlink():
            runnable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runnable else 0o644)


def _last_used(place: Path) -> float:
    for path in (place / MARKER, place):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _remove(place: Path) -> None:
    """Delete an environment. It loses its name first, so that nobody sees a half of it."""
    doomed = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
    place.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
