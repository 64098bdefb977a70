"""`mem2evolve runs`: what it did, and a person's word on whether it was right."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ._common import only_one, open_memory, print_json, print_table, short, wait
from ._text import LABEL, cut, hang, one_line, plain, typed

if TYPE_CHECKING:
    from ..memory.records import RunRecord


@click.group()
def runs() -> None:
    """What it did: list, show; say whether an answer was right."""


@runs.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def list_runs(*, as_json: bool) -> None:
    """List runs, newest first."""
    wait(_list(as_json=as_json))


async def _list(*, as_json: bool) -> None:
    async with open_memory() as memory:
        found = await memory.list("run", limit=None)
    if as_json:
        wanted = (
            "id",
            "task",
            "mode",
            "model",
            "status",
            "answer",
            "verdict",
            "verdict_by",
            "created_at",
        )
        print_json([{key: getattr(run, key) for key in wanted} for run in found])
        return
    rows = [
        (
            short(run.id),
            run.created_at,
            run.mode,
            run.verdict,
            f"{cut(one_line(run.task), 60)} → {cut(one_line(run.answer), 40)}",
        )
        for run in found
    ]
    print_table(rows, empty="No runs yet.")


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print the record as one JSON line.")
def show(run_id: str, *, as_json: bool) -> None:
    """Show a RUN by the start of its id: plan, decisions, calls, verdict, tokens."""
    run = wait(_find(run_id))
    if as_json:
        print_json(run.model_dump(mode="json"))
        return
    click.secho(plain(run.task), bold=True)
    click.echo(f"id {run.id}  {run.created_at}  mode {run.mode}  model {run.model}")
    for word, text in _lines(run):
        click.echo(f"{word:{LABEL}}{hang(plain(text), sys.stdout)}")


def _lines(run: "RunRecord") -> Iterator[tuple[str, str]]:
    """Tell a run: what was planned, decided, called and answered, and what it cost."""
    for subtask in run.plan:
        waits = f" (after {', '.join(subtask['depends_on'])})" if subtask["depends_on"] else ""
        yield "plan", f"{subtask['id']}{waits} {subtask['goal']}"
    for one in run.decisions:
        score = (
            "" if one["score"] is None else f", closest {one['score']:.2f} to δ {one['delta']:.2f}"
        )
        runner_up = f", runner-up {one['runner_up']}" if one["runner_up"] else ""
        name = one["asset_name"] or one["need"]["name"]
        yield one["outcome"], f"{one['need']['kind']} {name}{score}{runner_up}: {one['why']}"
    for result in run.results:
        for call in result["calls"]:
            args = ", ".join(f"{key}={value!r}" for key, value in call["args"].items())
            said = "→" if call["ok"] else "failed:"
            yield "call", f"{call['tool']}({args}) {said} {cut(one_line(call['result']), 100)}"
        partial = " (partial)" if result["partial"] else ""
        yield "result", f"{result['subtask']}{partial}: {cut(one_line(result['result']), 200)}"
    yield "answer", run.answer
    yield (
        "verdict",
        f"{run.verdict} by {run.verdict_by or 'nobody'}: {run.critique.get('reason', '')}",
    )
    for direction in ("forward", "backward"):
        if spent := run.tokens.get(direction):
            yield (
                "tokens",
                f"{direction}: {spent['calls']} calls, {spent['prompt']:,} prompt, {spent['completion']:,} generated",
            )


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument("said", metavar="right|wrong", type=click.Choice(["right", "wrong"]))
@click.option("--because", default="", help="Why. Name a tool to fault it.")
def verdict(run_id: str, said: str, because: str) -> None:
    """Say whether the answer of a RUN was right; what it taught is redone."""
    wait(_correct(run_id, right=said == "right", because=typed(because)))


async def _correct(run_id: str, *, right: bool, because: str) -> None:
    from ..api import build_graph, open_resources  # noqa: PLC0415 - `--help` stays quick
    from ..graph.state import Correction  # noqa: PLC0415
    from ._story import Story  # noqa: PLC0415

    run = await _find(run_id)
    resources = open_resources()
    story = Story()
    correction = Correction(run_id=run.id, right=right, because=because or "a person said so")
    try:
        graph = build_graph(resources)
        event: Any
        async for _, event in graph.astream(
            {"correction": correction}, stream_mode="custom", subgraphs=True
        ):
            story.tell(event)
    finally:
        await resources.close()


async def _find(run_id: str) -> "RunRecord":
    async with open_memory() as memory:
        exact = await memory.get("run", run_id) if len(run_id) == 36 else None  # noqa: PLR2004 - a UUID
        found = (
            [exact]
            if exact
            else [run for run in await memory.list("run", limit=None) if run.id.startswith(run_id)]
        )
    return only_one(found, "run", run_id, [short(run.id) for run in found])
