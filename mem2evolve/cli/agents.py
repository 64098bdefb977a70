"""`mem2evolve agents`: the experts it made."""

from typing import TYPE_CHECKING, Any

import click

from ._common import find_asset, open_memory, print_json, print_table, say, short, wait
from ._lists import IN_USE, Page, filtering, paging

if TYPE_CHECKING:
    from ..memory.store import Where


@click.group()
def agents() -> None:
    """The expert agents it made: list, show."""


@agents.command("list")
@filtering("superseded and retired ones")
@paging
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def list_agents(*, where: "Where", everything: bool, page: Page, as_json: bool) -> None:
    """List expert agents, newest first."""
    usual = {} if everything else {"status": IN_USE}
    wait(_list({**usual, **where}, page, as_json=as_json))


async def _list(where: "Where", page: Page, *, as_json: bool) -> None:
    async with open_memory() as memory:
        found = page.cut(
            await memory.list("agent", where=where, limit=page.reach),
            lambda one: f"{one.card} {one.id}",
        )
        total = None if page.find else await memory.count("agent", where)
    if as_json:
        print_json([one.model_dump(mode="json") | {"id": one.id} for one in found])
        return
    rows = [
        (short(one.id), f"{one.name} v{one.version}", one.status, one.expertise) for one in found
    ]
    print_table(rows, empty="No such expert agents. A run makes those it lacks.")
    page.tell_more(len(rows), total)


@agents.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print the record as one JSON line.")
def show(name: str, *, as_json: bool) -> None:
    """Show an expert agent by NAME or by the start of its id."""
    wait(_show(name, as_json=as_json))


async def _show(name: str, *, as_json: bool) -> None:
    agent: Any = await find_asset("agent", name)
    if as_json:
        print_json(agent.model_dump(mode="json") | {"id": agent.id})
        return
    say(f"{agent.name} v{agent.version}  {agent.status}", bold=True)
    say(f"{agent.expertise}\nid {agent.id}\n\n{agent.strategy}")
    if agent.tools:
        say(f"\ntools that helped: {', '.join(agent.tools)}")
    say("history", bold=True)
    for change in agent.history:
        say(f"  {change.at}  {change.status}: {change.reason}")
