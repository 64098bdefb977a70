"""The embedded store: Qdrant Edge, one shard per collection, in this process.

- One process holds a folder (`memory.owner`); the `EdgeStore`s of one process share it.
- One worker thread owns the shards: the engine is fast, and no lock is held over an `await`.
- Every write goes through the write-ahead log, so a killed process loses none. To outlive a power
  cut it must be flushed too: within `FLUSH_SECONDS`, every `FLUSH_WRITES`, and on close.
- `optimize()` is never called: it would hold the interpreter's lock. Plain scans are fast enough
  for the hundred thousands of records that a memory holds.
"""

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ..errors import StoreError
from .engine import Engine
from .faults import translate
from .store import Collection, Hit, Record, Where

T = TypeVar("T")

_ENGINES: Final[dict[Path, Engine]] = {}
"""What this process holds open. One folder can be opened once only, so its users share."""
_REGISTRY = threading.Lock()


class EdgeStore:
    """A `MemoryStore` in a local folder. Opened at the first call.

    Args:
        folder: Holds the shards, the manifest and the lock; made when missing.

    Raises:
        StoreBusy: (from any method, as the rest) If another process holds the folder.
        StoreDamaged: If the files cannot be read. They are left as they are.
        StoreMismatch: If a vector's length is not that of the collection.
        StoreError: If the folder cannot be written, the disk is full, or the process was forked.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._engine: Engine | None = None
        self._opening = threading.Lock()

    async def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """Write records; see `MemoryStore`."""
        await self._run(lambda engine: engine.put(collection, records))

    async def get(self, collection: Collection, ids: Sequence[str]) -> list[Record]:
        """Return records by id; see `MemoryStore`."""
        return await self._run(lambda engine: engine.get(collection, ids))

    async def search(
        self,
        collection: Collection,
        vector: Sequence[float],
        *,
        where: Where | None = None,
        limit: int = 5,
    ) -> list[Hit]:
        """Return the closest records; see `MemoryStore`. Exact, not approximate."""
        return await self._run(lambda engine: engine.search(collection, vector, where, limit))

    async def scroll(
        self,
        collection: Collection,
        *,
        where: Where | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> tuple[list[Record], str | None]:
        """Page through records in the order of their ids; see `MemoryStore`."""
        return await self._run(lambda engine: engine.scroll(collection, where, limit, after))

    async def delete(self, collection: Collection, ids: Sequence[str]) -> None:
        """Remove records; see `MemoryStore`."""
        await self._run(lambda engine: engine.delete(collection, ids))

    async def count(self, collection: Collection, *, where: Where | None = None) -> int:
        """Count records; see `MemoryStore`."""
        return await self._run(lambda engine: engine.count(collection, where))

    async def facet(
        self, collection: Collection, field: str, *, where: Where | None = None
    ) -> dict[str, int]:
        """Count records by value; see `MemoryStore`."""
        return await self._run(lambda engine: engine.facet(collection, field, where))

    async def read_manifest(self) -> Mapping[str, Any] | None:
        """Read `manifest.json`; see `MemoryStore`."""
        return await self._run(lambda engine: engine.read_manifest())

    async def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write `manifest.json`, atomically; see `MemoryStore`."""
        await self._run(lambda engine: engine.write_manifest(manifest))

    async def close(self) -> None:
        """Flush, and let the folder go if no other store of this process uses it. Idempotent."""
        await asyncio.to_thread(self._release)

    async def _run(self, job: Callable[[Engine], T]) -> T:
        engine = self._engine
        if engine is None:
            engine = await asyncio.to_thread(self._open)
        if engine.pid != os.getpid():
            raise StoreError(
                f"The memory in {self._folder} was opened before this process was forked.",
                hint="Open the memory after the fork, or start processes with `spawn`.",
            )
        return await asyncio.wrap_future(engine.submit(job))

    def _open(self) -> Engine:
        with self._opening:
            if self._engine is None:
                self._engine = _attach(self._folder)
            return self._engine

    def _release(self) -> None:
        with self._opening:
            engine, self._engine = self._engine, None
            if engine is not None:
                _detach(engine)


def _attach(folder: Path) -> Engine:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = folder.resolve()
        with _REGISTRY:
            engine = _ENGINES.get(key)
            if engine is None:
                engine = _ENGINES[key] = Engine(key)
            engine.users += 1
            return engine
    except OSError as exc:
        raise translate(exc, folder, "open") from exc


def _detach(engine: Engine) -> None:
    with _REGISTRY:
        engine.users -= 1
        if engine.users == 0 and engine.pid == os.getpid():
            del _ENGINES[engine.folder]
            engine.close()


@atexit.register
def _close_all() -> None:
    """Close what was left open, when the interpreter ends."""
    for engine in list(_ENGINES.values()):
        with contextlib.suppress(StoreError):  # the log keeps what could not be flushed
            engine.close()
    _ENGINES.clear()


def _forget() -> None:
    """Drop in a forked child what belongs to its parent: the worker thread was not copied."""
    global _REGISTRY  # noqa: PLW0603 - another thread of the parent may have held it at the fork
    _REGISTRY = threading.Lock()
    for engine in _ENGINES.values():
        engine.abandon()
    _ENGINES.clear()


os.register_at_fork(after_in_child=_forget)
