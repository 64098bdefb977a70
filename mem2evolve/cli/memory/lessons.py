"""The lessons: list, show."""

import click

from .._common import only_one, open_memory, print_json, print_table, say, short, wait
from ._links import print_changes, print_links


@click.command("list")
@click.option(
    "--scope", type=click.Choice(["agent", "tool"]), help="From tasks, or from making tools."
)
@click.option("--all", "everything", is_flag=True, help="Also superseded and quarantined ones.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def list_lessons(scope: str | None, *, everything: bool, as_json: bool) -> None:
    """List lessons, newest first."""
    wait(_list(scope, everything=everything, as_json=as_json))


async def _list(scope: str | None, *, everything: bool, as_json: bool) -> None:
    where = ({} if everything else {"status": "active"}) | ({"scope": scope} if scope else {})
    async with open_memory() as kept:
        found = await kept.list("experience", where=where, limit=None)
        usage = await kept.usage("experience")
    if as_json:
        print_json([one.model_dump(mode="json") | {"id": one.id} for one in found])
        return
    rows = []
    for one in found:
        used = usage.get(one.id)
        record = f"helped {used.wins}/{used.uses}" if used else "not used"
        rows.append(
            (short(one.id), one.scope, one.outcome, record, f"{one.title}: {one.knowledge}")
        )
    print_table(rows, empty="No lessons yet. A run that is judged writes some.")


@click.command()
@click.argument("lesson")
@click.option("--json", "as_json", is_flag=True, help="Print the record as one JSON line.")
def show(lesson: str, *, as_json: bool) -> None:
    """Show a LESSON by the start of its id: its text and the runs behind it."""
    wait(_show(lesson, as_json=as_json))


async def _show(wanted: str, *, as_json: bool) -> None:
    from ...memory.links import links_of  # noqa: PLC0415 - `--help` stays quick
    from ...memory.snapshot import Ledger, take_snapshot  # noqa: PLC0415

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
