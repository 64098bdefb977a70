"""When two short answers say the same: what a second answer is compared by."""

import re
from decimal import Decimal
from typing import Final

CHANGING: Final = frozenset(
    ["not", "no", "never", "minus", "hundred", "thousand", "million", "billion", "dozen"]
)
"""Words that make another value of the number beside them."""


def same_answer(one: str, other: str) -> bool:
    """Whether two short answers say the same: equal numbers where each holds just one, else equal words."""
    numbers = [
        re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
        for text in (one, other)
    ]
    if len(numbers[0]) == len(numbers[1]) == 1:
        rest = [set(re.findall(r"[^\W\d]+", text.lower())) for text in (one, other)]
        beside = (
            rest[0] ^ rest[1]
        )  # a unit or a phrase around the number may be missing in one of them
        nested = rest[0] <= rest[1] or rest[1] <= rest[0]
        equal = Decimal(numbers[0][0]) == Decimal(numbers[1][0])
        return equal and nested and not beside & CHANGING
    return squeeze(one).strip(" .'\"") == squeeze(other).strip(" .'\"") != ""


def squeeze(text: str) -> str:
    """Return text in lower case with single spaces."""
    return " ".join(text.lower().split())
