"""`mem2evolve runs`: what it did, and a person's word on whether it was right."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import NotFoundError
from ._approval import Answers, answering
from ._checkpoints import Unfinished, done, hold, list_unfinished, state_of
from ._common import only_one, open_memory, print_json, print_table, short, wait
from ._drive import how_to_resume, open_driver
from ._lists import Page, paging
from ._text import LABEL, cut, hang, one_line, plain, typed

if TYPE_CHECKING:
    from ..memory.records import RunRecord
    from ..memory.store import Where

VERDICTS: Final = ("success", "failure", "abstained", "none")
LISTED: Final = (
    "id", "task", "mode", "model", "status", "answer", "verdict", "verdict_by", "created_at",
)  # fmt: skip


@click.group()
def runs() -> None:
    """What it did: list, show; go on with one; say whether an answer was right."""


@runs.command("list")
@click.option("--namespace", help="Only those of this namespace.")
@click.option("--verdict", type=click.Choice(VERDICTS), help="Only those judged so.")
@paging
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def list_runs(namespace: str | None, verdict: str | None, *, page: Page, as_json: bool) -> None:
    """List runs, newest first."""
    where = {"namespace": namespace, "verdict": verdict}
    wait(_list({key: value for key, value in where.items() if value}, page, as_json=as_json))


async def _list(where: "Where", page: Page, *, as_json: bool) -> None:
    from ..settings import Settings  # noqa: PLC0415 - `--help` stays quick

    settings = Settings.from_env()
    async with open_memory() as memory:
        found = await memory.list("run", where=where, limit=page.reach)
        total = None if page.find else await memory.count("run", where)
        open_runs = [(run, state_of(settings, run)) for run in list_unfinished(settings)]
        recorded = {run.run_id for run, _ in open_runs if await memory.get("run", run.run_id)}
    states = {run.run_id: state for run, state in open_runs}
    found = page.cut(found, lambda run: f"{run.id} {run.task} {run.answer}")
    begun = (
        [] if where or page.skip else [one for one in open_runs if one[0].run_id not in recorded]
    )
    begun = [one for one in begun if page.find.casefold() in one[0].about.casefold()]
    if as_json:
        print_json([*map(_begun_as_json, begun), *(_as_json(run, states) for run in found)])
        return
    rows = [
        (short(run.run_id), run.started, run.context["mode"], state, cut(one_line(run.about), 60))
        for run, state in begun
    ]
    rows += [
        (
            short(run.id),
            run.created_at,
            run.mode,
            states.get(run.id) or run.verdict,
            f"{cut(one_line(run.task), 60)} → {cut(one_line(run.answer), 40)}",
        )
        for run in found
    ]
    print_table(rows, empty="No such runs.")
    page.tell_more(len(found), total)


def _as_json(run: "RunRecord", states: Mapping[str, str]) -> dict[str, Any]:
    """Return a recorded run; its status is that of the process that is still at it, if any."""
    facts = {key: getattr(run, key) for key in LISTED}
    return facts | ({"status": states[run.id]} if run.id in states else {})


def _begun_as_json(begun: tuple[Unfinished, str]) -> dict[str, Any]:
    """Return a run that is not recorded yet."""
    run, state = begun
    facts = {"id": run.run_id, "task": run.about, "mode": run.context["mode"], "model": run.model}
    return (
        dict.fromkeys(LISTED, "")
        | facts
        | {
            "status": state,
            "verdict": "none",
            "created_at": run.started,
        }
    )


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
@click.option("--model", help="Go on with another model.")
@answering
@click.option("--yes", is_flag=True, help="Download the embedded model without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line, and no story.")
@click.option("--stream-json", is_flag=True, help="Print one JSON line an event, as they happen.")
def resume(run_id: str, **options: Any) -> None:
    """Go on with a RUN that waits for a person or was broken off."""
    wait(_resume(run_id, options))


async def _resume(run_id: str, options: dict[str, Any]) -> None:
    from ..graph.context import Context  # noqa: PLC0415 - `--help` stays quick
    from ..settings import Settings  # noqa: PLC0415
    from ._report import leave_by, report, shown, write_answer  # noqa: PLC0415
    from ._work import working  # noqa: PLC0415

    settings = Settings.from_env()
    found = [run for run in list_unfinished(settings) if run.run_id.startswith(run_id)]
    if not found:
        raise done((await _find(run_id)).id)
    run = only_one(found, "run", run_id, [short(one.run_id) for one in found])
    settings = Settings.from_env(model=options["model"] or run.model)
    context, show = Context(**run.context), shown(options)
    if options["model"]:
        context = replace(context, model="")
    answers = Answers(approve=options["approve"], reject=options["reject"])
    told: list[str] = []
    with hold(settings, run.run_id):
        pass  # said at once, not behind the memory's own lock
    async with working(
        settings, context, answers, show=show, yes=options["yes"], told=told
    ) as driver:
        end = await driver.resume(run, context)
    if end is None:
        raise done(run.run_id)
    if show == "story" and not (told or end.waiting) and run.given.get("task"):
        write_answer(end.state["answer"])  # it came before the run was broken off
    report(end, show)
    if run.given.get("task"):
        leave_by(end)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument("said", metavar="right|wrong", type=click.Choice(["right", "wrong"]))
@click.option("--because", default="", help="Why. Name a tool to fault it.")
@answering
def verdict(run_id: str, said: str, because: str, *, approve: bool, reject: str | None) -> None:
    """Say whether the answer of a RUN was right; what it taught is redone."""
    answers = Answers(approve=approve, reject=reject)
    wait(_correct(run_id, answers, right=said == "right", because=typed(because)))


async def _correct(run_id: str, answers: Answers, *, right: bool, because: str) -> None:
    from ..api import open_resources  # noqa: PLC0415 - `--help` stays quick
    from ..graph.context import Context  # noqa: PLC0415
    from ._report import report  # noqa: PLC0415
    from ._story import Story  # noqa: PLC0415

    run = await _find(run_id)
    resources = open_resources()
    said = {"run_id": run.id, "right": right, "because": because or "a person said so"}
    context = Context()
    # It takes the place of what was left of the run: its learning is redone in any case.
    correction = Unfinished(
        run_id=run.id,
        given={"correction": said},
        context=asdict(context),
        model=resources.settings.model,
    )
    try:
        async with open_driver(resources, answers, Story().tell) as driver:
            end = await driver.start(correction, context)
    finally:
        await resources.close()
    report(end, "story")


async def _find(run_id: str) -> "RunRecord":
    from ..settings import Settings  # noqa: PLC0415 - `--help` stays quick

    async with open_memory() as memory:
        exact = await memory.get("run", run_id) if len(run_id) == 36 else None  # noqa: PLR2004 - a UUID
        found = (
            [exact]
            if exact
            else [run for run in await memory.list("run", limit=None) if run.id.startswith(run_id)]
        )
    begun = [one.run_id for one in list_unfinished(Settings.from_env())]
    if not found and (open_ones := [one for one in begun if one.startswith(run_id)]):
        raise NotFoundError(
            f"Run {short(open_ones[0])} was broken off, and nothing of it is recorded yet.",
            hint=f"Go on with it: {how_to_resume(open_ones[0])}.",
        )
    return only_one(found, "run", run_id, [short(run.id) for run in found])
