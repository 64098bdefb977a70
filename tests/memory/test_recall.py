"""Ranking, its lower bound, and recall with the real model on the labelled set."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.memory.edge import EdgeStore
from mem2evolve.memory.labelled_set import LABELLED
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.recall import (
    CALIBRATED,
    UNCALIBRATED,
    Candidate,
    Need,
    calibration_of,
    rank,
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
