"""Everything that a memory holds at one moment, and what follows from it: uses, evidence, signs of life."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ..memory import JUDGED, Memory
from ..recall import Usage
from ..records import AgentRecord, ExperienceRecord, RunRecord, StatusChange, ToolRecord
from ..rows import Kept


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All records of all kinds, or of one namespace. Nothing is read after it was taken."""

    tools: tuple[ToolRecord, ...] = ()
    agents: tuple[AgentRecord, ...] = ()
    lessons: tuple[ExperienceRecord, ...] = ()
    runs: tuple[RunRecord, ...] = ()

    @property
    def assets(self) -> tuple[ToolRecord | AgentRecord, ...]:
        """Tools and experts."""
        return (*self.tools, *self.agents)

    @property
    def kept(self) -> tuple[Kept, ...]:
        """Assets and lessons."""
        return (*self.assets, *self.lessons)


async def take_snapshot(memory: Memory, namespace: str | None = None) -> Snapshot:
    """Read the whole memory, or one namespace of it.

    Raises:
        StoreError: If it cannot be read.
    """
    where = {"namespace": namespace} if namespace else None
    return Snapshot(
        tools=tuple(await memory.list("tool", where, limit=None)),
        agents=tuple(await memory.list("agent", where, limit=None)),
        lessons=tuple(await memory.list("experience", where, limit=None)),
        runs=tuple(await memory.list("run", where, limit=None)),
    )


@dataclass(frozen=True)
class Ledger:
    """What the runs of a snapshot say of its assets and lessons."""

    snapshot: Snapshot
    _shown: dict[str, list[RunRecord]] = field(default_factory=dict, init=False)
    _taught: dict[str, list[RunRecord]] = field(default_factory=dict, init=False)
    _lessons: dict[str, ExperienceRecord] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Turn the runs around: which ones name an id."""
        self._lessons.update((one.id, one) for one in self.snapshot.lessons)
        for run in self.snapshot.runs:
            for key in {*run.assets, *run.lessons}:
                self._shown.setdefault(key, []).append(run)
            for key in set(run.learned):
                self._taught.setdefault(key, []).append(run)

    def runs_with(self, record: Kept) -> list[RunRecord]:
        """Return the runs in which an asset was used or a lesson shown."""
        return [run for run in self._shown.get(record.id, []) if run.namespace == record.namespace]

    def usage(self, record: Kept) -> Usage:
        """Count uses and wins over the runs with a verdict."""
        return count_uses(record.id, self.runs_with(record))

    def evidence(self, lesson: ExperienceRecord) -> list[RunRecord]:
        """Return the runs that taught a lesson, or the wording that it took the place of; newest first."""
        found = {
            run.id: run
            for key in wordings(lesson, self._lessons)
            for run in self._taught.get(key, [])
            if run.namespace == lesson.namespace
        }
        return sorted(found.values(), key=lambda run: (run.created_at, run.id), reverse=True)

    def last_sign(self, record: Kept) -> datetime | None:
        """Return when it was last made, moved, used or taught; `None` if no time can be read."""
        times = [record.created_at, *(change.at for change in record.history)]
        times += [run.created_at for run in self.runs_with(record)]
        if isinstance(record, ExperienceRecord):
            times += [run.created_at for run in self.evidence(record)]
        return max(filter(None, map(moment, times)), default=None)


def wordings(lesson: ExperienceRecord, lessons: Mapping[str, ExperienceRecord]) -> list[str]:
    """Return the id of a lesson and of those that it superseded in turn, newest first."""
    chain: list[str] = []
    now: ExperienceRecord | None = lesson
    while now is not None and now.id not in chain:
        chain.append(now.id)
        now = lessons.get(now.supersedes)
    return chain


def count_uses(key: str, runs: Iterable[RunRecord], since: datetime | None = None) -> Usage:
    """Count the runs with a verdict that used an asset or were shown a lesson, and those that it won.

    Args:
        key: Its id.
        runs: Those that name it.
        since: Count only runs after this.
    """
    judged = [
        run
        for run in runs
        if run.verdict in JUDGED
        and (since is None or (moment(run.created_at) or since) > since)
        and (key in run.assets or key in run.lessons)
    ]
    return Usage(len(judged), sum(key in run.won or key in run.helped for run in judged))


def brought_back(history: Iterable[StatusChange]) -> datetime | None:
    """Return when what had been quarantined was made active again, the last time; else `None`."""
    since: datetime | None = None
    out = False
    for change in history:
        if change.status == "quarantined":
            out = True
        elif change.status == "active" and out:
            since, out = moment(change.at), False
    return since


def moment(text: str) -> datetime | None:
    """Read a time as records keep it; `None` if it is none."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)
