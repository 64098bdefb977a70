"""Recall: what is asked for, what is found, and how it is ranked."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from .records import Kind, Status, card

CANDIDATES: Final = 5
"""Assets shown for one need."""
LESSON_FLOOR: Final = 0.30
"""Cosine similarity below which a lesson has nothing to do with the matter and is not shown.

In the labelled set it shows the right lesson to 16 of 16 wanted cards and to 11 of 16 raw tasks,
and some lesson to about one in five matters that none is about."""
SAME: Final = 0.01
"""Similarities that differ by less are taken as equal, and track record decides."""
_ARTICLES: Final = frozenset({"a", "an", "the"})
Z: Final = 1.96
"""Normal quantile of a two-sided 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a cosine similarity means for one embedding model; low ≤ delta ≤ high."""

    delta: float
    """Recruit from here on, where nothing but the similarity decides."""
    low: float
    """Below it, nothing fits: create."""
    high: float
    """From here on, it fits if it is worded alike. Everything else from `low` on a model looks at, if it can judge."""
    twin: float = 0.90
    """From here on, two cards say the same."""

    def __post_init__(self) -> None:
        """Refuse what is out of order.

        Raises:
            ValueError: Unless low ≤ delta ≤ high.
        """
        if not self.low <= self.delta <= self.high:
            raise ValueError(f"{self} is out of order")


CALIBRATED: Final[Mapping[str, Calibration]] = {
    "minilm": Calibration(delta=0.50, low=0.35, high=0.80),
}
"""By the part of an embedder's name before `@`. Found with the set in `labelled/`; a memory may hold its own."""

UNCALIBRATED: Final = Calibration(delta=0.50, low=0.20, high=0.90)
"""For a model that nobody has calibrated. The best δ of other models lie between .2 and .9, so
everything in between is for a model to look at."""


def calibration_of(embedding: str) -> Calibration:
    """Return the thresholds for an embedder's name; `UNCALIBRATED` for one that is not known."""
    return CALIBRATED.get(embedding.partition("@")[0], UNCALIBRATED)


@dataclass(frozen=True, kw_only=True)
class Need:
    """An asset that a plan asks for."""

    kind: Kind
    name: str
    description: str
    """One sentence: what it should be able to do."""

    @property
    def card(self) -> str:
        """What is embedded: the same form as that of a record."""
        return card(self.name, self.description)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An asset that may meet a need."""

    id: str
    kind: Kind
    name: str
    version: int
    card: str
    score: float
    """Cosine similarity of need and card, in [-1, 1]."""
    status: Status
    uses: int
    """Runs with a verdict in which it was used."""
    wins: int
    """Those of them whose critique did not fault it."""


class Usage(NamedTuple):
    """How often an asset or a lesson was used in runs with a verdict, and how often it did well."""

    uses: int
    wins: int

    @property
    def merit(self) -> float:
        """Wilson lower bound of the wins."""
        return wilson_lower_bound(self.wins, self.uses)


def wilson_lower_bound(wins: int, uses: int, z: float = Z) -> float:
    """Return the lower end of the Wilson score interval of `wins / uses`, in [0, 1].

    It grows with the share and with the evidence: 1 of 1 gives .21, 10 of 10 gives .72. Without
    evidence it is 0.

    Source: E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference",
    Journal of the American Statistical Association 22 (1927), 209-212.

    Raises:
        ValueError: Unless 0 ≤ wins ≤ uses.
    """
    if not 0 <= wins <= uses:
        raise ValueError(f"{wins} wins of {uses} uses")
    if uses == 0:
        return 0.0
    share, square = wins / uses, z * z
    centre = share + square / (2 * uses)
    spread = z * math.sqrt((share * (1 - share) + square / (4 * uses)) / uses)
    return max(0.0, (centre - spread) / (1 + square / uses))


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return candidates best first.

    By similarity in steps of `SAME`; then active before candidate; then by Wilson lower bound; then
    the one that lost less often; then by exact similarity, newest version, id.
    """

    def key(candidate: Candidate) -> tuple[float, bool, float, int, float, int, str]:
        merit = wilson_lower_bound(candidate.wins, candidate.uses)
        return (
            -step(candidate.score),
            candidate.status != "active",
            -merit,
            candidate.uses - candidate.wins,
            -candidate.score,
            -candidate.version,
            candidate.id,
        )

    return sorted(candidates, key=key)


def each_once(ranked: Iterable[Candidate]) -> list[Candidate]:
    """Return the first of each name: while a new version awaits its verdict, the active one stands for both."""
    first: dict[str, Candidate] = {}
    for candidate in ranked:
        first.setdefault(candidate.name, candidate)
    return list(first.values())


def same_words(one: str, other: str) -> bool:
    """Whether two cards are worded alike: the same words in the same order, but for case, marks and articles."""
    return _words(one) == _words(other)


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W_]+", text.casefold()) if word not in _ARTICLES]


def step(score: float) -> int:
    """Return `score` in whole steps of `SAME`."""
    return round(score / SAME)


def rank_lessons(
    found: Iterable[tuple[str, float]], usage: Mapping[str, Usage]
) -> list[tuple[str, float]]:
    """Return lessons, as (id, similarity), best first.

    By similarity in steps of `SAME`; then by Wilson lower bound; then the one that lost less often;
    then by exact similarity and id.
    """

    def key(lesson: tuple[str, float]) -> tuple[int, float, int, float, str]:
        name, score = lesson
        counted = usage.get(name, Usage(0, 0))
        return (-step(score), -counted.merit, counted.uses - counted.wins, -score, name)

    return sorted(found, key=key)
