"""Ranking, its lower bound, and recall with the real model on the labelled set."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.labelled_set import LABELLED
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.recall import (
    CALIBRATED,
    SAME,
    UNCALIBRATED,
    Candidate,
    Need,
    calibration_of,
    rank,
    same_words,
    step,
    wilson_lower_bound,
)
from mem2evolve.memory.records import AgentRecord, ExperienceRecord, ToolRecord
from mem2evolve.models.embeddings import MiniLM


@given(uses=st.integers(1, 10_000), share=st.floats(0, 1), z=st.floats(0.1, 5))
def test_wilson_grows_with_wins(uses: int, share: float, z: float) -> None:
    """It lies in [0, share] and grows with wins, and with evidence at the same share."""
    wins = int(share * (uses - 1))
    low = wilson_lower_bound(wins, uses, z)
    assert 0.0 <= low <= wins / uses + 1e-12
    assert low <= wilson_lower_bound(wins + 1, uses, z)
    assert low <= wilson_lower_bound(wins * 2, uses * 2, z) + 1e-12
    assert wilson_lower_bound(wins, uses + 1, z) <= low + 1e-12


def test_wilson_values() -> None:
    """Known values, the case without evidence, and what cannot be."""
    assert wilson_lower_bound(0, 0) == 0.0
    assert wilson_lower_bound(1, 1) == pytest.approx(0.2065, abs=1e-4)
    assert wilson_lower_bound(10, 10) == pytest.approx(0.7225, abs=1e-4)
    assert wilson_lower_bound(8, 10) == pytest.approx(0.4902, abs=1e-4)
    with pytest.raises(ValueError, match="3 wins of 2 uses"):
        wilson_lower_bound(3, 2)


candidates = st.builds(
    Candidate,
    id=st.uuids().map(str),
    kind=st.just("tool"),
    name=st.just("t"),
    version=st.integers(1, 3),
    card=st.just("t: x"),
    score=st.floats(-1, 1),
    status=st.sampled_from(["active", "candidate"]),
    uses=st.integers(5, 9),
    wins=st.integers(0, 5),
)


@given(st.lists(candidates, max_size=8), st.randoms())
def test_ranking_is_total(found: list[Candidate], rng: Any) -> None:
    """The order does not depend on the order of what was found, and similarity leads it."""
    ranked = rank(found)
    shuffled = list(found)
    rng.shuffle(shuffled)
    assert rank(shuffled) == ranked
    for better, worse in itertools.pairwise(ranked):
        assert better.score > worse.score - 0.0101


def test_calibration_belongs_to_the_model() -> None:
    """Known models have their own thresholds, others a wide band for a model to look at."""
    assert calibration_of(MiniLM.name) == CALIBRATED["minilm"]
    assert calibration_of("openai:text-embedding-3-small") == UNCALIBRATED
    for each in (*CALIBRATED.values(), UNCALIBRATED):
        assert 0 <= each.low <= each.delta <= each.high <= 1


@pytest.fixture(scope="module")
def labelled() -> list[dict[str, Any]]:
    """60 cards of three kinds, 60 queries that one of them answers, 30 that none does."""
    return [json.loads(line) for line in (LABELLED / "recruit.jsonl").read_text().splitlines()]


async def test_recruiting_on_the_labelled_set(
    tmp_path: Path, minilm: MiniLM, labelled: list[dict[str, Any]]
) -> None:
    """At the default delta at least .97 of the decisions to recruit or create are right.

    Through `recall_assets` and `recall_lessons`, each need in its own collection. Right is: the
    card that answers is the best and at least delta close; where none answers, none is that close.
    A need without an answer has no kind in the set: lower-case names are tools, others agents.
    """
    async with Memory(EdgeStore(tmp_path), minilm, lesson_floor=0.0) as memory:
        ids = await _fill(memory, labelled)
        queries = [row for row in labelled if row["kind"] == "query"]
        needs = [row for row in queries if row.get("asset") != "experience"]
        found = await memory.recall_assets([_need(row) for row in needs])
        best = {
            row["id"]: (ranked[0].id, ranked[0].score)
            for row, ranked in zip(needs, found, strict=True)
        }
        for row in queries:
            if row.get("asset") == "experience":
                [(lesson, score)] = await memory.recall_lessons(row["want"], scope="agent", k=1)
                best[row["id"]] = (lesson.id, score)
        delta = memory.calibration.delta
        right = sum(
            (ids[row["answer"]] == best[row["id"]][0] and best[row["id"]][1] >= delta)
            if row["answer"]
            else best[row["id"]][1] < delta
            for row in queries
        )
        assert len(queries) == 90
        assert right / 90 >= 0.97


def _need(row: dict[str, Any]) -> Need:
    name, _, sentence = row["want"].partition(": ")
    kind = row.get("asset") or ("tool" if name[0].islower() else "agent")
    return Need(kind=kind, name=name, description=sentence)


async def _fill(memory: Memory, labelled: list[dict[str, Any]]) -> dict[str, str]:
    """Write the cards; return our id for each of theirs."""
    records: dict[str, ToolRecord | AgentRecord | ExperienceRecord] = {}
    for row in labelled:
        if row["kind"] != "card":
            continue
        name, _, text = row["text"].partition(": ")
        if row["asset"] == "tool":
            record: ToolRecord | AgentRecord | ExperienceRecord = ToolRecord(
                name=name, description=text, input_schema={}, status="active"
            )
        elif row["asset"] == "agent":
            record = AgentRecord(name=name, expertise=text, strategy="", status="active")
        else:
            record = ExperienceRecord(
                scope="agent",
                title=name,
                description=text,
                applies_when="",
                knowledge="",
                outcome="success",
                run_id="r",
            )
        assert math.isclose(len(record.card), len(row["text"]), abs_tol=1)
        records[row["id"]] = record
    await memory.put(*records.values())
    return {key: record.id for key, record in records.items()}


@given(candidates, st.integers(1, 50))
def test_a_closer_one_never_ranks_lower(one: Candidate, steps: int) -> None:
    """By a step or more, similarity outweighs any record and status."""
    closer = replace(one, id="0", score=one.score + steps * SAME + SAME / 2, uses=9, wins=0)
    worse_off = replace(closer, status="candidate")
    assume(step(closer.score) > step(one.score))
    assert rank([one, worse_off]) == [worse_off, one]


within_a_step = st.floats(-0.4, 0.4)
"""Of similarity, in steps, around the middle of one."""


@given(candidates, st.integers(1, 4), within_a_step)
def test_at_equal_similarity_more_wins_never_rank_lower(
    one: Candidate, more: int, off: float
) -> None:
    """Of as many uses, in the same step."""
    score = (step(one.score) + off) * SAME
    better = replace(one, id="f" * 36, wins=min(one.wins + more, one.uses), score=score)
    if better.wins > one.wins:
        assert rank([one, better]) == [better, one]


@given(candidates, within_a_step)
def test_at_equal_similarity_fewer_losses_never_rank_lower(one: Candidate, off: float) -> None:
    """As many wins of fewer uses, in the same step."""
    score = (step(one.score) + off) * SAME
    rarer = replace(one, id="f" * 36, uses=max(one.wins, one.uses - 1), score=score)
    if rarer.uses < one.uses:
        assert rank([one, rarer]) == [rarer, one]


@given(st.lists(candidates, max_size=6, unique_by=lambda one: one.id))
def test_ranking_keeps_everything(found: list[Candidate]) -> None:
    """Nothing is lost or doubled, and ranking the ranked changes nothing."""
    ranked = rank(found)
    assert sorted(one.id for one in ranked) == sorted(one.id for one in found)
    assert rank(ranked) == ranked


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("mean: Computes the mean.", "mean: computes  mean", True),
        ("mean: Computes the mean.", "median: Computes the median.", False),
        ("a_to_b: From A to B.", "a_to_b: From B to A.", False),
        ("days: Counts days.", "days: Counts days, ends excluded.", False),
        ("days_between: Counts days.", "days between: Counts the days", True),
        ("größe: Misst die Größe.", "Größe: misst die größe", True),
    ],
)
def test_worded_alike(one: str, other: str, same: bool) -> None:  # noqa: FBT001 - a case
    """The same words in the same order; case, marks and articles do not matter."""
    assert same_words(one, other) is same
    assert same_words(other, one) is same
