"""The commands of `mem2evolve tools` that change something, and the chain of versions they leave."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InputError
from ._common import NAMESPACE, print_json, say, short, wait
from ._text import hang, one_line, plain, typed

if TYPE_CHECKING:
    from ..memory.records import StatusChange, ToolRecord
    from ..nodes.desk import Resources
    from ..nodes.life.versions import Told

INDENT = 32
"""Columns before a reason in the history."""
BECAUSE = click.option("--because", required=True, help="Why; kept in its history.")


@asynccontextmanager
async def _open() -> "AsyncIterator[Resources]":
    from ..api import open_resources  # noqa: PLC0415 - `--help` stays quick

    resources = open_resources()
    try:
        yield resources
    finally:
        await resources.close()


@click.command()
def sync() -> None:
    """Write missing files; say which were edited by hand."""
    wait(_sync())


async def _sync() -> None:
    from ..nodes.life.versions import sync_files  # noqa: PLC0415

    async with _open() as resources:
        done = await sync_files(resources)
        tools_dir = resources.settings.tools_dir
    for folder in done.written:
        say(f"written  {folder.relative_to(tools_dir)}")
    for folder in done.edited:
        say(f"edited   {folder.relative_to(tools_dir)}")
    if done.edited:
        hint = "Edited files are not run. `mem2evolve tools adopt NAME@vN` makes a new version of them."
        click.echo(hint, err=True)
    elif not done.written:
        click.echo(f"All files in {tools_dir} are as recorded.", err=True)


@click.command()
@click.argument("name")
@NAMESPACE
@click.option("--because", default="", help="Why; kept in its history.")
def adopt(name: str, namespace: str | None, because: str) -> None:
    """Make a new version from the edited files of NAME.

    Its code is screened, and all its cases are run; if anything fails, nothing has changed.
    """
    wait(_adopt(name, namespace, typed(because)))


async def _adopt(name: str, namespace: str | None, because: str) -> None:
    from ..memory.projection import folder_of  # noqa: PLC0415
    from ..nodes.life.adopt import adopt as make  # noqa: PLC0415
    from ..nodes.life.versions import find_versions  # noqa: PLC0415

    async with _open() as resources:
        versions = await find_versions(resources.memory, name, namespace)
        old, new = await make(resources, versions, because)
        folder = folder_of(resources.settings.tools_dir, new)
    say(f"{new.name} v{new.version}  {new.status}  {len(new.cases)} cases pass", bold=True)
    say(
        f"files    {folder}\nv{old.version} is again as it was recorded; `tools rollback` goes back"
    )


@click.command()
@click.argument("name")
@NAMESPACE
@click.option("--to", metavar="vN", help="The earlier version; without it the one before.")
@click.option("--force", is_flag=True, help="Also to one that was quarantined or retired.")
@BECAUSE
def rollback(
    name: str, namespace: str | None, to: str | None, *, force: bool, because: str
) -> None:
    """Set the version in use aside; activate an earlier one."""
    number = (to or "").lower().removeprefix("v")
    if to is not None and not number.isdecimal():
        raise click.BadParameter(f"{to!r} is no version, such as v1.", param_hint="'--to'")
    wait(_rollback(name, namespace, int(number) if to else None, typed(because), force=force))


async def _rollback(
    name: str, namespace: str | None, to: int | None, because: str, *, force: bool
) -> None:
    from ..nodes.life.versions import find_versions, roll_back  # noqa: PLC0415

    async with _open() as resources:
        memory = resources.memory
        [first, *_] = await find_versions(memory, name, namespace)
        versions = await memory.find_by_name("tool", first.name, first.namespace)
        was, now = await roll_back(resources, versions, because, to=to, force=force)
    say(f"{now.name} v{now.version}  {now.status}", bold=True)
    say(f"v{was.version} is quarantined; `mem2evolve tools show {now.name} --history` tells why")


def _telling(word: str, status: "Told", about: str) -> click.Command:
    @click.command(word, help=about)
    @click.argument("name")
    @NAMESPACE
    @BECAUSE
    def command(name: str, namespace: str | None, because: str) -> None:
        wait(_tell(name, namespace, status, typed(because)))

    return command


quarantine = _telling("quarantine", "quarantined", "Set NAME, or NAME@v1, aside: it is not used.")
retire = _telling("retire", "retired", "Drop NAME, or NAME@v1: only its record stays.")
activate = _telling("activate", "active", "Let NAME, or NAME@v1, be used again.")


async def _tell(name: str, namespace: str | None, status: "Told", because: str) -> None:
    from ..nodes.life.versions import find_versions, tell  # noqa: PLC0415

    async with _open() as resources:
        versions = await find_versions(resources.memory, name, namespace)
        moved = await tell(resources, versions, status, because)
    say(f"{moved.name} v{moved.version}  {moved.status}: {moved.history[-1].reason}")


@click.command("export-tests")
@click.argument("name")
@NAMESPACE
@click.option("--to", "target", metavar="FILE", help="Where to; `-` prints it.")
def export_tests(name: str, namespace: str | None, target: str | None) -> None:
    """Write the cases of NAME, or NAME@v1, as a file of pytest.

    Without --to it is written beside the tool.py of that version. It needs nothing but pytest.
    """
    wait(_export(name, namespace, target))


async def _export(name: str, namespace: str | None, target: str | None) -> None:
    from ..memory.projection import write_projection  # noqa: PLC0415
    from ..nodes.life.export import pytest_file  # noqa: PLC0415
    from ..nodes.life.versions import current, find_versions  # noqa: PLC0415

    async with _open() as resources:
        tool = current(await find_versions(resources.memory, name, namespace))
        file = Path(target) if target else Path(f"test_{tool.name}.py")
        text = pytest_file(tool, file.name)
        if target is None:
            file = write_projection(resources.settings.tools_dir, tool) / file
    if target == "-":
        click.echo(text, nl=False)
        return
    _write(file, text)
    say(f"written  {file}")
    if target is not None:
        click.echo("It reads tool.py beside it, or the file that MEM2EVOLVE_TOOL names.", err=True)


def _write(file: Path, text: str) -> None:
    """Write an export; over an earlier one, never over anything else."""
    from ..nodes.life.export import FIRST_LINE  # noqa: PLC0415

    if file.exists() and not file.read_bytes().startswith(FIRST_LINE.encode()):
        raise InputError(
            f"{str(file)!r} exists, and is no earlier export.",
            hint="Name another file with `--to FILE`.",
        )
    aside = file.with_name(f".{file.name}.new")
    aside.write_text(text, encoding="utf-8")
    aside.replace(file)


def print_history(versions: "Sequence[ToolRecord]", *, diff: bool, as_json: bool) -> None:
    """Print the chain of versions and the reasons behind them, newest first."""
    from ..nodes.life.versions import chain  # noqa: PLC0415

    links = chain(versions)
    if as_json:
        print_json([_as_json(link, diff=diff) for link in links])
        return
    for link in links:
        one, before = link.record, link.before
        after = f"  after v{before.version}" if before else ""
        facts = f"{len(one.cases)} cases{after}  id {short(one.id)}"
        say(f"{one.name} v{one.version}  {one.status}  {facts}", bold=True)
        for change in reversed(one.history):
            say(_change(change))
        if diff and link.diff:
            for line in link.diff.splitlines():
                say(f"    {line}")


def _change(change: "StatusChange") -> str:
    when = change.at[:16].replace("T", " ")
    run = f" (run {short(change.run_id)})" if change.run_id else ""
    start = f"  {when}  {change.status}".ljust(INDENT)
    return start + hang(plain(one_line(change.reason) + run), sys.stdout, INDENT)


def _as_json(link: Any, *, diff: bool) -> dict[str, Any]:
    one, before = link.record, link.before
    shown = {
        "version": one.version,
        "id": one.id,
        "status": one.status,
        "run_id": one.run_id,
        "after": before.id if before else "",
        "history": [change.model_dump(mode="json") for change in reversed(one.history)],
    }
    return shown | ({"diff": link.diff} if diff else {})
