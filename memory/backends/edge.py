"""The embedded store: Qdrant Edge, one shard per collection, in this process or in another.

- One process owns a folder (`memory.backends.owner`) and serves it to the other processes of the same user
  (`memory.backends.service`); when it ends, one of them takes over (`memory.backends.access`).
- The `EdgeStore`s of one process share it. One worker thread owns the shards: the engine is fast,
  and no lock is held over an `await`.
- Every write goes through the write-ahead log, so a killed process loses none, whatever the signal:
  none is caught here. To outlive a power cut it must be flushed too: within `FLUSH_SECONDS`, every
  `FLUSH_WRITES`, on close and when the interpreter ends.
- `optimize()` is never called: it would hold the interpreter's lock. Plain scans are fast enough
  for the hundred thousands of records that a memory holds.
"""

import asyncio
import atexit
import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ...errors import StoreError, StoreMismatch
from ..manifest import generation_of
from ..store import COLLECTIONS, Collection, Hit, Record, Where
from .access import Access
from .engine import generation_folder
from .guard import CONTENTS
from .operations import Operations
from .owner import busy

T = TypeVar("T")

_OPEN: Final[dict[Path, Access]] = {}
"""What this process uses. One folder can be opened once only, so its users share."""
_REGISTRY = threading.Lock()


class EdgeStore:
    """A `MemoryStore` in a local folder, which many processes of one user may use at once.

    Opened at the first call. A call whose owner ends before it answers is repeated with the next
    one; that harms nothing, since every operation is idempotent. When `StoreBusy` or
    `StoreUnavailable` is raised, a write may have been done all the same.

    Args:
        folder: Holds the shards, the manifest and the lock; made when missing.
        alone: Why no other process may use it meanwhile, as a clause about its owner. Empty: it is shared.

    Raises:
        StoreBusy: (from any method, as the rest) If another process holds the folder and does not
            serve this one: it hangs, or runs as another user or version.
        StoreUnavailable: If one owner after the other died over one call.
        StoreDamaged: If the files cannot be read. They are left as they are.
        StoreMismatch: If a vector's length is not that of the collection, or the vectors were made anew
            by another process since this store was opened.
        StoreError: If the folder cannot be written, the disk is full, or the process was forked.
    """

    def __init__(self, folder: Path, *, alone: str = "") -> None:
        self._folder = folder
        self._alone = alone
        self._end: Operations | None = None
        """What was asked last, and found to be of this generation."""
        self._generation: int | None = None
        self._access: Access | None = None
        self._opening = threading.Lock()

    async def put(self, collection: Collection, records: Sequence[Record]) -> None:
        """Write records; see `MemoryStore`."""
        await self._run(lambda memory: memory.put(collection, records))

    async def get(self, collection: Collection, ids: Sequence[str]) -> list[Record]:
        """Return records by id; see `MemoryStore`."""
        return await self._run(lambda memory: memory.get(collection, ids))

    async def search(
        self,
        collection: Collection,
        vector: Sequence[float],
        *,
        where: Where | None = None,
        limit: int = 5,
    ) -> list[Hit]:
        """Return the closest records; see `MemoryStore`. Exact, not approximate."""
        return await self._run(lambda memory: memory.search(collection, vector, where, limit))

    async def scroll(
        self,
        collection: Collection,
        *,
        where: Where | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> tuple[list[Record], str | None]:
        """Page through records in the order of their ids; see `MemoryStore`."""
        return await self._run(lambda memory: memory.scroll(collection, where, limit, after))

    async def delete(self, collection: Collection, ids: Sequence[str]) -> None:
        """Remove records; see `MemoryStore`."""
        await self._run(lambda memory: memory.delete(collection, ids))

    async def count(self, collection: Collection, *, where: Where | None = None) -> int:
        """Count records; see `MemoryStore`."""
        return await self._run(lambda memory: memory.count(collection, where))

    async def facet(
        self, collection: Collection, field: str, *, where: Where | None = None
    ) -> dict[str, int]:
        """Count records by value; see `MemoryStore`."""
        return await self._run(lambda memory: memory.facet(collection, field, where))

    async def read_manifest(self) -> Mapping[str, Any] | None:
        """Read `manifest.json`; see `MemoryStore`."""
        return await self._run(lambda memory: memory.read_manifest())

    async def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write `manifest.json`, atomically; see `MemoryStore`."""
        await self._run(lambda memory: memory.write_manifest(manifest))

    async def close(self) -> None:
        """Flush, and let the folder go if no other store of this process uses it. Idempotent."""
        await asyncio.to_thread(self._release)

    def beside(self, generation: int) -> "EdgeStore":
        """Return a store for the vectors of another generation, which no manifest names yet."""
        return EdgeStore(generation_folder(self._folder, generation), alone=self._alone)

    async def drop(self, generation: int) -> None:
        """Remove a generation that is not in use; one that is not there is passed over."""
        await asyncio.to_thread(_remove, self._folder, generation)

    async def _run(self, job: Callable[[Operations], T]) -> T:
        access = self._access
        if access is None:
            access = await asyncio.to_thread(self._open)
        if access.pid != os.getpid():
            raise StoreError(
                f"The memory in {self._folder} was opened before this process was forked.",
                hint="Open the memory after the fork, or start processes with `spawn`.",
            )
        return await asyncio.wrap_future(access.submit(lambda memory: self._ask(memory, job)))

    def _ask(self, memory: Operations, job: Callable[[Operations], T]) -> T:
        """Run a job, unless the vectors are others than those that this store was opened on.

        They can be others only after the owner has changed. Runs in the access's thread.
        """
        if memory is not self._end:
            generation = generation_of(memory.read_manifest())
            if self._generation not in (None, generation):
                raise StoreMismatch(
                    f"The vectors of the memory in {self._folder} were made anew meanwhile.",
                    hint="Start this program again, with the embedding model that the memory has now.",
                )
            self._generation, self._end = generation, memory
        return job(memory)

    def _open(self) -> Access:
        with self._opening:
            if self._access is None:
                self._access = _attach(self._folder, self._alone)
            return self._access

    def _release(self) -> None:
        with self._opening:
            access, self._access = self._access, None
            self._generation = self._end = None
            if access is not None:
                _detach(access)


def _attach(folder: Path, alone: str) -> Access:
    key = folder.resolve()
    with _REGISTRY:
        access = _OPEN.get(key)
        if access is not None and (alone or access.alone):
            raise busy(key, "and cannot be shared for this")
        if access is None:
            access = _OPEN[key] = Access(key, alone)
        access.users += 1
    try:
        access.submit(lambda _: None).result()
    except BaseException:
        _detach(access)
        raise
    return access


def _detach(access: Access) -> None:
    with _REGISTRY:
        access.users -= 1
        if access.users == 0 and access.pid == os.getpid():
            del _OPEN[access.folder]
            access.close()


def _remove(folder: Path, generation: int) -> None:
    where = generation_folder(folder, generation)
    if not generation:
        for left in folder.glob(f"{CONTENTS}*"):
            left.unlink(missing_ok=True)
    for name in [where] if generation else [folder / name for name in COLLECTIONS]:
        if name.exists():
            aside = name.with_name(f"{name.name}.old")  # half a one is never taken for a whole
            shutil.rmtree(aside, ignore_errors=True)
            name.rename(aside)
    for aside in [
        *folder.glob("generation-*.old"),
        *(folder / f"{name}.old" for name in COLLECTIONS),
    ]:
        shutil.rmtree(aside, ignore_errors=True)


@atexit.register
def _close_all() -> None:
    """Close what was left open, when the interpreter ends."""
    for access in list(_OPEN.values()):
        with contextlib.suppress(StoreError):  # the log keeps what could not be flushed
            access.close()
    _OPEN.clear()


def _forget() -> None:
    """Drop in a forked child what belongs to its parent: the worker thread was not copied."""
    global _REGISTRY  # noqa: PLW0603 - another thread of the parent may have held it at the fork
    _REGISTRY = threading.Lock()
    for access in _OPEN.values():
        access.abandon()
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget)
