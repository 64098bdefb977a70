"""Records for tests of the care of a memory, and whole memories drawn at random."""

import uuid
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from mem2evolve.memory.care.snapshot import Snapshot
from mem2evolve.memory.records import (
    AgentRecord,
    ExperienceRecord,
    RunRecord,
    StatusChange,
    ToolRecord,
)

STATUSES = ["candidate", "active", "superseded", "quarantined", "retired"]


def tool(name: str = "word_count", **fields: Any) -> ToolRecord:
    """Return a tool in use."""
    given = {"description": f"Does {name}.", "input_schema": {}, "status": "active", **fields}
    return ToolRecord(name=name, **given)


def expert(name: str = "reader", **fields: Any) -> AgentRecord:
    """Return an expert in use."""
    given = {"expertise": f"Is a {name}.", "strategy": "s", "status": "active", **fields}
    return AgentRecord(name=name, **given)


def lesson(title: str = "Paginate", **fields: Any) -> ExperienceRecord:
    """Return a lesson."""
    given = {
        "scope": "agent",
        "title": title,
        "description": f"about {title}",
        "applies_when": f"when {title}",
        "knowledge": "read all pages",
        "outcome": "success",
        "run_id": "r0",
    }
    return ExperienceRecord(**{**given, **fields})


def run(number: int = 0, **fields: Any) -> RunRecord:
    """Return a run; equal numbers give equal ids."""
    given = {"id": str(uuid.UUID(int=number + 1)), "task": f"t{number}", "mode": "full"}
    return RunRecord(**{**given, "model": "m", **fields})


def went(status: str, reason: str = "because", at: str = "2026-01-01T00:00:00+00:00") -> Any:
    """Return a line of history."""
    return StatusChange(status=status, reason=reason, at=at)  # type: ignore[arg-type]


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Draw a memory in which no record names what is not there."""
    runs = [run(n) for n in range(draw(st.integers(1, 4)))]
    ids = [one.id for one in runs]
    tools = list(_versions(draw, ids, tool, ["a", "b", "c"]))
    known = sorted({one.name for one in tools})
    experts = list(_versions(draw, ids, expert, ["x", "y"], tools=known))
    lessons = list(_lessons(draw, ids, tools))
    assets = [one.id for one in (*tools, *experts)]
    every = [one.id for one in lessons]
    return Snapshot(
        tools=tuple(tools),
        agents=tuple(experts),
        lessons=tuple(lessons),
        runs=tuple(_lived(draw, one, assets, every, lessons) for one in runs),
    )


def _some(draw: st.DrawFn, values: list[str]) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(values), unique=True, max_size=3))) if values else ()


def _one_or_none(draw: st.DrawFn, values: list[str]) -> str:
    return draw(st.sampled_from(["", *values]))


def _versions(
    draw: st.DrawFn, runs: list[str], make: Any, names: list[str], tools: Any = None
) -> Iterator[Any]:
    for name in names:
        before = ""
        for version in range(1, 1 + draw(st.integers(0, 3))):
            by = _one_or_none(draw, runs)
            history = (StatusChange(status="active", reason="x", run_id=by),)
            extra = {} if tools is None else {"tools": _some(draw, tools)}
            status = draw(st.sampled_from(STATUSES))
            parts = {"version": version, "supersedes": before, "run_id": by, "status": status}
            made = make(name, history=history, **parts, **extra)
            before = draw(st.sampled_from([made.id, before]))
            yield made


def _lessons(
    draw: st.DrawFn, runs: list[str], tools: list[ToolRecord]
) -> Iterator[ExperienceRecord]:
    earlier: list[str] = []
    cards = [one.card for one in tools]
    for number in range(draw(st.integers(0, 6))):
        made = lesson(
            f"l{number}",
            scope=draw(st.sampled_from(["agent", "tool"])),
            learned_from=_one_or_none(draw, cards),
            run_id=draw(st.sampled_from(runs)),
            supersedes=_one_or_none(draw, earlier),
            supports=_some(draw, earlier),
            contradicts=_some(draw, earlier),
            status=draw(st.sampled_from(STATUSES)),
        )
        earlier.append(made.id)
        yield made


def _lived(
    draw: st.DrawFn,
    begun: RunRecord,
    assets: list[str],
    ids: list[str],
    lessons: list[ExperienceRecord],
) -> RunRecord:
    used, shown = _some(draw, assets), _some(draw, ids)
    taught = [one.id for one in lessons if one.run_id == begun.id and draw(st.booleans())]
    changed: dict[str, Any] = {
        "assets": used,
        "won": _some(draw, list(used)),
        "lessons": shown,
        "helped": _some(draw, list(shown)),
        "learned": tuple(dict.fromkeys((*taught, *_some(draw, ids)))),
        "decisions": [
            {
                "asset_id": _one_or_none(draw, assets),
                "candidates": [{"id": key, "score": 1.0} for key in _some(draw, assets)],
            }
        ],
        "results": [
            {
                "expert_id": _one_or_none(draw, assets),
                "lessons": [*_some(draw, ids)],
                "known": [{"id": key, "name": "n"} for key in _some(draw, assets)],
            }
        ],
        "creations": [
            {"asset_id": _one_or_none(draw, assets), "lessons": [*_some(draw, ids)], "drafts": []}
        ],
        "critique": {"faults": [{"id": key, "why": "w"} for key in _some(draw, assets)]},
        "verdict": draw(st.sampled_from(["success", "failure", "abstained"])),
    }
    return begun.model_copy(update=changed)
