"""What a cosine similarity means for an embedding model: measured on a labelled set of cards and wanted cards."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..models.embeddings import Embedder
from .labelled_set import LabelledSet, Query
from .recall import Calibration

STEP: Final = 0.01
"""Between two thresholds that are tried."""
COARSE: Final = 0.05
"""The band and `twin` are whole multiples of it: the set is too small for more."""
MARGIN: Final = 0.07
"""By which the band is wider than what the set shows."""
RARE: Final = 0.01
"""Share that counts as practically none."""
NEAR_RARE: Final = 0.05
"""Share of pairs that differ, but nearly say the same, which may lie above `twin`: a merge is checked further."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How one query came out."""

    score: float
    """Of the closest card."""
    answered: bool
    """Whether the set holds a card for it."""
    right: bool
    """Whether that card is the closest."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one threshold does: a line of the trade-off table."""

    threshold: float
    accuracy: float
    """Share of right decisions: the right card recruited, or nothing where there is none."""
    f1: float
    """Of recruiting the right card."""
    recruited_right: int
    recruited_wrong: int
    missed: int
    """Cards that would have done it and were not recruited."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A calibration and what it rests on."""

    calibration: Calibration
    accuracy: float
    """At δ, on the set that it was found with."""
    table: tuple[Row, ...]


async def measure(embedder: Embedder, labelled: LabelledSet) -> Measured:
    """Find δ, the band of the fit check and `twin` for an embedding model.

    Raises:
        ModelError: If the model cannot be used.
    """
    vectors = await _vectors(embedder, labelled)
    trials = [trial(labelled, query, vectors) for query in labelled.queries]
    delta = best_delta(trials)
    calibration = Calibration(delta=delta, **_band(trials, delta), twin=_twin(labelled, vectors))
    steps = sorted({*(n * COARSE for n in range(4, 19)), delta})
    return Measured(
        calibration=calibration,
        accuracy=tabulate(trials, delta).accuracy,
        table=tuple(tabulate(trials, round(step, 2)) for step in steps),
    )


def trial(labelled: LabelledSet, query: Query, vectors: dict[str, list[float]]) -> Trial:
    """Return how a wanted card comes out: the closest card of its collections."""
    where = labelled.collections_of(query)
    score, closest = max(
        (_cosine(vectors[query.want], vectors[card.text]), card.id)
        for card in labelled.cards
        if card.asset in where
    )
    return Trial(score=score, answered=bool(query.answer), right=closest == query.answer)


def best_delta(trials: Sequence[Trial]) -> float:
    """Return the threshold with most right decisions, then the best F1; of several the middle one."""
    rows = [tabulate(trials, round(n * STEP, 2)) for n in range(1, 100)]
    best = max((row.accuracy, row.f1) for row in rows)
    fitting = [row.threshold for row in rows if (row.accuracy, row.f1) == best]
    return fitting[(len(fitting) - 1) // 2]


def tabulate(trials: Sequence[Trial], threshold: float) -> Row:
    """Return what a threshold does."""
    recruited = [one for one in trials if one.score >= threshold]
    right = sum(one.right for one in recruited)
    wrong = len(recruited) - right
    answered = sum(one.answered for one in trials)
    missed = sum(one.answered for one in trials if one.score < threshold)
    created = len(trials) - len(recruited) - missed
    return Row(
        threshold=threshold,
        accuracy=(right + created) / len(trials),
        f1=2 * right / max(1, right + wrong + answered),
        recruited_right=right,
        recruited_wrong=wrong,
        missed=missed,
    )


def _band(trials: Sequence[Trial], delta: float) -> dict[str, float]:
    """Return `low` and `high`: below and above them nothing is left to ask, as far as the set shows."""
    right = sorted(one.score for one in trials if one.right)
    wrong = sorted((one.score for one in trials if not one.right), reverse=True)
    low = _floor(right[int(RARE * len(right))] - MARGIN) if right else delta
    high = _ceil(wrong[int(RARE * len(wrong))] + MARGIN) if wrong else delta
    return {"low": max(0.0, min(low, delta)), "high": min(1.0, max(high, delta))}


def _twin(labelled: LabelledSet, vectors: dict[str, list[float]]) -> float:
    """Return a similarity that two cards which do not say the same hardly reach.

    Measured on the near misses; on the cards of a set that has none.
    """
    text = {card.id: card.text for card in labelled.cards}
    pairs = [(text[one.card], one.wanted) for one in labelled.near]
    rare = NEAR_RARE
    if not pairs:
        cards = list(text.values())
        pairs = [(one, other) for n, one in enumerate(cards) for other in cards[:n]]
        rare = 0.0
    scores = sorted((_cosine(vectors[a], vectors[b]) for a, b in pairs), reverse=True)
    return min(1.0, max(COARSE, _ceil(scores[int(rare * len(scores))]))) if scores else 1.0


async def _vectors(embedder: Embedder, labelled: LabelledSet) -> dict[str, list[float]]:
    texts = list(
        dict.fromkeys(
            [
                *(card.text for card in labelled.cards),
                *(query.want for query in labelled.queries),
                *(one.wanted for one in labelled.near),
            ]
        )
    )
    return dict(zip(texts, await embedder.embed(texts), strict=True))


def _cosine(one: Iterable[float], other: Iterable[float]) -> float:
    """Cosine of two unit vectors."""
    return sum(a * b for a, b in zip(one, other, strict=True))


def _floor(value: float) -> float:
    return round(math.floor(value / COARSE + 1e-9) * COARSE, 2)


def _ceil(value: float) -> float:
    return round(math.ceil(value / COARSE - 1e-9) * COARSE, 2)
