"""`mem2evolve memory delete`: removes a run, an asset or a lesson with what came of it."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from .._checkpoints import hold, list_unfinished, open_checkpoints
from .._common import open_memory, print_json, say, short, wait
from .._text import typed
from ._ask import DRY_RUN, JSON, YES, agreed, can_ask, say_lines

if TYPE_CHECKING:
    from ...memory.care.deletion import Deletion
    from ...memory.records import ToolRecord
    from ...settings import Settings


@click.command()
@click.argument("what", metavar="RUN|TOOL[@vN]|AGENT[@vN]|LESSON")
@click.option("--namespace", help="Where that name or id is.")
@DRY_RUN
@YES
@JSON
def delete(what: str, namespace: str | None, **options: bool) -> None:
    """Delete a run, a tool, an expert or a lesson, with what came of it.

    Runs and lessons are named by the start of their ids; NAME is all versions of an asset. With a run go the assets
    that it made and the lessons that it alone taught; with a tool, the lessons from its making. Nothing that stays
    names what is gone. It says what goes, and asks; it cannot be undone.
    """
    wait(_delete(typed(what), namespace, **options))


async def _delete(
    what: str, namespace: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    from ...memory.care.cascade import plan_deletion  # noqa: PLC0415 - `--help` stays quick
    from ...memory.care.deletion import carry_out  # noqa: PLC0415
    from ...memory.care.snapshot import take_snapshot  # noqa: PLC0415
    from ...memory.care.targets import find_target  # noqa: PLC0415
    from ...settings import Settings  # noqa: PLC0415

    settings = Settings.from_env()
    begun = {run.run_id for run in list_unfinished(settings)}
    left: list[ToolRecord] = []
    done = False
    async with open_memory() as memory:
        snapshot = await take_snapshot(memory)
        target = find_target(snapshot, what, namespace, begun)
        plan = plan_deletion(snapshot, runs=target.runs, kept=target.kept)
        unfinished = [run for run in target.runs if run in begun]
        can_ask(yes=yes, dry_run=dry_run)
        if not as_json:
            _print(plan, unfinished)
        if not dry_run and agreed(f"Delete {target.what} and what goes with it?", yes=yes):
            with ExitStack() as held:
                for run in unfinished:
                    held.enter_context(hold(settings, run))
                left = await carry_out(memory, plan, settings.tools_dir)
                await _forget(settings, unfinished)
            done = True
    if as_json:
        print_json(_as_json(plan, unfinished, left) | {"done": done})
        return
    if done:
        gone = len(plan.gone) + len(unfinished)
        click.echo(f"{gone} deleted, {len(plan.changed)} rewritten", err=True)
    for tool in left:
        say(f"The files of {tool.name} v{tool.version} were edited by hand, and are left.")


async def _forget(settings: "Settings", runs: list[str]) -> None:
    """Drop the state of runs that are not finished; they are held."""
    if not runs:
        return
    async with open_checkpoints(settings) as checkpoints:
        for run in runs:
            await checkpoints.forget(run)


def _print(plan: "Deletion", unfinished: list[str]) -> None:
    lines = [f"delete   unfinished run {short(run)}: its state" for run in unfinished]
    lines += [
        f"delete   {_kind(one.kind)} {short(one.id)} {one.name[:60]}: {one.why}"
        for one in plan.gone
    ]
    say_lines(lines)
    say_lines(
        [
            f"rewrite  {_kind(_kind_of(one.record))} {short(one.id)}"
            + (f" as {short(one.record.id)}" if one.id != one.record.id else "")
            + f": {one.why}"
            for one in plan.changed
        ]
    )
    for note in plan.notes:
        say(f"note     {note}")


def _kind(kind: str) -> str:
    return {"experience": "lesson", "agent": "expert"}.get(kind, kind)


def _kind_of(record: Any) -> str:
    from ...memory.rows import RECORD_TYPE  # noqa: PLC0415

    return next(kind for kind, type_ in RECORD_TYPE.items() if isinstance(record, type_))


def _as_json(plan: "Deletion", unfinished: list[str], left: "list[ToolRecord]") -> dict[str, Any]:
    return {
        "deleted": [one._asdict() for one in plan.gone],
        "unfinished": unfinished,
        "rewritten": [
            {"kind": _kind_of(one.record), "id": one.id, "as": one.record.id, "why": one.why}
            for one in plan.changed
        ],
        "notes": list(plan.notes),
        "files_left": [f"{tool.name} v{tool.version}" for tool in left],
    }
