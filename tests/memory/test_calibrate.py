"""Calibration: what a labelled set says of an embedding model, and how a memory keeps it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.errors import InputError, StoreDamaged
from mem2evolve.memory.calibrate import Trial, _band, best_delta, measure, tabulate
from mem2evolve.memory.labelled_set import load
from mem2evolve.memory.manifest import Manifest
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.recall import CALIBRATED, UNCALIBRATED, Calibration
from mem2evolve.memory.store import MemoryStore
from mem2evolve.models.embeddings import MiniLM

from .conftest import WordsEmbedder

OWN = Calibration(delta=0.42, low=0.2, high=0.7, twin=0.85)


async def test_the_built_in_model_comes_out_as_shipped(minilm: MiniLM) -> None:
    """δ is about .50 with .98 of the decisions right; the band and `twin` are the shipped ones."""
    found = await measure(minilm, load())

    shipped = CALIBRATED["minilm"]
    assert found.calibration.delta == pytest.approx(shipped.delta, abs=0.02)
    assert found.accuracy >= 0.97
    kept = found.calibration
    assert (kept.low, kept.high, kept.twin) == (shipped.low, shipped.high, shipped.twin)
    assert found.calibration.delta in {row.threshold for row in found.table}


def test_the_set_holds_what_it_says() -> None:
    """60 cards, 90 queries of which 30 have no card, 40 near misses; each id once."""
    found = load()
    assert (len(found.cards), len(found.queries), len(found.near)) == (60, 90, 40)
    assert sum(not query.answer for query in found.queries) == 30
    every = [one.id for group in (found.cards, found.queries, found.near) for one in group]
    assert len(set(every)) == len(every)
    unanswered = next(query for query in found.queries if not query.answer)
    assert found.collections_of(unanswered) == ("tool", "agent", "experience")
    assert all(one.differs for one in found.near)


TRIALS = st.lists(
    st.builds(Trial, score=st.floats(-1, 1), answered=st.booleans(), right=st.just(False)).flatmap(
        lambda one: st.sampled_from([one, Trial(score=one.score, answered=True, right=True)])
    ),
    min_size=1,
    max_size=30,
)


@given(TRIALS)
def test_delta_is_the_best_of_the_table_and_lies_in_its_band(trials: list[Trial]) -> None:
    """No threshold makes more right decisions; counts add up; low ≤ δ ≤ high."""
    delta = best_delta(trials)
    best = tabulate(trials, delta)
    for step in range(1, 100):
        row = tabulate(trials, step / 100)
        assert row.accuracy <= best.accuracy
        decided = row.recruited_right + row.recruited_wrong + row.missed
        assert decided <= len(trials)
    band = _band(trials, delta)
    assert 0 <= band["low"] <= delta <= band["high"] <= 1


@given(TRIALS, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_recruits_less(trials: list[Trial], one: float, other: float) -> None:
    """Fewer right, fewer wrong, more missed."""
    low, high = (tabulate(trials, at) for at in sorted((one, other)))
    assert high.recruited_right <= low.recruited_right
    assert high.recruited_wrong <= low.recruited_wrong
    assert high.missed >= low.missed


LINES = {
    "card": {"kind": "card", "id": "c1", "asset": "tool", "text": "add: Adds two numbers."},
    "yes": {"kind": "query", "id": "q1", "want": "sum: Adds two numbers.", "answer": "c1"},
    "no": {"kind": "query", "id": "q2", "want": "cook: Cooks a meal.", "answer": None},
}


def written(path: Path, **changed: object) -> Path:
    """Write a small set with some lines changed or left out (`None`)."""
    rows = [row for row in {**LINES, **changed}.values() if row is not None]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


async def test_a_set_of_ones_own(tmp_path: Path) -> None:
    """Without near misses, `twin` comes from the cards; a blank line is passed over."""
    path = written(tmp_path / "own.jsonl")
    path.write_text(path.read_text() + "\n")
    found = await measure(WordsEmbedder(), load(path))

    assert found.accuracy == 1.0
    assert found.calibration.twin == 1.0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"card": 5}, "Line 1 .* is not a JSON object"),
        ({"card": {**LINES["card"], "asset": "stone"}}, "asset = 'stone'"),
        ({"yes": {**LINES["yes"], "want": ""}}, "want = ''"),
        ({"yes": {**LINES["yes"], "answer": "c9"}}, "names 'c9'"),
        ({"yes": {**LINES["yes"], "answer": 1}}, "answer 1"),
        ({"no": None}, "queries that none does"),
        ({"near": {"id": "m1", "card": "c1", "wanted": "x"}}, "differs = None"),
    ],
)
def test_a_set_that_cannot_be_used_is_refused(
    tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    """The value is named."""
    with pytest.raises(InputError, match=said):
        load(written(tmp_path / "bad.jsonl", **changed))


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """Missing, or not UTF-8."""
    path = tmp_path / "none.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        load(path)


async def test_a_memory_keeps_its_calibration(store: MemoryStore) -> None:
    """It holds for who opens the memory next, from the first call on; before, what is shipped does."""
    memory = Memory(store, WordsEmbedder())
    assert await memory.calibrated() == UNCALIBRATED
    await memory.keep_calibration(OWN)
    assert memory.calibration == OWN

    again = Memory(store, WordsEmbedder())
    assert again.calibration == UNCALIBRATED
    assert await again.calibrated() == OWN
    assert again.calibration == OWN


def test_a_calibration_travels_with_the_manifest() -> None:
    """To JSON and back."""
    made = Manifest(embedding="x", dim=3, generation=2, calibration=OWN)
    assert Manifest.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    "change",
    [
        {"calibration": [1]},
        {"calibration": {"delta": 0.5}},
        {"calibration": {"delta": 0.5, "low": 0.6, "high": 0.7, "twin": 0.9}},
        {"calibration": {"delta": 0.5, "low": 0.4, "high": 7, "twin": 0.9}},
        {"calibration": {"delta": True, "low": 0.4, "high": 0.7, "twin": 0.9}},
        {"generation": -1},
        {"generation": "1"},
    ],
)
def test_a_broken_field_is_damage(change: dict[str, object]) -> None:
    """It is named."""
    with pytest.raises(StoreDamaged, match=next(iter(change))):
        Manifest.from_json(Manifest(embedding="x", dim=3).to_json() | change)
