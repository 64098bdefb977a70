"""What an asset or a lesson is worth: the arithmetic, the reading of tasks, and a replay over the real loop."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mem2evolve.errors import InputError
from mem2evolve.replay import Task, Trial, interval, read_tasks, report


def trial(task: int, arm: Any, *, right: bool, tokens: int = 10) -> Trial:
    """Return a trial in which the record was used."""
    return Trial(task=task, arm=arm, right=right, answer="a", used=arm == "with", tokens=tokens)


def test_gains_are_paired_by_task() -> None:
    """Repeats are averaged first; the gain is with less without."""
    trials = [
        *(trial(0, "with", right=True, tokens=10), trial(0, "without", right=False, tokens=30)),
        *(trial(0, "with", right=True, tokens=20), trial(0, "without", right=True, tokens=30)),
        *(trial(1, "with", right=True, tokens=15), trial(1, "without", right=True, tokens=15)),
    ]

    found = report(trials)

    assert (found["tasks"], found["trials"], found["used"]) == (2, 6, 3)
    assert found["accuracy"]["with"] == 1.0
    assert found["accuracy"]["gain"] == 0.25
    assert found["tokens"]["gain"] == -7.5
    assert found["accuracy"]["interval"] == (0.0, 0.5)


def test_one_task_and_none_give_no_interval() -> None:
    """There is nothing to resample."""
    assert (
        report([trial(0, "with", right=True), trial(0, "without", right=True)])["tokens"][
            "interval"
        ]
        is None
    )
    assert report([])["accuracy"]["gain"] is None


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12))
def test_the_interval_holds_the_mean_and_stays_inside(values: list[float]) -> None:
    """It is the same each time, and never wider than the values."""
    found = interval(values)

    assert found is not None
    low, high = found
    assert min(values) - 1e-3 <= low <= statistics.fmean(values) + 1e-3
    assert statistics.fmean(values) - 1e-3 <= high <= max(values) + 1e-3
    assert found == interval(values)


def test_the_interval_is_that_of_the_normal_one_where_that_holds() -> None:
    """For many values both agree."""
    values = [float(n % 7) for n in range(140)]
    half = 1.96 * statistics.pstdev(values) / math.sqrt(len(values))
    low, high = interval(values) or (0.0, 0.0)

    assert low == pytest.approx(3.0 - half, abs=0.03)
    assert high == pytest.approx(3.0 + half, abs=0.03)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "holds 0 tasks"),
        ('{"task": "x"}', "Line 1"),
        ('{"task": "x", "answer": "1"}\nnot json', "Line 2"),
        ('{"task": "", "answer": "1"}', "empty"),
        ('{"task": "x", "answer": "1", "files": ["absent.csv"]}', "absent.csv"),
        ('{"task": 5, "answer": "1"}', "no text"),
        ("[" * 100_000, "Line 1"),
    ],
)
def test_tasks_that_cannot_be_used_are_named(tmp_path: Path, lines: str, words: str) -> None:
    """File, line and what to write instead."""
    file = tmp_path / "tasks.jsonl"
    file.write_text(lines)

    with pytest.raises(InputError, match=words):
        read_tasks(file)


def test_tasks_are_read(tmp_path: Path) -> None:
    """Files lie beside the list; numbers may be answers."""
    (tmp_path / "a.csv").write_text("x")
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps({"task": " t ", "answer": 42, "files": ["a.csv"]}) + "\n\n")

    assert read_tasks(file) == [Task(task="t", answer="42", files=(str(tmp_path / "a.csv"),))]
