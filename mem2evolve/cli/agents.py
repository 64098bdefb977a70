"""`mem2evolve agents`: the experts it made."""

from typing import Any

import click

from ._common import find_asset, open_memory, print_json, print_table, say, short, wait


@click.group()
def agents() -> None:
    """The expert agents it made: list, show."""


@agents.command("list")
@click.option("--all", "everything", is_flag=True, help="Also superseded and retired ones.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def list_agents(*, everything: bool, as_json: bool) -> None:
    """List expert agents, newest first."""
    wait(_list(everything=everything, as_json=as_json))


async def _list(*, everything: bool, as_json: bool) -> None:
    async with open_memory() as memory:
        where = None if everything else {"status": ("active", "candidate", "quarantined")}
        found = await memory.list("agent", where=where, limit=None)
    if as_json:
        print_json([one.model_dump(mode="json") | {"id": one.id} for one in found])
        return
    rows = [
        (short(one.id), f"{one.name} v{one.version}", one.status, one.expertise) for one in found
    ]
    print_table(rows, empty="No expert agents yet. A run makes those it lacks.")


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
