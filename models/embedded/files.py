"""Files shared by processes: locks, atomic writes, and hashes that are computed once."""

import fcntl
import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ...errors import ModelFileError
from ...settings import cache_dir

CHUNK_BYTES: Final = 1024 * 1024
_LOCK_POLL_SECONDS: Final = 0.1


class Progress(NamedTuple):
    """How far a pull is."""

    done: int
    """Bytes."""
    total: int
    """Bytes."""
    source: str
    """`hub`, `packages`, `file` (a copy), `checking` (hashing) or `waiting` (another pull runs)."""


Report = Callable[[Progress], None]


class LockTimeout(Exception):
    """Another process kept the lock for longer than the caller would wait."""


def models_dir() -> Path:
    """Return the folder of the model files."""
    return cache_dir() / "models"


def servers_dir() -> Path:
    """Return the folder of the servers' state files, locks and logs."""
    return cache_dir() / "server"


def make_folder(folder: Path) -> Path:
    """Create a cache folder, readable by its owner only.

    Raises:
        ModelFileError: If it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        raise ModelFileError(
            f"Cache folder {str(folder)!r} cannot be created: {exc.strerror or exc}.",
            hint="Name a folder that can be written with MEM2EVOLVE_CACHE.",
        ) from exc
    return folder


@contextmanager
def held(
    lock: Path, *, seconds: float | None = None, waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold an inter-process lock; the system releases it when the process dies.

    Args:
        lock: A file kept for this purpose; it is created and never removed, since removing it
            would let two processes hold two files of the same name.
        seconds: Longest wait; None waits for ever, 0 tries once.
        waiting: Called while another process holds the lock.

    Raises:
        LockTimeout: If the lock was not free in time.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(descriptor):
            if deadline is not None and time.monotonic() >= deadline:
                raise LockTimeout(str(lock))
            if waiting is not None:
                waiting()
            time.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_json(path: Path, data: object) -> None:
    """Write a small JSON file so that a reader sees the old one or the new one, never a part."""
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    partial.write_text(json.dumps(data), encoding="utf-8")
    partial.replace(path)


def read_json(path: Path) -> object:
    """Read a small JSON file; None if it is absent or damaged."""
    try:
        data: object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return data


def recorded_sha256(path: Path) -> str | None:
    """Return the hash recorded for a file, or None if it has changed since, or was never hashed."""
    try:
        stat = path.stat()
    except OSError:
        return None
    record = read_json(_sidecar(path))
    if not isinstance(record, dict):
        return None
    if (record.get("bytes"), record.get("mtime_ns")) != (stat.st_size, stat.st_mtime_ns):
        return None
    sha256 = record.get("sha256")
    return sha256 if isinstance(sha256, str) else None


def record_sha256(path: Path, sha256: str) -> None:
    """Remember a file's hash, bound to its size and time of change."""
    stat = path.stat()
    record = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": sha256}
    write_json(_sidecar(path), record)


def forget(path: Path) -> None:
    """Remove a file and what was recorded about it; absent ones are fine."""
    path.unlink(missing_ok=True)
    _sidecar(path).unlink(missing_ok=True)


def sha256_of(path: Path, report: Report | None = None) -> str:
    """Hash a file, reading it once: 1 GB takes some seconds.

    Raises:
        OSError: If it cannot be read.
    """
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            if report is not None:
                report(Progress(done, total, "checking"))
    return digest.hexdigest()


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256.json")
