"""What an asset or a lesson is worth: the arithmetic, the reading of tasks, and a replay over the real loop."""

import math
import statistics
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mem2evolve.replay import Trial, interval, report


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
