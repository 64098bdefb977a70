"""Other processes of `bench/memory.py`: one that searches over the socket, one that opens a memory afresh.

python bench/memory_roles.py peer|fresh FOLDER
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.memory import Memory
from mem2evolve.models.embeddings import open_embedder

DIM: Final = 384
K: Final = 5
SPACES: Final = 10
"""Namespaces; a filtered search asks for one."""
RECALLS: Final = 50
BEAT_S: Final = 0.001

Vectors = NDArray[np.float32]


def drawn(size: int) -> Vectors:
    """Return `size` unit vectors, always the same."""
    source = np.random.default_rng(size)
    vectors = source.standard_normal((size, DIM), dtype=np.float32)
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def space(n: int) -> str:
    """Return the namespace of the n-th lesson."""
    return f"space{n % SPACES}"


async def timed_async(act: Callable[[], Awaitable[Any]]) -> float:
    """Return the seconds that an awaited call takes."""
    started = time.perf_counter()
    await act()
    return time.perf_counter() - started


async def be_peer(folder: Path) -> None:
    """Search as often as a line comes in; print the seconds."""
    store = EdgeStore(folder)
    for line in sys.stdin:
        asked = json.loads(line)
        seconds = await timed_async(
            lambda: store.search("experiences", asked["vector"], where=asked["where"], limit=K)  # noqa: B023
        )
        print(seconds, flush=True)
    await store.close()


async def be_fresh(folder: Path) -> None:
    """Print what a process pays that opens the memory and recalls.

    Seconds until the first answer; what the store adds to its memory, in MiB; for how long its event
    loop was held up at most, the loading of the embedding model included.
    """
    store, query, before = EdgeStore(folder), drawn(1)[0].tolist(), resident_mb()
    opened = await timed_async(lambda: store.search("experiences", query, limit=K))
    for _ in range(RECALLS):
        await store.search("experiences", query, limit=K)
    grown = resident_mb() - before
    memory = Memory(store, open_embedder("minilm"))
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await asyncio.sleep(BEAT_S)
            longest, last = max(longest, time.perf_counter() - last - BEAT_S), time.perf_counter()

    beating = asyncio.create_task(beat())
    for n in range(RECALLS):
        await memory.recall_lessons(
            f"Count the days of {n}", scope="agent", k=K, namespace=space(n)
        )
    beating.cancel()
    await memory.close()
    print(json.dumps({"open_s": opened, "rss_mb": grown, "loop_block_ms": longest * 1e3}))


def resident_mb() -> float:
    """Return what this process holds in memory, in MiB, each page once.

    The kernel's RSS counts a page as often as it is mapped, and the engine maps its vectors twice.
    """
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


if __name__ == "__main__":
    _, role, folder = sys.argv
    asyncio.run({"peer": be_peer, "fresh": be_fresh}[role](Path(folder)))
