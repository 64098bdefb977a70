"""Whether the memory is whole, and its tools still do what they did."""

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .._common import print_json, say, short, wait
from .._text import one_line

if TYPE_CHECKING:
    from ...memory.care.integrity import Fault
    from ...nodes.desk import Resources

WRONG = 1


@click.command()
@click.option("--vectors", is_flag=True, help="Also embed every card again, and compare.")
@click.option("--tools", is_flag=True, help="Also run the cases of every tool in use.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def verify(*, vectors: bool, tools: bool, as_json: bool) -> None:
    """Read every record and say what is wrong with it. Changes nothing.

    Exit code 0: all is well. 1: something is wrong.
    """
    raise SystemExit(WRONG if wait(_verify(vectors=vectors, tools=tools, as_json=as_json)) else 0)


async def _verify(*, vectors: bool, tools: bool, as_json: bool) -> bool:
    from ...api import open_resources  # noqa: PLC0415 - `--help` stays quick
    from ...memory.care.integrity import faults  # noqa: PLC0415

    resources = open_resources()
    found: list[Fault] = []
    try:
        checked = {
            kind: await resources.memory.count(kind)
            for kind in ("tool", "agent", "experience", "run")
        }
        found += [fault async for fault in faults(resources.memory, vectors=vectors)]
        if tools:
            found += [fault async for fault in _failing(resources)]
    finally:
        await resources.close()
    if as_json:
        print_json({"checked": checked, "faults": [asdict(one) for one in found]})
        return bool(found)
    for one in found:
        say(f"{one.kind:10}  {short(one.id)}  {one_line(one.name)}: {one_line(one.what)}")
    click.echo(f"{sum(checked.values()):,} records read, {len(found)} faults", err=True)
    return bool(found)


async def _failing(resources: "Resources") -> "AsyncIterator[Fault]":
    """Yield the tools in use that fail their cases today."""
    from ...graph.context import Context  # noqa: PLC0415
    from ...memory.care.integrity import Fault, name_of  # noqa: PLC0415
    from ...memory.records import RECRUITABLE  # noqa: PLC0415
    from ...nodes.creation.verify import failing  # noqa: PLC0415
    from ...nodes.desk import Desk  # noqa: PLC0415
    from ...nodes.permitted import reaches_out  # noqa: PLC0415

    desk = Desk(resources, Context(), "verify")
    where = {"origin": "generated", "status": RECRUITABLE}
    for tool in await resources.memory.list("tool", where=where, limit=None):
        if not reaches_out(tool):
            for what in (await failing(desk, tool))[:3]:
                yield Fault(kind="tool", id=tool.id, name=name_of(tool), what=what)
