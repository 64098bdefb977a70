"""`mem2evolve run`: parses, calls, prints; every decision is made elsewhere."""

import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from ..errors import InputError
from ._approval import Answers, answering
from ._common import wait
from ._report import leave_by, report, shown
from ._text import typed
from ._work import solve

STDIN_BYTES: Final = 4 << 20
"""Read from standard input at the most: more than any task may have."""


@click.command()
@click.argument("task", required=False)
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
@click.option("--resume", metavar="RUN", help="Go on with that run instead, as `runs resume` does.")
@click.option("--yes", is_flag=True, help="Download the embedded model without asking.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON line instead of the answer, and no story.",
)
@click.option("--stream-json", is_flag=True, help="Print one JSON line an event, as they happen.")
@click.pass_context
def run(ctx: click.Context, /, task: str | None, resume: str | None, **options: Any) -> None:
    """Solve TASK (`-` reads it from standard input).

    The answer goes to standard output as soon as it is there, the story to standard error. Exit code 0:
    solved, as far as is known. 1: not solved. 2: it could not run. 3: it waits for a person. 130:
    interrupted. What was not finished goes on with `mem2evolve runs resume`.
    """
    if (task is None) == (resume is None):
        raise click.UsageError("Give a TASK, or a run with --resume.")
    if resume is not None:
        _resume(ctx, resume, options)
        return
    task = str(task)
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
    show = shown(options)
    [end] = await solve([task], files, context, settings, answers, show=show, yes=options["yes"])
    report(end, show)
    leave_by(end)


def _resume(ctx: click.Context, run_id: str, options: dict[str, Any]) -> None:
    """Go on with a run: its settings are those that it was begun with."""
    from .runs import resume  # noqa: PLC0415 - `--help` stays quick

    own = {option.name for option in resume.params} - {"run_id"}
    ctx.invoke(resume, run_id=run_id, **{name: options[name] for name in own})


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
