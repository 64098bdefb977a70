"""`mem2evolve memory export`: records as one file, to keep or to hand on."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...errors import InputError
from .._common import open_memory, print_json, say, wait
from ._progress import progress

if TYPE_CHECKING:
    from ...memory.rows import RecordKind

WORDS: Final[dict[str, "RecordKind"]] = {
    "tools": "tool",
    "experts": "agent",
    "lessons": "experience",
    "runs": "run",
}
"""What people call the kinds of records."""
SHOWN: Final = 5


@click.command()
@click.argument("bundle", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--namespace", help="Only records of this namespace.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice([*WORDS]), help="Only these; repeatable."
)
@click.option("--no-runs", is_flag=True, help="Leave out runs: they hold tasks and answers.")
@click.option("--licence", default="", metavar="SPDX", help="Its terms, such as CC-BY-4.0.")
@click.option("--yes", is_flag=True, help="Replace a file that is there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def export(bundle: Path, **options: Any) -> None:
    """Write records into BUNDLE, a zip file for `memory import`.

    Runs hold the tasks, the answers and all that was said on the way: leave them out with --no-runs
    before you hand a bundle on. Lessons then still name the runs that taught them.
    """
    if bundle.exists() and not options["yes"]:
        raise InputError(f"{str(bundle)!r} exists.", hint="Name another file, or add --yes.")
    options.pop("yes")
    wait(_export(bundle, **options))


async def _export(
    path: Path,
    *,
    namespace: str | None,
    kinds: tuple[str, ...],
    no_runs: bool,
    licence: str,
    as_json: bool,
) -> None:
    from ...memory.bundle.write import export_bundle  # noqa: PLC0415 - `--help` stays quick

    chosen = [WORDS[kind] for kind in kinds or WORDS if not (no_runs and kind == "runs")]
    async with open_memory() as memory:
        done = await export_bundle(
            memory, path, kinds=chosen, namespace=namespace, licence=licence, tell=progress()
        )
    if as_json:
        facts = {"counts": done.counts, "left_out": done.left_out, "licence": licence}
        print_json({"bundle": str(path), **facts})
        return
    counted = ", ".join(f"{done.counts[kind]} {word}" for word, kind in WORDS.items())
    say(f"written  {path}  {counted}")
    reasons = Counter(done.left_out.values()).most_common()
    for why, count in reasons[:SHOWN]:
        say(f"left out {count} of {why}")
    if len(reasons) > SHOWN:
        say("and more; --json lists them")
    if not any(done.counts.values()):
        click.echo("Nothing fits what you asked for: the bundle is empty.", err=True)
    if done.counts["run"]:
        hint = "It holds what you asked and what was answered; --no-runs leaves that out."
        click.echo(hint, err=True)
