"""Whether an asset or a lesson helps: the same tasks with and without it, on frozen copies of the memory."""

import random
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from .api import build_graph
from .errors import Mem2EvolveError
from .graph.context import Context
from .graph.state import Input
from .memory.backends.edge import EdgeStore
from .memory.memory import Memory, open_store
from .memory.rows import COLLECTION, Kept, RecordKind
from .memory.transfer import transfer
from .models.embeddings import open_embedder
from .nodes.answers import same_answer
from .nodes.chronicle import totals, used_ids
from .nodes.desk import Resources
from .tasks import Task

Arm = Literal["with", "without"]
ARMS: Final[tuple[Arm, ...]] = ("with", "without")
RESAMPLES: Final = 10_000
COVERAGE: Final = 0.95
"""Of the interval."""
IN_A_ROW: Final = 3
"""Tasks that fail for passing trouble one after the other before the replay gives up."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One task in one arm."""

    task: int
    """Its place in the file, from 0."""
    arm: Arm
    right: bool
    answer: str
    used: bool
    """Whether the asset was called or at work, or the lesson shown."""
    tokens: int
    """Prompt and generated, of the forward direction."""


Tell = Callable[[Trial], None]


async def replay(
    resources: Resources,
    record: Kept,
    tasks: Sequence[Task],
    *,
    repeats: int = 1,
    context: Context = Context(),  # noqa: B008 - frozen
    tell: Tell = lambda _: None,
) -> list[Trial]:
    """Run every task with the record in memory and without it, turn by turn. The memory itself is not touched.

    Runs are frozen: nothing that one makes or learns is there for the next. A task that fails in one
    arm for passing trouble is left out of both.

    Args:
        resources: What the runs use; of its memory, copies.
        record: A tool, an expert or a lesson.
        tasks: With known answers, compared as `nodes.answers.same_answer` does.
        repeats: How often each task is run in each arm.
        context: Settings of the runs.
        tell: Is told of each trial.

    Raises:
        InputError: If nothing of that record is in the memory.
        ModelError: If the model cannot be used.
        SandboxUnavailable: If code cannot be run.
    """
    frozen = replace(context, evolve=False, approve="never", namespace=record.namespace)
    with tempfile.TemporaryDirectory(prefix="mem2evolve-replay-") as scratch:
        arms: dict[Arm, Resources] = {
            arm: await _copied(resources, Path(scratch) / arm, record, arm) for arm in ARMS
        }

        async def run(number: int, arm: Arm) -> Trial:
            return await _run(arms[arm], record, tasks[number], number, arm, frozen)

        try:
            return await _turns(run, len(tasks), repeats, tell)
        finally:
            for one in arms.values():
                await one.memory.close()


async def _turns(
    run: Callable[[int, Arm], Awaitable[Trial]], tasks: int, repeats: int, tell: Tell
) -> list[Trial]:
    """Run each task in both arms; which comes first changes from turn to turn."""
    trials: list[Trial] = []
    failed = 0
    for n in range(tasks * repeats):
        order = ARMS if n % 2 == 0 else ARMS[::-1]
        try:
            pair = [await run(n % tasks, arm) for arm in order]
        except Mem2EvolveError as exc:
            failed += 1
            if not exc.transient or failed == IN_A_ROW:
                raise
            continue
        failed = 0
        trials += pair
        for trial in pair:
            tell(trial)
    return trials


async def _copied(resources: Resources, home: Path, record: Kept, arm: str) -> Resources:
    """Return the resources with a copy of their memory, without the record in one arm."""
    settings = replace(resources.settings, home=home, qdrant_url=None)
    source, target = open_store(resources.settings), EdgeStore(settings.state_dir / "memory")
    try:
        await transfer(source, target)
    finally:
        await source.close()
    memory = Memory(target, open_embedder(settings.embedding))
    if arm == "without":
        await memory.delete(kind_of(record), record.id)
    # What other MCP servers do cannot be done on trial.
    return replace(resources, settings=settings, memory=memory, foreign=None, write_files=False)


def kind_of(record: Kept) -> RecordKind:
    """Return the kind of a record by its type."""
    from .memory.rows import RECORD_TYPE  # noqa: PLC0415

    return next(kind for kind in COLLECTION if isinstance(record, RECORD_TYPE[kind]))


async def _run(
    resources: Resources, record: Kept, task: Task, number: int, arm: Arm, context: Context
) -> Trial:
    given = Input(task=task.task, files=[*task.files])
    end: Any = await build_graph(resources).ainvoke(given, context=context)
    spent = totals(end["ledger"]).get("forward", {})
    shown = {lesson["id"] for lesson in end["lessons"]}
    shown |= {key for one in (*end["results"], *end["creations"]) for key in one["lessons"]}
    return Trial(
        task=number,
        arm=arm,
        right=same_answer(task.answer or "", end["answer"]),
        answer=end["answer"],
        used=arm == "with" and (record.id in shown or record.id in used_ids(end)),
        tokens=spent.get("prompt", 0) + spent.get("completion", 0),
    )


def report(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return what the record is worth: accuracy and tokens in both arms, the gains, and their intervals.

    A gain is the mean over tasks of with less without; repeats of a task are averaged first. `interval`
    is its 95 % bootstrap percentile interval over tasks; `None` for fewer than two tasks.

    Source: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall, 1993,
    chapter 13.
    """
    numbers = sorted({trial.task for trial in trials})
    found: dict[str, Any] = {"tasks": len(numbers), "trials": len(trials)}
    measures: dict[str, Callable[[Trial], float]] = {
        "accuracy": lambda trial: float(trial.right),
        "tokens": lambda trial: float(trial.tokens),
    }
    for name, measure in measures.items():
        arms = {arm: _means(trials, numbers, arm, measure) for arm in ARMS}
        gains = [a - b for a, b in zip(arms["with"], arms["without"], strict=True)]
        found[name] = {
            **{
                arm: round(statistics.fmean(values), 4) if values else None
                for arm, values in arms.items()
            },
            "gain": round(statistics.fmean(gains), 4) if gains else None,
            "interval": interval(gains),
        }
    found["used"] = sum(trial.used for trial in trials if trial.arm == "with")
    return found


def _means(
    trials: Sequence[Trial], numbers: Sequence[int], arm: str, measure: Callable[[Trial], float]
) -> list[float]:
    """Return the mean of each task in one arm."""
    return [
        statistics.fmean(measure(one) for one in trials if one.task == number and one.arm == arm)
        for number in numbers
    ]


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the bootstrap percentile interval of the mean, always the same for the same values."""
    if len(values) < 2:  # noqa: PLR2004 - one value says nothing of the spread
        return None
    draw = random.Random(0)  # noqa: S311 - resampling
    means = sorted(statistics.fmean(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = (1 - COVERAGE) / 2
    low, high = means[int(tail * RESAMPLES)], means[int((1 - tail) * RESAMPLES) - 1]
    return round(low, 4), round(high, 4)
