"""`mem2evolve memory prune`: sets aside what no longer earns its place."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from .._common import print_json, print_table, short, wait
from ._ask import DRY_RUN, JSON, YES, agreed, can_ask

if TYPE_CHECKING:
    from ...memory.care.hygiene import Move, Plan

RULES = ("loses", "unused", "quarantined", "twin")


@click.command()
@click.option(
    "--unused-days",
    type=click.IntRange(1, 36_500),
    default=90,
    show_default=True,
    metavar="N",
    help="Days without use, or in quarantine, after which it is retired.",
)
@click.option("--namespace", help="Only in this namespace.")
@click.option("--only", type=click.Choice(RULES), multiple=True, help="Only by this rule.")
@DRY_RUN
@YES
@JSON
def prune(unused_days: int, namespace: str | None, only: tuple[str, ...], **options: bool) -> None:
    """Set aside losers, twins and what is not used. Statuses change; nothing is deleted.

    Losers are quarantined; what was unused or quarantined for long is retired; of two lessons that say the
    same, the one with the weaker record is superseded. It says what is due, and asks.
    """
    wait(_prune(unused_days, namespace, only or RULES, **options))


async def _prune(
    days: int,
    namespace: str | None,
    only: tuple[str, ...],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    from ...api import open_resources  # noqa: PLC0415 - `--help` stays quick
    from ...memory.care.hygiene import plan_pruning  # noqa: PLC0415
    from ...memory.care.snapshot import take_snapshot  # noqa: PLC0415
    from ...nodes.life.pruning import carry_out  # noqa: PLC0415

    resources = open_resources()
    try:
        memory = resources.memory
        snapshot = await take_snapshot(memory, namespace)
        plan = await plan_pruning(memory, snapshot, now=datetime.now(UTC), unused_days=days)
        due = [move for move in plan.moves if move.rule in only]
        if due:
            can_ask(yes=yes, dry_run=dry_run)
        if not as_json:
            _print(due, plan)
        question = f"Change the status of {len(due)}?"
        asked = bool(due) and not dry_run
        done = await carry_out(resources, due) if asked and agreed(question, yes=yes) else []
    finally:
        await resources.close()
    if as_json:
        print_json(_as_json(due, done, plan))
    elif done:
        click.echo(f"{len(done)} changed", err=True)


def _print(due: "list[Move]", plan: "Plan") -> None:
    rows = [
        (
            short(move.id),
            "lesson" if move.kind == "experience" else move.kind,
            move.name if move.namespace == "default" else f"@{move.namespace}/{move.name}",
            f"{move.was} → {move.to}",
            move.reason,
        )
        for move in due
    ]
    print_table(rows, empty="Nothing is due.")
    if plan.twins:
        found = len(plan.twins)
        told = f"{found} pair{'s' if found > 1 else ''} of assets say the same; `mem2evolve memory doctor` shows them"
        click.echo(told, err=True)


def _as_json(due: "list[Move]", done: "list[Move]", plan: "Plan") -> dict[str, Any]:
    moved = {move.id for move in done}
    return {
        "moves": [{**asdict(move), "done": move.id in moved} for move in due],
        "twins": [
            {"first": pair.first.id, "second": pair.second.id, "score": round(pair.score, 3)}
            for pair in plan.twins
        ],
    }
