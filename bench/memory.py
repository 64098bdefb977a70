"""What a recall costs beside the cheapest possible one, in the owner and over the socket.

    python bench/memory.py [--sizes 1000 10000 100000] [--rounds 30] [--attempts 3] [--chart]

Lessons with random unit vectors of 384 numbers are written as a run would. Every round asks each subject
once, in random order, so that other work on the machine hits all alike; ratios are of medians. The floor is numpy in
one thread: the product of all vectors with the query, and the best five; for the filtered one the same with nine of ten
records masked out. An attempt that misses a bar is repeated. The last line is one JSON object; the exit
code is 1 if no attempt reaches the bars.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the engine, which scans a segment in one thread
import numpy as np
from memory_roles import DIM, SPACES, K, Vectors, drawn, space, timed_async

from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.manifest import Manifest
from mem2evolve.memory.records import ExperienceRecord
from mem2evolve.memory.rows import payload_of
from mem2evolve.memory.store import Record
from mem2evolve.models.embeddings import open_embedder

BARS: Final = {
    "recall_100k_ratio": (0.0, 1.6),
    "recall_100k_filtered_ratio": (0.0, 0.5),
    "open_100k_s": (0.0, 1.0),
    "rss_100k_mb": (0.0, 350.0),
    "loop_block_ms": (0.0, 100.0),
    "insert_per_s": (1000.0, 1e9),
}
"""Least and most."""
ROLES: Final = Path(__file__).with_name("memory_roles.py")
BATCH: Final = 1000
BASELINE_MOST: Final = 10_000
"""Records up to which LangGraph's InMemoryStore is measured: it takes seconds a search beyond."""
SUBJECTS: Final = (
    "floor",
    "owner",
    "socket",
    "floor_filtered",
    "owner_filtered",
    "socket_filtered",
)


async def main() -> int:
    """Try until the bars are reached; print every attempt, and the last one alone at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--attempts", type=int, default=3)
    parser.add_argument("--chart", action="store_true", help="Print a chart, in Mermaid.")
    options = parser.parse_args()
    report: dict[str, float] = {}
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        filled = {size: await fill(Path(scratch) / str(size), size) for size in options.sizes}
        for _ in range(options.attempts):
            ratios = {size: await measure(one, options.rounds) for size, one in filled.items()}
            report = summary(ratios, filled[max(filled)])
            missed = [name for name, (low, high) in BARS.items() if not low <= report[name] <= high]
            if not missed:
                break
            print("missed:", ", ".join(f"{name} {report[name]}" for name in missed), flush=True)
    if options.chart:
        print(chart(ratios))
    print(json.dumps(report))
    return 1 if missed else 0


class Filled:
    """A memory on disk, and what its numpy twin needs."""

    def __init__(self, folder: Path, vectors: Vectors, insert_per_s: float) -> None:
        self.folder, self.vectors, self.insert_per_s = folder, vectors, insert_per_s
        self.masked = np.arange(len(vectors)) % SPACES != 0


async def fill(folder: Path, size: int) -> Filled:
    """Write that many lessons, `BATCH` at a time."""
    vectors, store = drawn(size), EdgeStore(folder)
    await store.write_manifest(Manifest(embedding=open_embedder("minilm").name, dim=DIM).to_json())
    spent = 0.0
    for start in range(0, size, BATCH):
        batch = [record(n, vectors[n]) for n in range(start, min(start + BATCH, size))]
        started = time.perf_counter()
        await store.put("experiences", batch)
        spent += time.perf_counter() - started
    started = time.perf_counter()
    await store.close()
    spent += time.perf_counter() - started
    return Filled(folder, vectors, size / spent)


def record(n: int, vector: Vectors) -> Record:
    """Return a lesson of the usual length."""
    lesson = ExperienceRecord(
        scope="agent",
        title=f"Lesson {n}",
        description="Dates that are given in words have to be read before they are counted.",
        applies_when="A task counts days between two dates and names them in words.",
        knowledge="Read both dates into ISO form first, then count with both ends; say which.",
        learned_from=f"How many days lie between the {n}th day and the end of the year?",
        outcome="success",
        namespace=space(n),
        run_id=str(uuid.UUID(int=n)),
    )
    return Record(id=lesson.id, vector=vector.tolist(), payload=payload_of(lesson))


async def measure(filled: Filled, rounds: int) -> dict[str, float]:
    """Return medians in seconds, and what opening costs."""
    fresh = json.loads(run_as("fresh", filled.folder))
    store = EdgeStore(filled.folder)
    times: dict[str, list[float]] = {name: [] for name in SUBJECTS}
    queries = drawn(rounds + 1)
    shuffled = random.Random(0)  # noqa: S311 - an order: what ran before leaves traces in the caches
    with peer(filled.folder) as over_socket:
        await store.count("experiences")
        for n, query in enumerate(queries):
            asked = query.tolist()
            for name in shuffled.sample(SUBJECTS, len(SUBJECTS)):
                subject, _, filtered = name.partition("_")
                where = {"namespace": space(0)} if filtered else None
                if subject == "floor":
                    took = timed(lambda: floor(filled, query, filtered=bool(filtered)))  # noqa: B023
                elif subject == "owner":
                    took = await timed_async(
                        lambda: store.search("experiences", asked, where=where, limit=K)  # noqa: B023
                    )
                else:
                    took = over_socket({"vector": asked, "where": where})
                if n:  # the first round warms up
                    times[name].append(took)
    await store.close()
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return medians | fresh | await baseline(filled, queries)


def timed(act: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def floor(filled: Filled, query: Vectors, *, filtered: bool) -> list[int]:
    """Return the rows of the `K` closest vectors, as cheaply as numpy can."""
    scores = filled.vectors @ query
    if filtered:
        scores[filled.masked] = -np.inf
    best = np.argpartition(scores, -K)[-K:]
    rows: list[int] = best[np.argsort(-scores[best])].tolist()
    return rows


async def baseline(filled: Filled, queries: Vectors) -> dict[str, float]:
    """Return the median of LangGraph's InMemoryStore, where it finishes."""
    if len(filled.vectors) > BASELINE_MOST:
        return {}
    from langgraph.store.memory import InMemoryStore  # noqa: PLC0415 - heavy

    known = {f"q{n}": query.tolist() for n, query in enumerate(queries)}
    known |= {f"r{n}": vector.tolist() for n, vector in enumerate(filled.vectors)}
    index: Any = {"dims": DIM, "embed": lambda texts: [known[text] for text in texts]}
    store = InMemoryStore(index=index)
    for n in range(len(filled.vectors)):
        store.put((space(n),), str(n), {"text": f"r{n}"}, index=["text"])
    took = [
        await timed_async(lambda: store.asearch((), query=f"q{n}", limit=K))  # noqa: B023
        for n in range(min(5, len(queries)))
    ]
    return {"in_memory_store": statistics.median(took)}


@contextmanager
def peer(folder: Path) -> Iterator[Callable[[dict[str, Any]], float]]:
    """Start a process that searches over the socket; yield what has it search once, in seconds."""
    words = [sys.executable, str(ROLES), "peer", str(folder)]
    with subprocess.Popen(  # noqa: S603 - this program
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("no pipes")
        stdin, stdout = child.stdin, child.stdout

        def ask(question: dict[str, Any]) -> float:
            stdin.write(json.dumps(question) + "\n")
            stdin.flush()
            return float(stdout.readline())

        yield ask
        stdin.close()


def run_as(role: str, folder: Path) -> str:
    """Run this program in a process of its own; return what it prints."""
    words = [sys.executable, str(ROLES), role, str(folder)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout  # noqa: S603 - this program


def summary(measured: dict[int, dict[str, float]], largest: Filled) -> dict[str, float]:
    """Return the figures that have bars, and the ratios of the other sizes."""
    most = measured[len(largest.vectors)]
    report = {
        "recall_100k_ratio": most["owner"] / most["floor"],
        "recall_100k_filtered_ratio": most["owner_filtered"] / most["floor_filtered"],
        "recall_100k_socket_ratio": most["socket"] / most["floor"],
        "open_100k_s": most["open_s"],
        "rss_100k_mb": most["rss_mb"],
        "loop_block_ms": most["loop_block_ms"],
        "insert_per_s": largest.insert_per_s,
    }
    for size, taken in measured.items():
        for name in ("owner", "socket", "in_memory_store"):
            if name in taken:
                report[f"{name}_{size}"] = taken[name] / taken["floor"]
    return {name: round(value, 3) for name, value in report.items()}


def chart(measured: dict[int, dict[str, float]]) -> str:
    """Return the searches of all sizes as a chart: milliseconds, on a logarithmic feel by labels."""
    sizes = ", ".join(f'"{size:,}"' for size in measured)
    lines = [
        f'  line "{name}" [{", ".join(f"{one[name] * 1e3:.2f}" for one in measured.values())}]'
        for name in SUBJECTS[:3]
    ]
    head = [
        "```mermaid",
        "xychart-beta",
        '  title "One search, milliseconds"',
        f"  x-axis [{sizes}]",
    ]
    return "\n".join([*head, *lines, "```"])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
