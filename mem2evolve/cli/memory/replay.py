"""Whether an asset or a lesson helps, measured on tasks of yours."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import InputError
from .._common import NAMESPACE, print_json, say, wait

if TYPE_CHECKING:
    from ...replay import Trial


@click.command()
@click.option("--asset", metavar="NAME|ID", help="The tool or expert; NAME@v1 names a version.")
@click.option("--lesson", metavar="ID", help="The lesson, by the start of its id.")
@click.option(
    "--tasks",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='JSON Lines: {"task": "…", "answer": "…", "files": ["…"]}.',
)
@click.option(
    "--repeats", type=click.IntRange(1, 100), default=1, help="Runs of a task in each arm."
)
@NAMESPACE
@click.option("--model", help="Chat model; else the one that a run would use.")
@click.option("--yes", is_flag=True, help="Download the embedded model without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def replay(asset: str | None, lesson: str | None, **options: Any) -> None:
    """Run tasks with an asset or a lesson and without it; say what it gains.

    The memory is copied and frozen: nothing that is made or learned meanwhile is kept. Prints accuracy and
    tokens in both arms, the gains, and their 95 % bootstrap intervals over tasks.
    """
    if (asset is None) == (lesson is None):
        raise click.UsageError("Name one thing: --asset or --lesson.")
    wait(_replay(str(asset or lesson), options))


async def _replay(what: str, options: dict[str, Any]) -> None:
    from ...memory.records import RunRecord  # noqa: PLC0415 - `--help` stays quick
    from ...replay import replay, report  # noqa: PLC0415
    from ...settings import Settings  # noqa: PLC0415
    from ...tasks import read_tasks  # noqa: PLC0415
    from .._work import open_with_progress  # noqa: PLC0415
    from ..why import find  # noqa: PLC0415

    tasks = read_tasks(options["tasks"], answers=True)
    resources = open_with_progress(Settings.from_env(model=options["model"]), yes=options["yes"])
    try:
        record = await find(resources.memory, what, options["namespace"])
        if isinstance(record, RunRecord):
            raise InputError(f"{what!r} is a run.", hint="Name a tool, an expert or a lesson.")
        await resources.memory.close()  # the copies are made from the store
        trials = await replay(
            resources, record, tasks, repeats=options["repeats"], tell=_tell(len(tasks))
        )
    finally:
        await resources.close()
    found = report(trials)
    if options["as_json"]:
        print_json({"id": record.id, **found})
        return
    _show(found)


def _tell(tasks: int) -> "Any":
    """Return what tells each trial on standard error."""

    def tell(trial: "Trial") -> None:
        said = "right" if trial.right else f"wrong: {trial.answer[:60]}"
        used = ", used" if trial.used else ""
        line = (
            f"task {trial.task + 1} of {tasks}, {trial.arm}: {said}{used}, {trial.tokens:,} tokens"
        )
        click.echo(line, err=True)

    return tell


def _show(found: dict[str, Any]) -> None:
    tasks = f"{found['tasks']} task{'s' if found['tasks'] != 1 else ''}"
    say(f"{tasks}, {found['trials']} runs; it was used in {found['used']}", bold=True)
    for name in ("accuracy", "tokens"):
        one = found[name]
        between = (
            ""
            if one["interval"] is None
            else " (95 %: {:+,.4g} to {:+,.4g})".format(*one["interval"])
        )
        say(
            f"{name:10}with {one['with']:,.4g}  without {one['without']:,.4g}  "
            f"difference {one['gain']:+,.4g}{between}"
        )
    if found["tasks"] < 2:  # noqa: PLR2004 - for an interval
        click.echo("One task gives no interval.", err=True)
