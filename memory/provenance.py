"""Where something came from: answer → assets → cases → how they were made → lessons → the runs that taught them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from .memory import JUDGED, Memory
from .recall import Usage
from .records import AgentRecord, Case, ExperienceRecord, RunRecord, StatusChange, ToolRecord
from .rows import Asset

Kind = Literal["run", "tool", "agent", "lesson", ""]
MAX_DEPTH: Final = 12
"""Steps that are followed back; what is further away is named, not told."""
SHOWN: Final = 5
"""Runs or drafts of one kind that are told; the others are counted."""
TEXT: Final = 160
"""Characters of a task, an answer or a reason."""


@dataclass
class Step:
    """One thing, and what it rests on."""

    word: str
    """What it is to the step above: `used`, `taught by`, …"""
    text: str
    kind: Kind = ""
    id: str = ""
    """Of the record, if it is one."""
    because: "list[Step]" = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the tree as JSON values."""
        return asdict(self)


class Provenance:
    """Walks back from a record. Each is told once: where it comes again it is only named, as are other runs.

    Args:
        memory: Where the records are.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._told: set[str] = set()

    async def of(self, record: RunRecord | Asset | ExperienceRecord, word: str = "") -> Step:
        """Return the tree of a record.

        Raises:
            StoreError: If the memory cannot be read.
        """
        return await self._step(word, record, 0)

    async def _step(
        self, word: str, record: RunRecord | Asset | ExperienceRecord, depth: int
    ) -> Step:
        step = Step(word, title_of(record), kind_of(record), record.id)
        if record.id in self._told:
            step.text += " (told above)"
            return step
        if depth >= MAX_DEPTH:
            step.text += " (further back)"
            return step
        self._told.add(record.id)
        if isinstance(record, RunRecord):
            step.because = await self._run(record, depth + 1)
        elif isinstance(record, ExperienceRecord):
            step.because = await self._lesson(record, depth + 1)
        else:
            step.because = await self._asset(record, depth + 1)
        return step

    async def _run(self, run: RunRecord, depth: int) -> list[Step]:
        reason = str(run.critique.get("reason", ""))
        judged = f"{run.verdict} by {run.verdict_by or 'nobody'}"
        steps = [
            Step("answer", cut(run.answer)),
            Step("verdict", f"{judged}: {cut(reason)}" if reason else judged),
        ]
        steps += [await self._decision(run, decision, depth) for decision in run.decisions]
        decided = {decision["asset_id"] for decision in run.decisions}
        steps += [await self._by_id("used", key, depth) for key in run.assets if key not in decided]
        of_tools = {key for one in run.creations for key in one["lessons"]}
        steps += [
            await self._by_id("was told", key, depth, lesson=True)
            for key in run.lessons
            if key not in of_tools
        ]
        return steps

    async def _decision(self, run: RunRecord, decision: dict[str, Any], depth: int) -> Step:
        """Tell how a need was met: what was taken, what stood beside it, and why."""
        need = decision["need"]
        told = Step(
            decision["outcome"], f"for {need['kind']} {need['name']}: {cut(decision['why'])}"
        )
        if decision["score"] is not None:
            scores = ", ".join(
                f"{one['name']} v{one['version']} {one['score']:.2f}"
                for one in decision["candidates"][:SHOWN]
            )
            told.because.append(Step("closest", f"{scores} (δ {decision['delta']:.2f})"))
        key = decision["asset_id"]
        if key:
            told.because.append(await self._by_id(_use(run, key), key, depth))
        else:
            trajectory = _trajectory(run.creations, need["name"], "")
            told.because += await self._making(trajectory, depth) if trajectory else []
        return told

    async def _asset(self, asset: Asset, depth: int) -> list[Step]:
        steps = [await self._fared(asset.id, asset.namespace, "won")]
        steps += [Step("became", _change(change)) for change in asset.history]
        if isinstance(asset, ToolRecord):
            steps += _tests(asset)
        run = await self._memory.get("run", asset.run_id) if asset.run_id else None
        if run is not None:
            steps.append(_named("made by", run))
            trajectory = _trajectory(run.creations, asset.name, asset.id)
            steps += await self._making(trajectory, depth) if trajectory else []
        if asset.supersedes:
            steps.append(await self._by_id("took the place of", asset.supersedes, depth))
        return steps

    async def _making(self, trajectory: dict[str, Any], depth: int) -> list[Step]:
        """Tell how a tool was made: each draft's failure, and the lessons that were shown."""
        rounds = trajectory["rounds"]
        told = Step(
            "making", f"{trajectory['outcome']} after {rounds} round{'s' if rounds != 1 else ''}"
        )
        for draft in trajectory["drafts"]:
            if draft["role"] == "tool":
                said = "; ".join(draft["problems"][:2]) or "passed"
                told.because.append(Step(f"round {draft['round']}", cut(said)))
        told.because += [Step("read", url) for url in trajectory["web"]]
        for key in trajectory["lessons"]:
            told.because.append(await self._by_id("was told", key, depth, lesson=True))
        return [told]

    async def _lesson(self, lesson: ExperienceRecord, depth: int) -> list[Step]:
        steps = [
            Step("says", cut(f"{lesson.applies_when.rstrip('.')}: {lesson.knowledge}")),
            await self._fared(lesson.id, lesson.namespace, "helped"),
        ]
        steps += [Step("became", _change(change)) for change in lesson.history]
        teachers = await self._memory.list("run", {"learned": lesson.id}, limit=None)
        steps += [_named("taught by", run) for run in reversed(teachers[-SHOWN:])]
        if len(teachers) > SHOWN:
            steps.append(Step("taught by", f"{len(teachers) - SHOWN} later runs"))
        for word, keys in _links(lesson):
            steps += [await self._by_id(word, key, depth, lesson=True) for key in keys]
        return steps

    async def _fared(self, key: str, namespace: str, word: str) -> Step:
        kind: Literal["tool", "experience"] = "experience" if word == "helped" else "tool"
        counted = await self._memory.usage(kind, namespace=namespace, ids=[key])
        used = counted.get(key, Usage(0, 0))
        return Step("fared", f"{word} in {used.wins} of {used.uses} judged runs that used it")

    async def _by_id(self, word: str, key: str, depth: int, *, lesson: bool = False) -> Step:
        """Return the tree of a record by its id; one that was deleted is named as such."""
        kinds: Iterable[Literal["tool", "agent", "experience"]] = (
            ("experience",) if lesson else ("tool", "agent")
        )
        for kind in kinds:
            record: Any = await self._memory.get(kind, key)
            if record is not None:
                return await self._step(word, record, depth)
        return Step(word, f"{key[:8]}, which was deleted", "", key)


def _named(word: str, run: RunRecord) -> Step:
    judged = f"{run.verdict} by {run.verdict_by or 'nobody'}"
    return Step(word, f"{title_of(run)} ({judged})", "run", run.id)


def kind_of(record: RunRecord | Asset | ExperienceRecord) -> Kind:
    """Return what a person calls that kind of record."""
    if isinstance(record, RunRecord):
        return "run"
    if isinstance(record, ExperienceRecord):
        return "lesson"
    return "tool" if isinstance(record, ToolRecord) else "agent"


def title_of(record: RunRecord | Asset | ExperienceRecord) -> str:
    """Return a record in one line: what it is, its status, the start of its id."""
    short = record.id[:8]
    if isinstance(record, RunRecord):
        return f"run {short} of {record.created_at[:10]}: {cut(record.task)}"
    if isinstance(record, ExperienceRecord):
        return f"lesson {short} ({record.status}, from a {record.outcome}): {cut(record.title)}"
    what = "expert" if isinstance(record, AgentRecord) else "tool"
    return f"{what} {record.name} v{record.version} ({record.status}): {cut(record.card.partition(': ')[2])}"


def cut(text: str) -> str:
    """Return text on one line, of at most `TEXT` characters."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT else f"{line[: TEXT - 1]}…"


def _use(run: RunRecord, key: str) -> str:
    """Say whether a run used an asset that it was given, and how that went."""
    if key not in run.assets:
        return "not used"
    return "used and faulted" if run.verdict in JUDGED and key not in run.won else "used"


def _tests(tool: ToolRecord) -> list[Step]:
    """Tell what a tool was held to."""
    if tool.origin != "generated":
        return [Step("tests", f"none: it is {tool.origin}")]
    origins = Counter(case.origin for case in tool.cases)
    told = Step(
        "tests", ", ".join(f"{n} by {origin}" for origin, n in origins.items()) or "no cases"
    )
    told.because += [Step("case", _case(case)) for case in tool.cases[:SHOWN]]
    opinion = "agreed" if tool.second_opinion else "was not to be had"
    told.because.append(Step("second opinion", f"a different implementation {opinion}"))
    if tool.mutation_score is not None:
        told.because.append(Step("mutants", f"{tool.mutation_score:.0%} are caught by the cases"))
    if tool.permissions:
        told.because.append(Step("may", ", ".join(tool.permissions)))
    return [told]


def _case(case: Case) -> str:
    """Return a case as a call and what is expected of it."""
    args = ", ".join(f"{name}={value!r}" for name, value in case.args.items())
    expected = f"raises {case.raises}" if case.raises else f"gives {case.expected!r}"
    return cut(f"({args}) {f'has the property {case.property}' if case.property else expected}")


def _trajectory(
    creations: Iterable[dict[str, Any]], name: str, asset_id: str
) -> dict[str, Any] | None:
    """Return how an asset was made, or why the one of that name was not."""
    for one in creations:
        if one["asset_id"] == asset_id and (asset_id or one["need"]["name"] == name):
            return one
    return None


def _links(lesson: ExperienceRecord) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("supports", lesson.supports),
        ("contradicts", getattr(lesson, "contradicts", ())),
        ("took the place of", (lesson.supersedes,) if lesson.supersedes else ()),
    ]


def _change(change: StatusChange) -> str:
    run = f" (run {change.run_id[:8]})" if change.run_id else ""
    return f"{change.status} on {change.at[:10]}: {cut(change.reason)}{run}"
