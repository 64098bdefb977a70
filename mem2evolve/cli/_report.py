"""How a run ended: its answer, what `--json` prints, and the exit code."""

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from ._approval import WAITING, about
from ._common import print_json
from ._drive import End, how_to_resume
from ._text import drop_unwritten, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_SOLVED: Final = 1
"""Exit code of a run that ended without solving its task."""

Shown = Literal["story", "json", "stream"]
"""What is shown of a run: the answer and a story for people, one JSON line at the end, or one an event."""


def shown(options: "Mapping[str, Any]") -> Shown:
    """Return what the options `--json` and `--stream-json` ask for."""
    if options.get("stream_json"):
        return "stream"
    return "json" if options["as_json"] else "story"


def report(end: End, show: Shown) -> None:
    """Print what `--json` prints; end with exit code 3 when the run waits for a person."""
    if show != "story":
        mark = {"event": "ended"} if show == "stream" else {}
        waits = {"run_id": end.run_id, "waiting": end.waiting}
        print_json(mark | (waits if end.waiting else summary(end.state)))
    if end.waiting:
        names = ", ".join(map(about, end.waiting))
        click.echo(
            f"run {end.run_id[:8]} waits for a person's word on {names}: {how_to_resume(end.run_id)}"
            " asks on a terminal; --approve or --reject WHY answers",
            err=True,
        )
        raise SystemExit(WAITING)


def leave_by(end: End) -> None:
    """End the command by what came of a task: exit code 1 unless it was solved."""
    if not solved(end.state):
        raise SystemExit(NOT_SOLVED)


def solved(state: dict[str, Any]) -> bool:
    """Say whether a run solved its task, as far as is known: an answer, no step cut short, not judged a failure."""
    cut_short = any(result["partial"] for result in state["results"])
    return bool(state["answer"]) and not cut_short and state["verdict"] != "failure"


def write_answer(answer: str) -> bool:
    """Write the answer to standard output at once. If it cannot be, the run goes on: it is in the run's record."""
    try:
        # A terminal must not obey what a model says; a file or a pipe gets every byte of it.
        click.echo(plain(answer) if sys.stdout.isatty() else answer, color=True)
        sys.stdout.flush()
    except OSError as exc:
        with contextlib.suppress(OSError):
            click.echo(f"The answer could not be written to standard output: {exc}.", err=True)
        drop_unwritten(sys.stdout)
        return False
    return True


def summary(end: dict[str, Any]) -> dict[str, Any]:
    """Return what `--json` prints."""
    from ..nodes.chronicle import seconds_of, totals  # noqa: PLC0415

    return {
        "run_id": end["run_id"],
        "answer": end["answer"],
        "verdict": end["verdict"],
        "judgement": end["judgement"],
        "decisions": [
            {key: value for key, value in one.items() if key != "record"}
            for one in end["decisions"]
        ],
        "kept": end["kept"],
        "learned": end["learned"],
        "tokens": totals(end["ledger"]),
        "seconds": seconds_of(end["ledger"], end["started"], end["ended"]),
    }
