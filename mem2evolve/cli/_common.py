"""What the commands share: opening the memory, running a coroutine, printing."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from ..errors import NotFoundError
from ._text import columns, cut, one_line, pad, plain, width_of

if TYPE_CHECKING:
    from ..memory.memory import Memory
    from ..memory.records import AgentRecord, ToolRecord

T = TypeVar("T")

NAMESPACE = click.option("--namespace", help="Where that name is; `default` without it.")


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run to the end; Ctrl-C cancels it and lets it clean up."""
    try:
        return asyncio.run(coroutine)
    except asyncio.CancelledError:  # Ctrl-C pressed again, while it cleaned up
        raise KeyboardInterrupt from None


@asynccontextmanager
async def open_memory() -> "AsyncIterator[Memory]":
    """Open the memory of the home, and close it."""
    from ..memory.memory import Memory  # noqa: PLC0415 - `--help` stays quick
    from ..settings import Settings  # noqa: PLC0415

    async with Memory.open(Settings.from_env()) as memory:
        yield memory


def say(text: str, *, bold: bool = False) -> None:
    """Print text of a record, made harmless."""
    click.secho(plain(text), bold=bold)


def print_json(value: Any) -> None:
    """Print one line of JSON."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str))


def print_table(rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """Print rows in columns as wide as their widest cell; the last is cut at a terminal's edge."""
    if not rows:
        click.echo(empty, err=True)
        return
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(*shown, strict=True)]
    edge = width_of(sys.stdout)
    for row in shown:
        cells = [pad(cell, width) for cell, width in zip(row[:-1], widths, strict=False)]
        click.echo(cut("  ".join([*cells, row[-1]]).rstrip(), edge))


async def find_asset(kind: Literal["tool", "agent"], wanted: str) -> "ToolRecord | AgentRecord":
    """Return the newest version of that name, or the one whose id starts so.

    Raises:
        NotFoundError: If there is none, or more than one.
    """
    async with open_memory() as memory:
        every = await memory.list(kind, limit=None)
    named = sorted((one for one in every if one.name == wanted), key=lambda one: -one.version)
    found = named[:1] or [one for one in every if one.id.startswith(wanted)]
    return only_one(found, kind, wanted, [one.name for one in found])


def only_one(found: list[T], what: str, wanted: str, names: list[str]) -> T:
    """Return the one that was asked for.

    Raises:
        NotFoundError: If there is none, or more than one.
    """
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFoundError(
            f"{wanted!r} fits {len(found)} {what}s: {', '.join(names[:5])}.",
            hint="Give more of the id.",
        )
    lists = " or ".join(f"`mem2evolve {name} list`" for name in _LISTS[what])
    raise NotFoundError(f"There is no {what} {wanted!r}.", hint=f"See {lists}.")


_LISTS = {
    "tool": ("tools",),
    "agent": ("agents",),
    "lesson": ("memory",),
    "run": ("runs",),
    "record": ("runs", "tools", "agents", "memory"),
}
"""The commands that list each kind."""


def short(key: str) -> str:
    """Return the first eight characters of an id: enough to name it."""
    return key[:8]
