"""The lessons: list, show."""

from typing import TYPE_CHECKING

import click

from .._common import only_one, open_memory, print_json, print_table, say, short, wait
from .._lists import Page, filtering, paging
from .._text import typed
from ._links import print_changes, print_links

if TYPE_CHECKING:
    from ...memory.recall import Usage
    from ...memory.records import ExperienceRecord
    from ...memory.store import Where


@click.command("list")
@click.option(
    "--scope", type=click.Choice(["agent", "tool"]), help="From tasks, or from making tools."
)
@click.option("--outcome", type=click.Choice(["success", "failure"]), help="What taught them.")
@click.option("--for", "task", metavar="TASK", help="Those that TASK would recall, closest first.")
@filtering("superseded, quarantined and retired ones")
@paging
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def list_lessons(
    scope: str | None,
    outcome: str | None,
    task: str | None,
    *,
    where: "Where",
    everything: bool,
    page: Page,
    as_json: bool,
) -> None:
    """List lessons, newest first."""
    own = {"scope": scope, "outcome": outcome, "status": None if everything else "active"}
    wanted = {**{key: value for key, value in own.items() if value}, **where}
    if task is None:
        wait(_list(wanted, page, as_json=as_json))
        return
    if everything or outcome:
        raise click.UsageError("--for goes with --scope and --namespace only.")
    wait(_recall(typed(task), wanted, page, as_json=as_json))


async def _list(where: "Where", page: Page, *, as_json: bool) -> None:
    async with open_memory() as kept:
        found = page.cut(await kept.list("experience", where=where, limit=page.reach), _text)
        total = None if page.find else await kept.count("experience", where)
        usage: dict[str, Usage] = {}
        for space in {one.namespace for one in found}:
            usage |= await kept.usage("experience", namespace=space)
    if as_json:
        print_json([one.model_dump(mode="json") | {"id": one.id} for one in found])
        return
    rows = []
    for one in found:
        used = usage.get(one.id)
        record = f"helped {used.wins}/{used.uses}" if used else "not used"
        status = [] if where.get("status") == "active" else [one.status]
        rows.append((short(one.id), *status, one.scope, one.outcome, record, _told(one)))
    print_table(rows, empty="No such lessons. A run that is judged writes some.")
    page.tell_more(len(rows), total)


async def _recall(task: str, where: "Where", page: Page, *, as_json: bool) -> None:
    """Show what a run would be told: of each scope as many as a run recalls, unless --limit says more."""
    from ...graph.context import Context  # noqa: PLC0415 - `--help` stays quick

    usual = {"agent": Context().lessons_for_planning, "tool": Context().lessons_for_creating}
    space = str(where.get("namespace", "default"))
    found: list[tuple[ExperienceRecord, float]] = []
    async with open_memory() as kept:
        for scope in ("agent", "tool"):
            if where.get("scope", scope) == scope:
                most = page.skip + page.limit if page.asked and page.limit else usual[scope]
                found += await kept.recall_lessons(task, scope=scope, k=most, namespace=space)
    found = page.cut(found, lambda one: _text(one[0]))
    if as_json:
        print_json(
            [
                one.model_dump(mode="json") | {"id": one.id, "score": round(score, 3)}
                for one, score in found
            ]
        )
        return
    rows = [
        (short(one.id), one.scope, one.outcome, f"{score:.2f}", _told(one)) for one, score in found
    ]
    print_table(rows, empty="No lesson is close enough to be recalled.")


def _told(one: "ExperienceRecord") -> str:
    space = "" if one.namespace == "default" else f"@{one.namespace}/ "
    return f"{space}{one.title}: {one.knowledge}"


def _text(one: "ExperienceRecord") -> str:
    return f"{one.id} {one.card} {one.description} {one.applies_when} {one.knowledge}"


@click.command()
@click.argument("lesson")
@click.option("--json", "as_json", is_flag=True, help="Print the record as one JSON line.")
def show(lesson: str, *, as_json: bool) -> None:
    """Show a LESSON by the start of its id: its text and the runs behind it."""
    wait(_show(lesson, as_json=as_json))


async def _show(wanted: str, *, as_json: bool) -> None:
    from ...memory.care.links import links_of  # noqa: PLC0415 - `--help` stays quick
    from ...memory.care.snapshot import Ledger, take_snapshot  # noqa: PLC0415

    async with open_memory() as kept:
        snapshot = await take_snapshot(kept)
    found = [one for one in snapshot.lessons if one.id.startswith(wanted)]
    lesson = only_one(found, "lesson", wanted, [short(one.id) for one in found])
    evidence = Ledger(snapshot).evidence(lesson)
    links = links_of(lesson, snapshot.lessons)
    if as_json:
        linked = {how: [one.id for one in ones] for how, ones in links.items()}
        shown = {"id": lesson.id, "evidence": [run.id for run in evidence], "links": linked}
        print_json(lesson.model_dump(mode="json") | shown)
        return
    say(f"{lesson.title}  {lesson.status}", bold=True)
    say(f"{lesson.description}\nid {lesson.id}  scope {lesson.scope}  from a {lesson.outcome}\n")
    say(f"when   {lesson.applies_when}\ndo     {lesson.knowledge}\nfrom   {lesson.learned_from}")
    say("evidence", bold=True)
    for run in evidence:
        say(f"  {short(run.id)}  {run.verdict}  {' '.join(run.task.split())[:80]}")
    print_links(links)
    print_changes(lesson)
