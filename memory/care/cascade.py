"""Deleting a run, an asset or a lesson, with what came of it and every mention of it.

`plan_deletion` says what goes, what is rewritten, and why; `deletion.carry_out` does it. What goes:

- with a run, the assets that it made, and the lessons that it alone taught;
- with a tool, the lessons from the making of it that nothing else taught;
- with a lesson, nothing.

What stays is rewritten so that it names nothing that is gone. The chain of versions is closed over the gap; a
lesson that other runs taught too is told as theirs, and an expert forgets a tool of which no version is left: both have
other ids then, and are renamed everywhere. In a run, what is gone is left out; another version was not used.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..records import RECRUITABLE, AgentRecord, ExperienceRecord, ToolRecord, card
from ..rows import Asset, Kept
from ..words import SOURCE_CHARS
from .deletion import ASKED, Changed, Deletion, Gone
from .hygiene import kind_of, name_of
from .references import references_of, rename_in
from .snapshot import Ledger, Snapshot


@dataclass
class _Fate:
    """What is known so far."""

    why: dict[str, str] = field(default_factory=dict)
    """Id of what goes → why."""
    named: dict[str, str] = field(default_factory=dict)
    """Id → the id in its place, empty for none."""
    fresh: dict[str, Changed] = field(default_factory=dict)
    """Id → the record under its new id."""

    def go(self, key: str, why: str, instead: str = "") -> None:
        """Note what goes, and what takes its place."""
        if key not in self.why:
            self.why[key], self.named[key] = why, instead

    def rename(self, change: Changed) -> None:
        """Note what gets another id."""
        self.fresh[change.id] = change
        self.named[change.id] = change.record.id


def plan_deletion(
    snapshot: Snapshot, *, runs: Iterable[str] = (), kept: Iterable[str] = ()
) -> Deletion:
    """Return what the deletion of runs, and of assets and lessons, entails.

    Args:
        snapshot: The whole memory.
        runs: Ids of runs; one that has no record yet may have made assets too.
        kept: Ids of assets and lessons.
    """
    ledger, fate = Ledger(snapshot), _Fate()
    for key in (*runs, *kept):
        fate.go(key, ASKED)
    for asset in snapshot.assets:
        if asset.run_id in fate.why and asset.origin == "generated":
            fate.go(asset.id, f"made by run {asset.run_id[:8]}")
    _settle_lessons(snapshot, ledger, fate)
    _forget_tools(snapshot, fate)
    return Deletion(
        gone=tuple(_gone(snapshot, fate)),
        changed=tuple(_changed(snapshot, fate)),
        notes=tuple(dict.fromkeys(_notes(snapshot, fate))),
        tools=tuple(one for one in snapshot.tools if one.id in fate.why),
    )


def _settle_lessons(snapshot: Snapshot, ledger: Ledger, fate: _Fate) -> None:
    """Say which lessons go, and which are told as another run's.

    One that is there in the same words as another run's is that one, as after a deletion that was broken off.
    """
    orphans = {one.id for one in snapshot.lessons if one.run_id in fate.why}
    for lesson in snapshot.lessons:
        if lesson.id not in orphans and (why := _why_lesson_goes(lesson, ledger, fate)):
            fate.go(lesson.id, why)
    left = [one for one in snapshot.lessons if one.id not in fate.why and one.id not in orphans]
    same = {_words(one): one.id for one in left}
    for lesson in snapshot.lessons:
        if lesson.id not in orphans or lesson.id in fate.why:
            continue
        if copy := same.get(_words(lesson)):
            fate.go(lesson.id, f"is there as {copy[:8]}", copy)
        elif why := _why_lesson_goes(lesson, ledger, fate):
            fate.go(lesson.id, why)
        else:
            fate.rename(_of_another_run(lesson, ledger, fate))


def _words(lesson: ExperienceRecord) -> tuple[str, ...]:
    words = (lesson.title, lesson.description, lesson.applies_when, lesson.knowledge)
    return (lesson.namespace, lesson.scope, lesson.outcome, *words)


def _why_lesson_goes(lesson: ExperienceRecord, ledger: Ledger, fate: _Fate) -> str:
    """Say why a lesson goes with what goes already; empty if it stays."""
    teachers = {run.id for run in ledger.evidence(lesson)} | {lesson.run_id}
    if teachers <= fate.why.keys():
        return f"only run {lesson.run_id[:8]} taught it"
    if lesson.scope == "agent" or len(teachers) > 1:
        return ""
    made = [
        tool
        for tool in ledger.snapshot.tools
        if tool.run_id == lesson.run_id and _from_making(lesson, tool)
    ]
    if made and all(tool.id in fate.why for tool in made):
        return f"from the making of {name_of(made[0])}"
    return ""


def _from_making(lesson: ExperienceRecord, tool: ToolRecord) -> bool:
    """Say whether a lesson is from the making of a tool: the wanted card was about the same, its name may differ."""
    wanted = lesson.learned_from.partition(": ")[0]
    same_space = lesson.namespace == tool.namespace
    return same_space and lesson.learned_from == card(wanted, tool.description)[:SOURCE_CHARS]


def _forget_tools(snapshot: Snapshot, fate: _Fate) -> None:
    """Let experts forget tools of which no version is left."""
    left = {(one.namespace, one.name) for one in snapshot.tools if one.id not in fate.why}
    gone = {(one.namespace, one.name) for one in snapshot.tools if one.id in fate.why} - left
    known = {one.id for one in snapshot.agents}
    for expert in snapshot.agents:
        lost = [name for name in expert.tools if (expert.namespace, name) in gone]
        if not lost or expert.id in fate.why:
            continue
        tools = tuple(name for name in expert.tools if name not in lost)
        changed = expert.model_copy(update={"tools": tools})
        if changed.id in known:  # as after a deletion that was broken off
            fate.go(expert.id, f"is there as {changed.id[:8]}", changed.id)
        else:
            why = f"forgets {', '.join(lost)}: no version is left"
            fate.rename(Changed(expert.id, changed, why))


def _of_another_run(lesson: ExperienceRecord, ledger: Ledger, fate: _Fate) -> Changed:
    """Return the lesson as the first of the other runs that taught it would have told it."""
    *_, other = [run.id for run in ledger.evidence(lesson) if run.id not in fate.why]
    told = lesson.model_copy(update={"run_id": other})
    return Changed(lesson.id, told, f"run {other[:8]} taught it too")


def _changed(snapshot: Snapshot, fate: _Fate) -> Iterator[Changed]:
    """Yield what is renamed, then what names something that goes or is renamed."""
    before = {one.id: one.supersedes for one in snapshot.kept}
    older = {key: _next_older(key, before, fate) for key in fate.why if key in before}
    for change in fate.fresh.values():
        yield change._replace(record=rename_in(change.record, fate.named, older))
    for record in (*snapshot.kept, *snapshot.runs):
        if record.id in fate.why or record.id in fate.fresh:
            continue
        if lost := references_of(record) & fate.named.keys():
            why = f"names {len(lost)} that {'is' if len(lost) == 1 else 'are'} deleted or renamed"
            yield Changed(record.id, rename_in(record, fate.named, older), why)


def _next_older(key: str, before: Mapping[str, str], fate: _Fate) -> str:
    """Return what a record had superseded, or what that had, if it goes too."""
    seen: set[str] = set()
    while key in fate.why and key not in seen and not fate.named[key]:
        seen.add(key)
        key = before.get(key, "")
    return "" if key in seen else key


def _gone(snapshot: Snapshot, fate: _Fate) -> Iterator[Gone]:
    kept: tuple[Kept, ...] = (*snapshot.lessons, *snapshot.assets)
    for record in kept:
        if record.id in fate.why:
            yield Gone(kind_of(record), record.id, name_of(record), fate.why[record.id])
    for run in snapshot.runs:
        if run.id in fate.why:
            yield Gone("run", run.id, " ".join(run.task.split()), fate.why[run.id])


def _notes(snapshot: Snapshot, fate: _Fate) -> Iterator[str]:
    for gone in snapshot.assets:
        if gone.id not in fate.why or gone.status not in RECRUITABLE:
            continue
        others = [
            one for one in snapshot.assets if _same_name(one, gone) and one.id not in fate.why
        ]
        if not others or any(one.status in RECRUITABLE for one in others):
            continue
        newest = max(others, key=lambda one: one.version)
        told = f"No version of {gone.name} is in use then; the newest left is v{newest.version} ({newest.status})."
        if isinstance(gone, AgentRecord):
            yield f"{told} The next task that wants it makes a new one."
            continue
        space = "" if gone.namespace == "default" else f" --namespace {gone.namespace}"
        yield (
            f"{told} `mem2evolve tools activate {gone.name}@v{newest.version}{space} --because …` brings it back; "
            "until then the next task that wants it makes a new one."
        )


def _same_name(one: Asset, other: Asset) -> bool:
    return type(one) is type(other) and (one.namespace, one.name) == (other.namespace, other.name)
