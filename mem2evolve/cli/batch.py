"""`mem2evolve batch`: many tasks, some at a time; broken off, it goes on where it was."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import InputError, Mem2EvolveError
from ._approval import Answers
from ._checkpoints import Unfinished, list_unfinished
from ._common import print_json, wait
from ._drive import Driver, open_driver
from ._report import NOT_SOLVED, solved
from ._text import cut, one_line, typed

if TYPE_CHECKING:
    from ..graph.context import Context
    from ..nodes.desk import Resources
    from ..tasks import Task

COULD_NOT_RUN: Final = 2


@click.command()
@click.argument("tasks", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the results go, a JSON line a task; TASKS.results.jsonl.",
)
@click.option("--jobs", type=click.IntRange(1, 64), default=2, help="Tasks at a time; 2.")
@click.option("--mode", default="full", help="As for `run`.")
@click.option("--model", help="As for `run`.")
@click.option("--namespace", default="default", help="Keeps memories apart.")
@click.option("--no-evolve", is_flag=True, help="Stop at the answers; learn nothing.")
@click.option("--no-web", is_flag=True, help="Search nothing on the web.")
@click.option("--yes", is_flag=True, help="Download the embedded model without asking.")
def batch(tasks: Path, **options: Any) -> None:
    """Run the TASKS of a file: a JSON object a line, {"task": "…", "answer": "…", "files": ["…"]}.

    Each result is written, and printed, as soon as its task ends; a summary goes to standard error. Where an
    answer is given, a result says whether it was right. Nobody is asked anything. Called again, it passes over
    what has a result and goes on with the rest. Exit code 0: all solved. 1: not all. 2: some could not run.
    """
    tasks = tasks.absolute()
    out = options.pop("out") or tasks.with_name(f"{tasks.name}.results.jsonl")
    raise SystemExit(wait(_batch(tasks, Results(out), options)))


class Results:
    """The file of results, which says what is done.

    Args:
        path: Of the file.

    Raises:
        InputError: If it holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.known: dict[str, dict[str, Any]] = {}
        """Run id → result."""
        if not path.exists():
            return
        try:
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            self.known = {row["run_id"]: row for row in rows if "error" not in row}
        except (OSError, ValueError, LookupError, TypeError) as exc:
            raise InputError(
                f"{str(path)!r} holds something else than results: {exc}.",
                hint="Name another file with `--out FILE`.",
            ) from exc

    def add(self, row: dict[str, Any]) -> None:
        """Write a result, and print it."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        print_json(row)
        sys.stdout.flush()


async def _batch(path: Path, results: Results, options: dict[str, Any]) -> int:
    from ..graph.context import Context  # noqa: PLC0415 - `--help` stays quick
    from ..settings import Settings  # noqa: PLC0415
    from ..tasks import read_tasks  # noqa: PLC0415
    from ._work import open_with_progress  # noqa: PLC0415

    tasks = await asyncio.to_thread(read_tasks, path)
    context = Context(
        mode=options["mode"],
        namespace=typed(options["namespace"]),
        evolve=not options["no_evolve"],
        web=not options["no_web"],
        approve="never",
    )
    settings = Settings.from_env(model=options["model"])
    resources = open_with_progress(settings, yes=options["yes"])
    async with AsyncExitStack() as stack:
        stack.push_async_callback(resources.close)
        driver = await stack.enter_async_context(open_driver(resources, Answers(), lambda _: None))
        work = _Batch(resources, driver, context, results)
        places = asyncio.Semaphore(options["jobs"])
        rows = await asyncio.gather(
            *(work.one(places, number, task) for number, task in enumerate(tasks, 1))
        )
    _summarise(rows)
    if any("error" in row for row in rows):
        return COULD_NOT_RUN
    return 0 if all(row["solved"] for row in rows) else NOT_SOLVED


class _Batch:
    """The tasks of one file. Each has a run id that is always the same: so what has ended is known."""

    def __init__(
        self, resources: "Resources", driver: Driver, context: "Context", results: Results
    ) -> None:
        self._resources, self._driver, self._context = resources, driver, context
        self._results = results
        self._begun = {run.run_id: run for run in list_unfinished(resources.settings)}

    async def one(self, places: asyncio.Semaphore, number: int, task: "Task") -> dict[str, Any]:
        """Return the result of a task: run it, go on with it, or take what is there."""
        run_id = self._run_id(number, task)
        if run_id in self._results.known:
            return self._results.known[run_id]
        row: dict[str, Any] = {"line": number, "run_id": run_id, "task": task.task}
        async with places:
            try:
                row |= await self._outcome(run_id, task)
            except Mem2EvolveError as exc:
                row |= {"error": str(exc), "hint": exc.hint}
        self._results.add(row)
        return row

    def _run_id(self, number: int, task: "Task") -> str:
        from ..memory.records import stable_id  # noqa: PLC0415 - `--help` stays quick

        context = self._context
        settings = [self._resources.settings.model, context.mode, context.namespace, context.evolve]
        return stable_id("batch", number, task.task, *task.files, *settings)

    async def _outcome(self, run_id: str, task: "Task") -> dict[str, Any]:
        from ..nodes.answers import same_answer  # noqa: PLC0415 - `--help` stays quick
        from ..nodes.chronicle import totals  # noqa: PLC0415

        state = await self._run(run_id, task)
        right = None if task.answer is None else same_answer(task.answer, str(state["answer"]))
        known = {} if right is None else {"right": right}
        return {
            "answer": state["answer"],
            "verdict": state["verdict"],
            "solved": solved(state) if right is None else right,
            **known,
            "decisions": [one["outcome"] for one in state["decisions"]],
            "tokens": totals(state["ledger"]),
        }

    async def _run(self, run_id: str, task: "Task") -> dict[str, Any]:
        begun = self._begun.pop(run_id, None)
        run = begun or Unfinished(
            run_id=run_id,
            given={"task": task.task, "files": [*task.files]},
            context=asdict(self._context),
            model=self._resources.settings.model,
        )
        end = await self._driver.resume(run, self._context) if begun else None
        if end is None:
            end = await self._driver.start(run, self._context)
        return end.state


def _summarise(rows: list[dict[str, Any]]) -> None:
    """Say on standard error how it went."""
    failed = [row for row in rows if "error" in row]
    ran = [row for row in rows if "error" not in row]
    known = [row for row in ran if "right" in row]
    counted = f"{len(rows)} tasks: {sum(row['solved'] for row in ran)} solved"
    if known:
        counted += f", {sum(row['right'] for row in known)} of {len(known)} answers right"
    if failed:
        counted += f", {len(failed)} could not run"
    tokens = [
        spent
        for row in ran
        for name, spent in row["tokens"].items()
        if name in ("forward", "backward")
    ]
    spent = sum(one["prompt"] + one["completion"] for one in tokens)
    click.echo(f"{counted}; {spent:,} tokens", err=True)
    for row in failed[:3]:
        click.echo(
            cut(one_line(f"line {row['line']}: {row['error']} {row['hint']}"), 300), err=True
        )
