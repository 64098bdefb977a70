"""`mem2evolve memory doctor`: what deserves a look, and what to do about it."""

import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from .._common import open_memory, print_json, wait
from .._text import hang, one_line
from ._ask import JSON

if TYPE_CHECKING:
    from ...memory.care.checkup import Finding

TROUBLES = ("contradiction", "loser", "missing tool", "twins", "quarantined", "no evidence")
INDENT = 15


@dataclass(frozen=True)
class _Wanted:
    namespace: str | None
    only: tuple[str, ...]
    limit: int


@click.command()
@click.option("--namespace", help="Only in this namespace.")
@click.option("--only", type=click.Choice(TROUBLES), multiple=True, help="Only this trouble.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Most of each to show."
)
@JSON
def doctor(namespace: str | None, only: tuple[str, ...], limit: int, *, as_json: bool) -> None:
    """Look for what a person should settle: contradictions, losers, twins and the like.

    Nothing is changed; each line says what to type.
    """
    wait(_doctor(_Wanted(namespace, only or TROUBLES, limit), as_json=as_json))


async def _doctor(wanted: _Wanted, *, as_json: bool) -> None:
    from ...memory.care.checkup import examine  # noqa: PLC0415 - `--help` stays quick
    from ...memory.care.snapshot import take_snapshot  # noqa: PLC0415

    async with open_memory() as memory:
        snapshot = await take_snapshot(memory, wanted.namespace)
        found = await examine(memory, snapshot, now=datetime.now(UTC))
    found = [one for one in found if one.trouble in wanted.only]
    if as_json:
        print_json([_as_json(one) for one in found])
        return
    _print(found, wanted.limit)


def _print(found: "list[Finding]", limit: int) -> None:
    if not found:
        click.echo("Nothing to settle.", err=True)
    counts: Counter[str] = Counter()
    for one in found:
        counts[one.trouble] += 1
        if counts[one.trouble] <= limit:
            word = click.style(one.trouble.ljust(INDENT), fg="yellow")
            space = "" if one.namespace == "default" else f"@{one.namespace} "
            click.echo(f"{word}{hang(one_line(space + one.what), sys.stdout, INDENT)}")
            click.echo(f"{' ' * INDENT}{hang(f'→ {one.do}', sys.stdout, INDENT)}")
    for trouble, count in counts.items():
        if count > limit:
            click.echo(f"{trouble}: {count - limit:,} more; see --limit and --json", err=True)


def _as_json(one: "Finding") -> dict[str, Any]:
    return {
        "trouble": one.trouble,
        "namespace": one.namespace,
        "ids": [record.id for record in one.records],
        "what": one.what,
        "do": one.do,
    }
