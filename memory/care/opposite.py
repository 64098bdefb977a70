"""Whether two pieces of advice are opposite, by their words alone: for models that are not trusted to judge it.

Two sentences are opposite when they speak of the same and differ by an odd number of reversals. A reversal
is a negation (never, avoid, not) or a pair of opposites (include and exclude, before and after). It is precise
rather than eager: what is put in other words is missed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MIN_SHARED: Final = 3
"""Words of content that both sentences must have."""
MIN_OVERLAP: Final = 0.75
"""Share of the words of content of both that are in both."""

_NEGATING: Final = "never not no dont doesnt cannot cant shouldnt mustnt avoid avoids avoiding skip skips without nor"
_NEGATIONS: Final = frozenset(_NEGATING.split())
_PAIRS: Final = (
    ("include", "exclude"), ("before", "after"), ("first", "last"), ("ascending", "descending"),
    ("inclusive", "exclusive"),
    ("up", "down"), ("increase", "decrease"), ("enable", "disable"), ("more", "less"), ("add", "remove"),
    ("keep", "drop"), ("allow", "forbid"), ("accept", "reject"), ("minimum", "maximum"), ("smallest", "largest"),
    ("lower", "upper"), ("lowercase", "uppercase"), ("left", "right"), ("early", "late"), ("integer", "float"),
    ("mean", "median"), ("local", "utc"), ("ignore", "respect"),
)  # fmt: skip
_FILLING: Final = (
    "a an the of to in on at by for with from as is are be it its this that these those and or if when then than do "
    "does always only just must should shall will can may please make sure ensure use using you your one each any "
    "every so too very also into onto out"
)
_FILLERS: Final = frozenset(_FILLING.split())
_INSTEAD: Final = re.compile(r"\b(?:instead of|rather than)\b.*", re.IGNORECASE)
"""What is advised against within a sentence that advises something else."""
_SENTENCE: Final = re.compile(r"[.;!?\n]+(?:\s+|$)")
_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class _Said:
    """A sentence, taken apart."""

    content: frozenset[str]
    """Words of content, opposites left out."""
    sides: frozenset[tuple[int, int]]
    """Pairs of opposites that it names one side of: number of the pair, side."""
    negated: bool


def opposite(one: str, other: str) -> bool:
    """Say whether some sentence of one advises the opposite of some sentence of the other."""
    others = list(_sentences(other))
    return any(_reversed(a, b) for a in _sentences(one) for b in others)


def _sentences(text: str) -> Iterator[_Said]:
    for sentence in _SENTENCE.split(text):
        words = [_stem(word) for word in _words(_INSTEAD.sub("", sentence))]
        named = [(n, word) for n, pair in enumerate(_STEMS) for word in pair if word in words]
        twice = {n for n, _ in named if sum(m == n for m, _ in named) > 1}
        sides = {(n, _STEMS[n].index(word)) for n, word in named if n not in twice}
        drop = _NEGATIONS | _FILLERS | {word for n, word in named if n not in twice}
        yield _Said(
            content=frozenset(word for word in words if word not in drop),
            sides=frozenset(sides),
            negated=sum(word in _NEGATIONS for word in words) % 2 == 1,
        )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("'", "").replace("’", ""))  # noqa: RUF001 - both are typed


def _stem(word: str) -> str:
    """Return a word without the ending that its form gives it; crude, and the same for both sides."""
    if word in _NEGATIONS:
        return word
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:  # noqa: PLR2004 - "is", "bed"
            word = word[: -len(ending)]
            break
    return word.removesuffix("e") if len(word) > 3 else word  # noqa: PLR2004 - include, including


_STEMS: Final = tuple((_stem(one), _stem(other)) for one, other in _PAIRS)


def _reversed(one: _Said, other: _Said) -> bool:
    both, either = one.content & other.content, one.content | other.content
    if len(both) < MIN_SHARED or len(both) < MIN_OVERLAP * len(either):
        return False
    turned = sum((n, 1 - side) in other.sides for n, side in one.sides)
    named = {n for n, _ in one.sides} ^ {n for n, _ in other.sides}
    if named:  # only one of them says which side: no more is known
        return False
    return (turned + (one.negated != other.negated)) % 2 == 1
