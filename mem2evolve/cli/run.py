"""`mem2evolve run`: parses, calls, prints; every decision is made elsewhere."""

import contextlib
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import click

from ..errors import InputError
from ._approval import WAITING, Answers, about, answering
from ._checkpoints import Unfinished
from ._common import print_json, wait
from ._drive import Driver, End, how_to_resume, open_driver
from ._text import drop_unwritten, plain, typed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..graph.context import Context
    from ..nodes.desk import Resources
    from ..settings import Settings

STDIN_BYTES: Final = 4 << 20
"""Read from standard input at the most: more than any task may have."""


@click.command()
@click.argument("task")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(readable=False),  # whether it can be read is checked with the rest
    help="A file of the task; may be given more than once.",
)
@click.option(
    "--mode", default="full", help="full, experience_only, assets_only, react, cot or direct."
)
@click.option("--model", help="As in openai:gpt-5, or `embedded` (MEM2EVOLVE_MODEL).")
@click.option(
    "--model-file", type=click.Path(), help="Any GGUF file for the embedded model's server."
)
@click.option("--namespace", default="default", help="Keeps memories apart.")
@click.option(
    "--delta",
    type=float,
    help="Similarity from which an asset is recruited; calibrated when left out.",
)
@click.option("--no-evolve", is_flag=True, help="Stop at the answer; learn nothing.")
@click.option("--no-web", is_flag=True, help="Search nothing on the web.")
@click.option(
    "--ask",
    type=click.Choice(["never", "risky", "always"]),
    default="risky",
    help="When a person is asked before a tool is kept.",
)
@answering
@click.option("--yes", is_flag=True, help="Download the embedded model without asking.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON line instead of the answer, and no story.",
)
def run(task: str, **options: Any) -> None:
    """Solve TASK (`-` reads it from standard input).

    The answer goes to standard output as soon as it is there, the story to standard error. Exit code 0:
    answered. 2: it could not run. 3: it waits for a person. 130: interrupted. What was not finished goes on
    with `mem2evolve runs resume`.
    """
    task = _from_stdin() if task == "-" else typed(task)
    files = [str(Path(name).absolute()) for name in options["files"]]
    wait(_run(task, files, options))


async def _run(task: str, files: list[str], options: dict[str, Any]) -> None:
    from ..graph.context import Context  # noqa: PLC0415 - `--help` stays quick
    from ..settings import Settings  # noqa: PLC0415

    if options["model_file"]:
        os.environ["MEM2EVOLVE_MODEL_FILE"] = options["model_file"]
    settings = Settings.from_env(model=options["model"])
    context = Context(
        mode=options["mode"],
        namespace=typed(options["namespace"]),
        delta=options["delta"],
        evolve=not options["no_evolve"],
        web=not options["no_web"],
        approve=options["ask"],
    )
    answers = Answers(approve=options["approve"], reject=options["reject"])
    quiet, yes = options["as_json"], options["yes"]
    [end] = await solve([task], files, context, settings, answers, quiet=quiet, yes=yes)
    report(end, as_json=options["as_json"])


async def solve(
    tasks: list[str],
    files: list[str],
    context: "Context",
    settings: "Settings",
    answers: Answers,
    *,
    quiet: bool,
    yes: bool,
) -> list[End]:
    """Solve tasks one after the other, telling the story; return how far each got."""
    from ..nodes.retrieve_experience import check_files, check_task  # noqa: PLC0415 - `--help` stays quick

    tasks = [check_task(task) for task in tasks]
    check_files(files)
    async with working(settings, context, answers, quiet=quiet, yes=yes) as driver:
        ends: list[End] = []
        for task in tasks:
            run = Unfinished(
                run_id=str(uuid4()),
                given={"task": task, "files": files},
                context=asdict(context),
                model=settings.model,
            )
            ends.append(await driver.start(run, context))
        return ends


@asynccontextmanager
async def working(
    settings: "Settings",
    context: "Context",
    answers: Answers,
    *,
    quiet: bool,
    yes: bool,
    told: list[str] | None = None,
) -> "AsyncIterator[Driver]":
    """Open everything that a run needs, and close it. Answers go to standard output, and into `told`."""
    from ._story import Story  # noqa: PLC0415 - `--help` stays quick

    resources = open_with_progress(settings, yes=yes)
    story = Story(quiet=quiet)
    written = True

    def tell(event: dict[str, Any]) -> None:
        nonlocal written
        story.tell(event)
        if event["event"] == "answered" and not quiet:
            written = write_answer(event["answer"]) and written
            if told is not None:
                told.append(event["answer"])

    try:
        await _look_ahead(resources, context)
        async with open_driver(resources, answers, tell) as driver:
            yield driver
    finally:
        await resources.close()
    if not written:
        raise SystemExit(1)


def report(end: End, *, as_json: bool) -> None:
    """Print what `--json` prints; end with exit code 3 when the run waits for a person."""
    if as_json:
        print_json(
            {"run_id": end.run_id, "waiting": end.waiting} if end.waiting else summary(end.state)
        )
    if end.waiting:
        names = ", ".join(map(about, end.waiting))
        click.echo(
            f"run {end.run_id[:8]} waits for a person's word on {names}: {how_to_resume(end.run_id)}"
            " asks on a terminal; --approve or --reject WHY answers",
            err=True,
        )
        raise SystemExit(WAITING)


async def _look_ahead(resources: "Resources", context: "Context") -> None:
    """Open what every run needs, so that what is wrong there is said before anything is spent.

    Raises:
        StoreError: If the memory cannot be opened.
        ModelError: If the model cannot be opened.
        ConfigError: If a setting of theirs is malformed.
    """
    await resources.memory.count("run")
    await resources.models.chat(context.model_for("actor"))


def write_answer(answer: str) -> bool:
    """Write the answer to standard output at once. If it cannot be, the run goes on: it is in the run's record."""
    try:
        # A terminal must not obey what a model says; a file or a pipe gets every byte of it.
        click.echo(plain(answer) if sys.stdout.isatty() else answer, color=True)
        sys.stdout.flush()
    except OSError as exc:
        with contextlib.suppress(OSError):
            click.echo(f"The answer could not be written to standard output: {exc}.", err=True)
        drop_unwritten(sys.stdout)
        return False
    return True


def open_with_progress(settings: "Settings", *, yes: bool) -> "Resources":
    """Open the resources; the embedded model asks for its download on this terminal."""
    from ..api import open_resources  # noqa: PLC0415
    from .model import ProgressPrinter, terminal_confirm  # noqa: PLC0415

    def start() -> tuple[str, str]:
        from ..models.embedded import start as start_embedded  # noqa: PLC0415

        with ProgressPrinter() as report:
            endpoint = start_embedded(terminal_confirm(yes=yes), report)
        return endpoint.base_url, endpoint.model

    return open_resources(settings, start_embedded=start)


def summary(end: dict[str, Any]) -> dict[str, Any]:
    """Return what `--json` prints."""
    from ..nodes.chronicle import seconds_of, totals  # noqa: PLC0415

    return {
        "run_id": end["run_id"],
        "answer": end["answer"],
        "verdict": end["verdict"],
        "judgement": end["judgement"],
        "decisions": [
            {key: value for key, value in one.items() if key != "record"}
            for one in end["decisions"]
        ],
        "kept": end["kept"],
        "learned": end["learned"],
        "tokens": totals(end["ledger"]),
        "seconds": seconds_of(end["ledger"], end["started"], end["ended"]),
    }


def _from_stdin() -> str:
    data = sys.stdin.buffer.read(STDIN_BYTES + 1)
    if len(data) > STDIN_BYTES:
        raise InputError(
            f"Standard input has more than {STDIN_BYTES / 1e6:.0f} MB.",
            hint="Put the long part into a file and give it with --file.",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InputError(
            f"Standard input is no UTF-8 text: byte {exc.start} is {data[exc.start]:#04x}.",
            hint="Give binary data as a file with --file.",
        ) from exc
