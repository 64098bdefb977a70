"""What goes into a run and what comes out of it, as callers see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InputError


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a run."""

    answer: str
    """The answer, in the form that the task asks for."""
    verdict: str
    """`success`, `failure` or `abstained`; empty when the run was not judged."""
    run_id: str
    notes: tuple[str, ...]
    """Why tools that were wanted were not made or kept."""
    state: Mapping[str, Any]
    """The whole end state: plan, decisions, creations, results, kept, learned, ledger."""

    def __str__(self) -> str:
        return self.answer


def value_of(state: Any, name: str) -> Any:
    """Return a value of a host's state, be it a mapping, a dataclass or a pydantic model."""
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def text_of(state: Any, name: str) -> str:
    """Return the task in a host's state.

    Raises:
        InputError: If there is none, or it is no text.
    """
    found = value_of(state, name)
    if not isinstance(found, str):
        raise InputError(
            f"The host's state holds {type(found).__name__} as {name!r}, where the task should be.",
            hint=f"Name the value that holds the task as text: task={name!r} names another one.",
        )
    return found


def given_of(task: str, files: Sequence[str | Path]) -> Any:
    """Return the graph's input; paths are taken from the working folder."""
    return {"task": task, "files": [str(Path(one).absolute()) for one in files]}


def result_of(end: Mapping[str, Any]) -> Result:
    """Return what matters of an end state."""
    lacking = [one for one in end.get("creations", []) if not one["asset_id"]]
    return Result(
        answer=end["answer"],
        verdict=end["verdict"],
        run_id=end["run_id"],
        notes=tuple(f"{one['need']['name']}: {one['outcome']}" for one in lacking),
        state=end,
    )
