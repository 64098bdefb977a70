"""`mem2evolve memory import`: look at a bundle, then take what is new of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .._common import print_json, print_table, say, wait
from .._text import one_line, plain
from ._ask import DRY_RUN, JSON, YES, agreed
from ._progress import progress
from .export import WORDS

if TYPE_CHECKING:
    from ...memory.bundle.plan import Plan
    from ...memory.bundle.read import Bundle
    from ...nodes.desk import Resources
    from ...nodes.life.importing import Imported

COLUMNS: Final = ("new", "same", "conflicting", "refused")
SHOWN: Final = 10


@click.command("import")
@click.argument("bundle", type=click.Path(dir_okay=False, path_type=Path))
@DRY_RUN
@YES
@click.option("--into", default="", metavar="NS", help="Put all of it into this namespace.")
@JSON
def import_(bundle: Path, *, dry_run: bool, yes: bool, into: str, as_json: bool) -> None:
    """Take in what is new of BUNDLE.

    All of it is checked and a preview shown first. Tools are run on their cases in the sandbox, and are
    used only if they pass; those that may do more than compute wait until you activate them. What is here
    is never changed. An import that was broken off is finished by the same command.
    """
    wait(_import(bundle, dry_run=dry_run, yes=yes, into=into, as_json=as_json))


async def _import(path: Path, *, dry_run: bool, yes: bool, into: str, as_json: bool) -> None:
    import asyncio  # noqa: PLC0415 - `--help` stays quick

    from ...api import open_resources  # noqa: PLC0415
    from ...memory.bundle.plan import plan_import  # noqa: PLC0415
    from ...memory.bundle.read import Bundle  # noqa: PLC0415
    from ...nodes.life.importing import wanting_more  # noqa: PLC0415

    resources = open_resources()
    try:
        with await asyncio.to_thread(Bundle, path, progress()) as bundle:
            plan = await plan_import(resources.memory, bundle, into)
            wants = await wanting_more(bundle, plan)
            if not as_json:
                await _show(resources, bundle, plan, wants)
            done = None
            if not dry_run:
                done = await _take(resources, bundle, plan, yes=yes)
            if as_json:
                print_json(_as_json(path, bundle, plan, wants, done))
    finally:
        await resources.close()


async def _take(
    resources: "Resources", bundle: "Bundle", plan: "Plan", *, yes: bool
) -> "Imported | None":
    from ...nodes.life.importing import bring_in  # noqa: PLC0415

    coming = sum(tally.coming for tally in plan.tallies.values())
    if not coming:
        click.echo("Nothing of it is new; nothing was changed.", err=True)
        return None
    if not agreed(f"Import {coming:,} records?", yes=yes):
        return None
    done = await bring_in(resources, bundle, plan, progress())
    counted = ", ".join(f"{done.written[kind]} {word}" for word, kind in WORDS.items())
    click.echo(f"imported {counted}", err=True)
    for line in done.quarantined[:SHOWN]:
        click.echo(plain(one_line(f"quarantined {line}")), err=True)
    if (more := len(done.quarantined) - SHOWN) > 0:
        click.echo(f"quarantined {more} more: `mem2evolve tools list`", err=True)
    return done


async def _show(resources: "Resources", bundle: "Bundle", plan: "Plan", wants: "list[str]") -> None:
    """Print the preview."""
    head = bundle.head
    manifest = await resources.memory.manifest()
    ours = manifest.embedding if manifest else resources.memory.embedding
    made = f"made {head.created_at} with {head.embedding or 'no embedding model'}"
    say(f"{made}, licence {head.licence or 'not stated'}", bold=True)
    if head.embedding != ours:
        say(f"this memory has {ours}: everything is embedded anew, as always")
    rows: list[tuple[str, ...]] = [("", *COLUMNS)]
    rows += [
        (word, *(str(getattr(plan.tallies[kind], column)) for column in COLUMNS))
        for word, kind in WORDS.items()
    ]
    print_table(rows, empty="")
    for line in plan.conflicts:
        say(f"conflict {line}")
    for line in plan.refusals:
        say(f"refused  {line}")
    for line in wants[:SHOWN]:
        say(f"asks     {line}: it waits, quarantined, until you activate it")
    if plan.tallies["experience"].coming or plan.tallies["agent"].coming:
        say("Lessons and experts steer what the model does: import those of people you trust.")
    if plan.tallies["run"].coming:
        say("Runs come in as history: they count for no use and no win of anything here.")


def _as_json(
    path: Path, bundle: "Bundle", plan: "Plan", wants: "list[str]", done: "Imported | None"
) -> dict[str, Any]:
    tallies = {
        word: {column: getattr(plan.tallies[kind], column) for column in COLUMNS}
        for word, kind in WORDS.items()
    }
    return {
        "bundle": str(path),
        "sha256": bundle.sha256,
        "head": bundle.head.model_dump(mode="json"),
        "preview": tallies,
        "conflicts": plan.conflicts,
        "refused": plan.refusals,
        "wants": wants,
        "imported": done.written if done else None,
        "quarantined": done.quarantined if done else [],
    }
