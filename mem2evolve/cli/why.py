"""`mem2evolve why`: where an answer, a tool, an expert or a lesson comes from."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ._common import NAMESPACE, only_one, open_memory, print_json, short, wait
from ._text import columns, hang, one_line

if TYPE_CHECKING:
    from ..memory.memory import Memory
    from ..memory.provenance import Step
    from ..memory.records import Kind
    from ..memory.rows import AnyRecord

ID_START = 4
"""Characters of an id that may name a record."""


@click.command()
@click.argument("what", metavar="RUN|TOOL|AGENT|LESSON")
@NAMESPACE
@click.option("--json", "as_json", is_flag=True, help="Print the tree as one JSON line.")
def why(what: str, namespace: str | None, *, as_json: bool) -> None:
    """Show where something comes from: answer, assets, tests, lessons.

    Tools and experts by name or NAME@v1, everything by the start of its id.
    """
    wait(_why(what, namespace, as_json=as_json))


async def _why(what: str, namespace: str | None, *, as_json: bool) -> None:
    from ..memory.provenance import Provenance  # noqa: PLC0415 - `--help` stays quick

    async with open_memory() as memory:
        tree = await Provenance(memory).of(await find(memory, what, namespace))
    if as_json:
        print_json(tree.to_json())
        return
    click.secho(hang(one_line(tree.text), sys.stdout, 0), bold=True)
    for line in drawn(tree):
        click.echo(line)


async def find(memory: "Memory", what: str, namespace: str | None) -> "AnyRecord":
    """Return the record that a person means: an asset by its name, else anything by the start of its id.

    Raises:
        NotFoundError: If there is none, or more than one.
    """
    from ..memory.records import named_version  # noqa: PLC0415 - `--help` stays quick
    from ..memory.rows import COLLECTION  # noqa: PLC0415

    name, version = named_version(what)
    kinds: tuple[Kind, ...] = ("tool", "agent")
    for kind in kinds:
        versions = await memory.find_by_name(kind, name, namespace or "default")
        named = [one for one in versions if version in (None, one.version)]
        if named:
            return next((one for one in named if one.status == "active"), named[0])
    found: list[AnyRecord] = []
    if len(what) >= ID_START:
        for each in COLLECTION:
            found += [one for one in await memory.list(each, limit=None) if one.id.startswith(what)]
    return only_one(found, "record", what, [short(one.id) for one in found])


def drawn(tree: "Step", before: str = "") -> Iterator[str]:
    """Yield the lines of a tree, wrapped to the terminal."""
    for n, step in enumerate(tree.because, 1):
        last = n == len(tree.because)
        head = f"{before}{'└─' if last else '├─'} {step.word}: "
        below = f"{before}{'   ' if last else '│  '}"
        text = hang(one_line(step.text), sys.stdout, columns(head))
        first, *rest = text.splitlines() or [""]
        yield head + first
        yield from (below + line[columns(below) :] for line in rest)
        yield from drawn(step, below)
