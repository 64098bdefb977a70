"""`mem2evolve tools`: what it made."""

from typing import Any

import click

from ._common import find_asset, open_memory, print_json, print_table, say, short, wait


@click.group()
def tools() -> None:
    """The tools it made: list, show."""


@tools.command("list")
@click.option(
    "--all", "everything", is_flag=True, help="Also built-in, superseded and retired ones."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def list_tools(*, everything: bool, as_json: bool) -> None:
    """List tools, newest first."""
    wait(_list(everything=everything, as_json=as_json))


async def _list(*, everything: bool, as_json: bool) -> None:
    async with open_memory() as memory:
        where = (
            None
            if everything
            else {"origin": "generated", "status": ("active", "candidate", "quarantined")}
        )
        found = await memory.list("tool", where=where, limit=None)
        usage = await memory.usage("tool")
    if as_json:
        print_json(
            [
                {
                    "id": one.id,
                    "name": one.name,
                    "version": one.version,
                    "status": one.status,
                    "origin": one.origin,
                }
                | {
                    "description": one.description,
                    "uses": usage[one.id].uses if one.id in usage else 0,
                }
                | {"wins": usage[one.id].wins if one.id in usage else 0, "cases": len(one.cases)}
                for one in found
            ]
        )
        return
    rows = []
    for one in found:
        used = usage.get(one.id)
        record = f"{used.wins}/{used.uses} won" if used else "not used"
        rows.append(
            (
                short(one.id),
                f"{one.name} v{one.version}",
                one.status,
                f"{len(one.cases)} cases",
                record,
                one.description,
            )
        )
    print_table(rows, empty="No tools yet. A run makes those it lacks.")


@tools.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print the record as one JSON line.")
def show(name: str, *, as_json: bool) -> None:
    """Show a tool by NAME or by the start of its id: card, code, cases, history."""
    wait(_show(name, as_json=as_json))


async def _show(name: str, *, as_json: bool) -> None:
    tool: Any = await find_asset("tool", name)
    if as_json:
        print_json(tool.model_dump(mode="json") | {"id": tool.id})
        return
    say(f"{tool.name} v{tool.version}  {tool.status}  {tool.origin}", bold=True)
    say(f"{tool.description}\nid {tool.id}\n")
    if tool.code:
        say(tool.code)
    say(f"{len(tool.cases)} cases", bold=True)
    for case in tool.cases:
        outcome = f"raises {case.raises}" if case.raises else f"= {case.expected!r}"
        args = ", ".join(f"{key}={value!r}" for key, value in case.args.items())
        say(f"  {tool.name}({args}) {outcome}  [{case.origin}]")
    if tool.cases:
        opinion = (
            "agreed with a different implementation" if tool.second_opinion else "no second opinion"
        )
        say(f"  {opinion}; run under {', '.join(f'{k} {v}' for k, v in tool.environment.items())}")
    say("history", bold=True)
    for change in tool.history:
        say(f"  {change.at}  {change.status}: {change.reason}")
