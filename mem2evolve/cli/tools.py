"""`mem2evolve tools`: what it made, and a person's word on it."""

from typing import TYPE_CHECKING

import click

from . import _lives
from ._common import NAMESPACE, open_memory, print_json, print_table, say, short, wait
from ._lists import IN_USE, Page, filtering, paging
from ._lives import print_history

if TYPE_CHECKING:
    from ..memory.recall import Usage
    from ..memory.records import ToolRecord
    from ..memory.store import Where


@click.group()
def tools() -> None:
    """The tools it made: list, show; versions, edits by hand, tests."""


for _command in (
    *(_lives.adopt, _lives.rollback, _lives.quarantine, _lives.retire, _lives.activate),
    *(_lives.sync, _lives.export_tests),
):
    tools.add_command(_command)


@tools.command("list")
@filtering("built-in, superseded and retired ones")
@paging
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def list_tools(*, where: "Where", everything: bool, page: Page, as_json: bool) -> None:
    """List tools, newest first."""
    usual = {} if everything else {"origin": "generated", "status": IN_USE}
    wait(_list({**usual, **where}, page, as_json=as_json))


async def _list(where: "Where", page: Page, *, as_json: bool) -> None:
    async with open_memory() as memory:
        found = page.cut(
            await memory.list("tool", where=where, limit=page.reach),
            lambda one: f"{one.card} {one.id}",
        )
        total = None if page.find else await memory.count("tool", where)
        usage: dict[str, Usage] = {}
        for space in {one.namespace for one in found}:
            usage |= await memory.usage("tool", namespace=space)
    if as_json:
        wanted = ("id", "name", "version", "namespace", "status", "origin", "description")
        print_json(
            [
                {name: getattr(one, name) for name in wanted}
                | {"uses": usage[one.id].uses if one.id in usage else 0}
                | {"wins": usage[one.id].wins if one.id in usage else 0, "cases": len(one.cases)}
                for one in found
            ]
        )
        return
    rows = []
    for one in found:
        used = usage.get(one.id)
        space = "" if one.namespace == "default" else f"@{one.namespace}/"
        rows.append(
            (
                short(one.id),
                f"{space}{one.name} v{one.version}",
                one.status,
                f"{len(one.cases)} cases",
                f"{used.wins}/{used.uses} won" if used else "not used",
                one.description,
            )
        )
    print_table(rows, empty="No such tools. A run makes those it lacks.")
    page.tell_more(len(rows), total)


@tools.command()
@click.argument("name")
@NAMESPACE
@click.option("--history", is_flag=True, help="All versions and the reasons behind them.")
@click.option("--diff", is_flag=True, help="With the history: how the code changed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def show(name: str, *, namespace: str | None, history: bool, diff: bool, as_json: bool) -> None:
    """Show a tool: NAME, NAME@v1, or the start of its id.

    Card, code, cases and what became of it; of several versions the one in use.
    """
    wait(_show(name, namespace, history=history or diff, diff=diff, as_json=as_json))


async def _show(
    name: str, namespace: str | None, *, history: bool, diff: bool, as_json: bool
) -> None:
    from ..nodes.life.versions import current, find_versions  # noqa: PLC0415 - `--help` is quick

    async with open_memory() as memory:
        versions = await find_versions(memory, name, namespace)
        if history and len(versions) == 1:  # one was asked for: its chain is that of its name
            versions = await memory.find_by_name("tool", versions[0].name, versions[0].namespace)
    if history:
        print_history(versions, diff=diff, as_json=as_json)
        return
    tool = current(versions)
    if as_json:
        print_json(tool.model_dump(mode="json") | {"id": tool.id})
        return
    _print_tool(tool)
    others = [f"v{one.version} {one.status}" for one in versions if one.id != tool.id]
    if others:
        say(f"other versions: {', '.join(others)}; see --history")


def _print_tool(tool: "ToolRecord") -> None:
    say(f"{tool.name} v{tool.version}  {tool.status}  {tool.origin}", bold=True)
    say(f"{tool.description}\nid {tool.id}")
    say(f"a person allowed it {', '.join(tool.permissions)}\n" if tool.permissions else "")
    if tool.code:
        say(tool.code)
    say(f"{len(tool.cases)} cases", bold=True)
    for case in tool.cases:
        outcome = f"raises {case.raises}" if case.raises else f"= {case.expected!r}"
        outcome = f"has the property {case.property}" if case.property else outcome
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
