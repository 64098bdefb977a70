"""Cases that the task or its files state themselves: the most trusted expected values.

A model points at them; the host believes it only where the words are there. A quote has to stand in
the task or a file, and hold every value that the case expects.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, JsonValue

from ..desk import named_files
from .agree import EXPECTED_ERROR, equal
from .cases import FLOAT_TOLERANCE

TASK: Final = "task"
"""Under which the task's own words stand among the sources."""
FILES: Final = 3
"""Files that are looked at."""
FILE_CHARS: Final = 1_500
"""Of each, its beginning."""
NUMBER: Final = re.compile(r"-?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
WORDS: Final[Mapping[object, str]] = {
    True: r"\b(true|yes|valid|is|does|can)\b",
    False: r"\b(false|no|not|invalid|isn't|doesn't|cannot)\b",
    None: r"\b(none|null|nothing|missing|unknown)\b",
}
REFUSAL: Final = (
    r"\b(error|errors|raise|raises|refuse\w*|reject\w*|invalid|fail|fails|not allowed)\b"
)


class Stated(BaseModel):
    """One example with its result, as a model found it."""

    quote: str
    args: dict[str, JsonValue]
    expected: JsonValue = None
    refused: bool = False
    """Whether the quote says that this input has to be refused."""


async def read_sources(task: str, files: Sequence[str]) -> dict[str, str]:
    """Return the task, and the beginnings of its text files, by where they come from."""
    found = {TASK: task}
    for name, path in list(named_files(files).items())[:FILES]:
        text = await asyncio.to_thread(_beginning, path)
        if text:
            found[f"file {name}"] = text
    return found


def accepted(stated: Sequence[Stated], sources: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return as cases those whose words are there."""
    cases = []
    for item in stated:
        quote = _squeeze(item.quote)
        place = next(
            (name for name, text in sources.items() if quote and quote in _squeeze(text)), ""
        )
        if not place or not _bears_out(item):
            continue
        cases.append(
            {
                "args": item.args,
                "expected": None if item.refused else item.expected,
                "raises": EXPECTED_ERROR if item.refused else "",
                "property": "",
                "tolerance": max(
                    (_tolerance(leaf) for leaf in _leaves(item.expected)), default=0.0
                ),
                "origin": "task" if place == TASK else "file",
            }
        )
    return cases


def _bears_out(item: Stated) -> bool:
    """Whether a quote holds an argument and, elsewhere in it, the result."""
    if item.refused:
        return bool(re.search(REFUSAL, item.quote, re.IGNORECASE))
    given = [leaf for value in item.args.values() for leaf in _leaves(value)]
    rest, held = _squeeze(item.quote), not given
    for leaf in given:
        without = _struck(leaf, rest)
        held = held or without is not None
        rest = rest if without is None else without
    for leaf in _leaves(item.expected):
        without = _struck(leaf, rest)
        if without is None:
            return False
        rest = without
    return held


def _struck(value: JsonValue, text: str) -> str | None:
    """Return the text without one place where the value stands; `None` if it stands nowhere in it."""
    if value is None or isinstance(value, bool):
        return text if re.search(WORDS[value], text, re.IGNORECASE) else None
    if isinstance(value, int | float):
        places = [one.span() for one in NUMBER.finditer(text) if equal(_read(one[0]), value)]
    else:
        words = _squeeze(str(value))
        start = text.find(words)
        places = [(start, start + len(words))] if start >= 0 else []
    return f"{text[: places[0][0]]} {text[places[0][1] :]}" if places else None


def _read(word: str) -> float:
    return float(word.replace(",", "").rstrip(".") or "nan")


def _leaves(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def _tolerance(value: JsonValue) -> float:
    """A stated float is right to its last digit: 3.14 for π."""
    if not isinstance(value, float):
        return 0.0
    digits = len(repr(value).partition(".")[2].partition("e")[0])
    return max(FLOAT_TOLERANCE, 0.5 * 10.0**-digits) if digits < 10 else FLOAT_TOLERANCE  # noqa: PLR2004 - no rounding


def _beginning(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(FILE_CHARS)
    except (OSError, UnicodeDecodeError):
        return ""


def _squeeze(text: str) -> str:
    return " ".join(text.split()).casefold()
