"""What a box shows of this machine: the interpreter, its libraries, and nothing else."""

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from ..errors import InputError

TMP_BYTES: Final = 64 << 20
SHM_BYTES: Final = 16 << 20
WORLD_READABLE: Final = 0o004
BOOTSTRAP: Final = Path(__file__).with_name("bootstrap.py")
HARNESS: Final = Path(__file__).with_name("harness.py")
COURIER: Final = Path(__file__).with_name("courier.py")
CONVERSION: Final = Path(__file__).with_name("conversion.py")
INSIDE: Final = "/box"
PYTHON_OPTIONS: Final = ("-E", "-s", "-S", "-B")
"""Like -I, but the folder of the script is on the path until the script takes it off."""
DATA: Final = "/data"
PACKAGES: Final = "/packages"

HARDENING: Final = (
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--as-pid-1", "--die-with-parent", "--new-session", "--clearenv", "--hostname", "box"),
    *("--cap-drop", "ALL"),
)
AS_ROOT: Final = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP")
"""No user namespace: in one, the box's root would be the host's. The bootstrap drops the rest."""
AS_USER: Final = ("--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534")


def interpreter() -> str:
    """Return the real path of the Python below any virtual environment."""
    # The public `sys.executable` is the environment's, which is not shown in the box.
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def options(
    *, root: bool, files: Mapping[str, Path], packages: Path | None = None
) -> tuple[list[str], list[int]]:
    """Return bwrap's options and the descriptors they name, which the caller closes.

    Raises:
        InputError: If one of `files` is not a readable file, or its name is not a plain name.
    """
    descriptors: list[int] = []
    try:
        words = [*HARDENING, *(AS_ROOT if root else AS_USER)]
        words += ["--proc", "/proc", "--dev", "/dev"]
        words += ["--perms", "1777", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
        words += ["--perms", "1777", "--size", str(TMP_BYTES), "--tmpfs", "/tmp"]  # noqa: S108
        words += _system()  # after /tmp: the interpreter may be below it
        words += ["--perms", "0755", "--dir", INSIDE]
        for ours in (BOOTSTRAP, HARNESS, COURIER, CONVERSION):
            words += _copied(ours, f"{INSIDE}/{ours.name}", descriptors)
        if packages is not None:
            words += ["--ro-bind", str(packages), PACKAGES]
        if files:
            words += ["--perms", "0755", "--dir", DATA]
        for name, path in files.items():
            words += _shown(name, path, descriptors, copy_private=root)
        words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
    except BaseException:
        for fd in descriptors:
            os.close(fd)
        raise
    return words, descriptors


@cache
def _system() -> tuple[str, ...]:
    """Options for the interpreter and the libraries. Nothing of /etc, /usr/bin or the home."""
    words: list[str] = []
    shown: list[Path] = []
    made: set[Path] = {Path("/")}
    for path in _wanted():
        if path.is_symlink() and path.parent == Path("/"):
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists() and not any(path.is_relative_to(seen) for seen in shown):
            shown.append(path)
            for parent in reversed(path.parents):
                if parent not in made:  # bwrap would make them as private as what they hold
                    words += ["--perms", "0755", "--dir", str(parent)]
                    made.add(parent)
            words += ["--ro-bind", str(path), str(path)]
    for packages in _stdlib():
        for name in ("site-packages", "dist-packages"):
            if (packages / name).is_dir():
                words += ["--tmpfs", str(packages / name), "--remount-ro", str(packages / name)]
    return tuple(words)


def _wanted() -> Iterator[Path]:
    yield from (Path("/usr/lib"), Path("/usr/lib64"), Path("/lib"), Path("/lib64"))
    yield Path("/usr/share/zoneinfo")
    if interpreter().startswith("/nix/"):
        yield Path("/nix/store")
    yield Path(interpreter())
    yield from _stdlib()
    folder, library = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    if folder and library and ".so" in library:
        yield Path(folder, library)


def shown_paths() -> list[str]:
    """Return the paths of this machine that a box holds, read-only."""
    words = _system()
    return [words[i + 1] for i, word in enumerate(words) if word == "--ro-bind"]


def _stdlib() -> list[Path]:
    named = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    # `platstdlib` of a virtual environment is a folder of its own, without the standard library.
    base = Path(sys.base_prefix)
    return [p for p in dict.fromkeys(map(Path, named)) if p.is_relative_to(base) and p.is_dir()]


def _shown(name: str, path: Path, descriptors: list[int], *, copy_private: bool) -> list[str]:
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise InputError(
            f"A file cannot be shown in the box as {name!r}.",
            hint="Use a plain file name, without a folder.",
        )
    try:
        real = path.resolve(strict=True)
        private = not real.stat().st_mode & WORLD_READABLE
        usable = real.is_file() and os.access(real, os.R_OK)
    except OSError:
        usable, real, private = False, path, True
    if not usable:
        raise InputError(
            f"The file {str(path)!r} cannot be shown to a tool: it is not a readable file.",
            hint="Give an existing, readable file.",
        )
    inside = f"{DATA}/{name}"
    if private and copy_private:  # the box's user is not its owner
        return _copied(real, inside, descriptors)
    return ["--ro-bind", str(real), inside]


def _copied(path: Path, inside: str, descriptors: list[int]) -> list[str]:
    descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    return ["--perms", "0444", "--ro-bind-data", str(descriptors[-1]), inside]
