"""Texts that lie near given ones: dates, times, words, and strings of a format.

Importing this module imports hypothesis.
"""

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
FAR_DAYS: Final = 400
FEW_LETTERS: Final = 8
"""Texts of no more different characters are spelled anew from these."""
ODD: Final = 5
"""Once in one more than so many times: what is rather unlike the given inputs."""
LONGEST: Final = 200
"""Longer texts and lists are only cut."""


def mostly(draw: Draw) -> bool:
    """Three times in four."""
    return bool(draw(st.integers(0, 3)))


def form(value: str) -> str:
    """Say whether it is a date, a time of day, or another text."""
    if DATE.fullmatch(value):
        return "date"
    return "time" if TIME.fullmatch(value) else "text"


def text(
    draw: Draw, value: str, peers: Sequence[Any], names: Sequence[str], *, keep: bool = False
) -> str:
    """A text like those seen; with `keep` as long as this one."""
    known = [one for one in peers if isinstance(one, str)] or [value]
    if form(value) == "date":
        return date(draw, value, known)
    if form(value) == "time":
        minutes = draw(st.integers(0, 95)) * 15
        drawn = f"{minutes // 60:02}:{minutes % 60:02}"
        return str(draw(st.sampled_from([drawn, *known])))
    letters = sorted(set("".join(known)))
    if value in names and mostly(draw):
        return str(draw(st.sampled_from(names)))
    if keep or (value in names and mostly(draw)):
        return respelled(draw, value, letters)
    free = len({c.isalpha() + 2 * c.isdigit() for c in letters}) == 1
    if free and len(letters) <= FEW_LETTERS and draw(st.booleans()):
        longest = min(LONGEST, 2 * max(map(len, known)) + 1)
        return "".join(draw(st.lists(st.sampled_from(letters), max_size=longest)))
    changes: list[Callable[[], str]] = [
        lambda: str(draw(st.sampled_from(known))),
        lambda: respelled(draw, value, letters),
        lambda: pieced(draw, value, known),
        lambda: renumbered(draw, value),
        lambda: retyped(draw, value),
    ]
    change: Callable[[], str] = draw(st.sampled_from(changes))
    return change()[:LONGEST]


def date(draw: Draw, value: str, known: Sequence[str]) -> str:
    """A date of the calendar, near one seen, or one of them."""
    try:
        day = dt.date.fromisoformat(value)
    except ValueError:
        return str(draw(st.sampled_from(known)))
    near_by = st.one_of(st.integers(-9, 9), st.integers(-FAR_DAYS, FAR_DAYS))
    ordinal = min(max(day.toordinal() + draw(near_by), 1), dt.date.max.toordinal())
    moved = dt.date.fromordinal(ordinal)
    month_end = dt.date.fromordinal(max(moved.replace(day=1).toordinal() - 1, 1))
    return str(draw(st.sampled_from([moved.isoformat(), month_end.isoformat(), *known])))


def respelled(draw: Draw, value: str, letters: Sequence[str]) -> str:
    """Put other characters of the same kind in one or in many places, or let two change places."""
    if not value:
        return value
    at = draw(st.integers(0, len(value) - 1))
    if draw(st.integers(0, ODD)) == 0 and at + 1 < len(value):
        return value[:at] + value[at + 1] + value[at] + value[at + 2 :]
    many = draw(st.booleans())
    spelled = [
        another_letter(draw, c, letters) if n == at or (many and draw(st.booleans())) else c
        for n, c in enumerate(value[:LONGEST])
    ]
    return "".join(spelled)


def another_letter(draw: Draw, old: str, letters: Sequence[str]) -> str:
    """Return another character, of the same kind where there is one; seldom one never seen."""
    alike = [c for c in letters if kind_of(c) == kind_of(old) and c != old]
    if old in "0123456789":
        alike = [c for c in "0123456789" if c != old]
    elif old.isascii() and old.isalpha() and len(alike) < 2:  # noqa: PLR2004 - little to choose from
        alike.append("a" if old in "zZ" else chr(ord(old) + 1))
    if draw(st.integers(0, 3 * ODD)) == 0:
        return "x"
    return str(draw(st.sampled_from(alike or [c for c in letters if c != old] or [old])))


def renumbered(draw: Draw, value: str) -> str:
    """Put other numbers in the place of those in it, or mark its words otherwise."""
    if not re.search("[0-9]", value):
        mark = draw(st.sampled_from([", ", "-", "  ", ". ", "\n"]))
        at = draw(st.integers(0, max(0, value.count(" ") - 1)))
        return mark.join(value.split(" ", at + 1)[at:]) if " " in value else value

    def another(found: re.Match[str]) -> str:
        old = found[0]
        if draw(st.booleans()):
            return old
        if draw(st.integers(0, ODD)) == 0:
            return f"0{old}"
        if old[0] == "0" and len(old) > 1:
            return f"{draw(st.integers(0, 10 ** len(old) - 1)):0{len(old)}}"
        return str(draw(st.integers(max(0, int(old) - 3), int(old) + 12)))

    return re.sub("[0-9]{1,15}", another, value)


def kind_of(char: str) -> str:
    """A digit, a small letter, a capital, or what else it is."""
    if char.isdigit():
        return "0"
    if char.isalpha():
        return "a" if char.islower() else "A"
    return char


def pieced(draw: Draw, value: str, known: Sequence[str]) -> str:
    """Take the text apart where it is divided, and put its pieces together otherwise."""
    marks = sorted({c for c in value if not c.isalnum()}, key=value.count)
    mark = marks[-1] if marks else ""
    other = draw(st.sampled_from(known))
    pieces = value.split(mark) if mark else list(value)
    if not pieces:
        return str(other)
    at = draw(st.integers(0, len(pieces) - 1))
    ways = [
        [*pieces[:at], *pieces[at + 1 :]],
        [*pieces[:at], pieces[at], *pieces[at:]],
        [*pieces[at:], *pieces[:at]],
        [*pieces, other],
        [*pieces[: at - 1], pieces[at], pieces[at - 1], *pieces[at + 1 :]] if at else pieces[::-1],
    ]
    return mark.join(draw(st.sampled_from(ways)))


def retyped(draw: Draw, value: str) -> str:
    """Write it in other cases, or with more room around it."""
    at = draw(st.integers(0, max(0, len(value) - 1)))
    swapped = value[:at] + value[at : at + 1].swapcase() + value[at + 1 :]
    return str(draw(st.sampled_from([value.upper(), value.lower(), swapped, swapped, value[:at]])))
