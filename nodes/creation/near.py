"""Inputs that lie near given ones: the same shapes and formats, with other values.

An input that fits nobody's idea of the function tells nothing about it. So what a value may become is read
from the values seen in the same place: dates stay dates, rows of one length stay so, numbers stay in range.
Importing this module imports hypothesis.
"""

import copy
import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
Path = tuple[str | int, ...]
Place = tuple[str, ...]
"""A path in which every index is `*`: values in one place are of one kind."""

DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
MOST_EDITS: Final = 4
FAR_DAYS: Final = 400
FEW_LETTERS: Final = 8
"""Texts of no more different characters are spelled anew from these."""
ODD: Final = 5
"""Once in one more than so many times: what is rather unlike the given inputs."""
LONGEST: Final = 200
"""Longer texts and lists are only cut."""


class Seen:
    """What the given inputs show of each place."""

    def __init__(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        self.inputs = [copy.deepcopy(dict(args)) for args in inputs]
        self._values: dict[Place, list[Any]] = {}
        self._aligned: dict[Place, bool] = {}
        for args in self.inputs:
            for path, value in walk(args):
                self._values.setdefault(place(path), []).append(value)
                if isinstance(value, list):
                    self._note_rows((*place(path), "*"), value)
        sizes = [sum(1 for _ in walk(args)) for args in self.inputs]
        self.rich = [args for args, size in zip(self.inputs, sizes, strict=True) if 2 * size > max(sizes)]
        """Without those that hold little."""
        every = [one for values in self._values.values() for one in values]
        self.names = sorted({one for one in every if isinstance(one, str) and len(one) == 1})
        """Texts of one character, as they stand for units, places and the like."""

    def _note_rows(self, where: Place, rows: list[Any]) -> None:
        sizes = {len(row) if isinstance(row, list | str) else -1 for row in rows}
        if rows:
            self._aligned[where] = self._aligned.get(where, True) and len(sizes) == 1

    def at(self, path: Path) -> list[Any]:
        """Return the values seen in this place."""
        return self._values.get(place(path), [])

    def aligned(self, path: Path) -> bool:
        """Whether values here have one length within each list, as the rows of a table."""
        return self._aligned.get(place(path), False)

    def rectangular(self, path: Path) -> bool:
        """Whether a list holds rows whose common length differs from input to input, or is text."""
        rows = self._values.get((*place(path), "*"), [])
        if self.aligned(path) or not self.aligned((*path, "*")):
            return False
        if all(isinstance(row, str) for row in rows):
            words = all(len(row) == 1 and row.isalnum() for row in rows)
            return not words and not any(TIME.fullmatch(row) or DATE.fullmatch(row) for row in rows)
        return all(isinstance(row, list) for row in rows) and len({len(row) for row in rows}) > 1

    def coupled(self, path: Path) -> list[str]:
        """Return the parameters whose list was always as long as this one's, this one included."""
        if len(path) != 1 or len(self.inputs) < 2:  # noqa: PLR2004 - one input shows nothing
            return []
        sizes = {
            name: [len(args[name]) if isinstance(args.get(name), list) else -1 for args in self.inputs]
            for name in self.inputs[0]
        }
        own = sizes.get(str(path[0]), [])
        found = [name for name, one in sizes.items() if one == own and -1 not in one]
        return found if len(found) > 1 and len(set(own)) > 1 else []


def near(inputs: Sequence[Mapping[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for inputs near those given, of which there must be one."""
    seen = Seen(inputs)

    @st.composite
    def drawn(draw: Draw) -> dict[str, Any]:
        args = copy.deepcopy(draw(st.sampled_from(seen.rich if mostly(draw) else seen.inputs)))
        crossed = draw(st.booleans())
        if crossed:
            cross(draw, args, seen)
        for _ in range(draw(st.integers(0 if crossed else 1, MOST_EDITS))):
            edit(draw, args, seen)
        return in_order(draw, args, seen)

    return drawn()


def place(path: Path) -> Place:
    """Return where a path leads, whatever the index."""
    return tuple("*" if isinstance(step, int) else step for step in path)


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each value inside an object or list, with the way to it."""
    items: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for step, inner in items:
        yield (*path, step), inner
        yield from walk(inner, (*path, step))


def cross(draw: Draw, args: dict[str, Any], seen: Seen) -> None:
    """Take parameters from other inputs; texts also from other parameters."""
    for name in list(args):
        others = [other for other in seen.inputs if name in other]
        other = draw(st.sampled_from(others))
        group = seen.coupled((name,)) or [name]
        for one in group:
            if one in other and one in args:
                args[one] = copy.deepcopy(other[one])
    texts = [name for name, value in args.items() if isinstance(value, str)]
    if len(texts) > 1 and draw(st.booleans()):
        to, source = draw(st.sampled_from(texts)), draw(st.sampled_from(texts))
        if draw(st.booleans()):
            args[to], args[source] = args[source], args[to]
        else:
            args[to] = text(draw, args[source], seen.at((source,)), seen.names)


def in_order(draw: Draw, args: dict[str, Any], seen: Seen) -> dict[str, Any]:
    """Put dates in the order in which they always came, mostly."""
    names = [name for name, value in args.items() if isinstance(value, str) and DATE.fullmatch(value)]
    known = [[other.get(name) for name in names] for other in seen.inputs]
    if all(None not in dates and dates == sorted(dates) for dates in known) and mostly(draw):
        args |= dict(zip(names, sorted(args[name] for name in names), strict=True))
    return args


def mostly(draw: Draw) -> bool:
    """Three times in four."""
    return bool(draw(st.integers(0, 3)))


def edit(draw: Draw, args: dict[str, Any], seen: Seen) -> None:
    """Change one value, somewhere."""
    found = list(walk(args))
    if not found:
        return
    # Each parameter gets its turn, however much there is inside another one.
    name = draw(st.sampled_from(list(args)))
    path, value = draw(st.sampled_from([one for one in found if one[0][0] == name]))
    holder: Any = args
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = changed(draw, value, path, seen)


def changed(draw: Draw, value: Any, path: Path, seen: Seen) -> Any:
    """Return another value for this place."""
    match value:
        case bool():
            return not value
        case int() | float():
            return number(draw, value, seen.at(path))
        case str():
            return text(draw, value, seen.at(path), seen.names, keep=seen.aligned(path))
        case list() if seen.rectangular(path) and draw(st.booleans()):
            return table(draw, value, path, seen)
        case list() if seen.aligned(path) or seen.coupled(path):
            return refreshed(draw, value, path, seen)
        case list():
            return listing(draw, value, path, seen)
        case dict():
            return record(draw, value, path, seen)
        case _:
            return copy.deepcopy(draw(st.sampled_from(seen.at(path) or [value])))


def number(draw: Draw, value: float, peers: Sequence[Any]) -> float:
    """A number between and around those seen, whole where they are; not negative unless they are."""
    known = [one for one in peers if isinstance(one, int | float) and not isinstance(one, bool)]
    known = known or [value]
    low, high = min(known), max(known)
    places = max((len(str(one).partition(".")[2]) for one in known if isinstance(one, float)), default=0)
    scale = 10 ** min(places, 4)
    width = max(3, high - low)
    bottom = max(0, low - width / 2) if low >= 0 else low - width / 2
    ticks = st.integers(int(bottom * scale), int((high + width) * scale))
    steps = st.sampled_from([value + 1, value - 1 if value >= 1 or low < 0 else value + 2])
    far = int(10 * (max(abs(low), abs(high)) + 1))
    wide = st.integers(-far if draw(st.integers(0, ODD)) == 0 else 0, far)
    ways = [st.sampled_from(known), steps, ticks.map(lambda n: n / scale)]
    drawn = draw(st.one_of(*ways) if mostly(draw) else st.one_of(wide, st.integers(0, 9)))
    if places:
        return round(float(drawn), places)
    return int(drawn)


def text(
    draw: Draw, value: str, peers: Sequence[Any], names: Sequence[str], *, keep: bool = False
) -> str:
    """A text like those seen; with `keep` as long as this one."""
    known = [one for one in peers if isinstance(one, str)] or [value]
    if DATE.fullmatch(value):
        return date(draw, value, known)
    if TIME.fullmatch(value):
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
    return draw(st.sampled_from(changes))()[:LONGEST]


def date(draw: Draw, value: str, known: Sequence[str]) -> str:
    """A date of the calendar, near one seen, or one of them."""
    try:
        day = datetime.date.fromisoformat(value)
    except ValueError:
        return str(draw(st.sampled_from(known)))
    near_by = st.one_of(st.integers(-9, 9), st.integers(-FAR_DAYS, FAR_DAYS))
    ordinal = min(max(day.toordinal() + draw(near_by), 1), datetime.date.max.toordinal())
    moved = datetime.date.fromordinal(ordinal)
    month_end = datetime.date.fromordinal(max(moved.replace(day=1).toordinal() - 1, 1))
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


def listing(draw: Draw, value: list[Any], path: Path, seen: Seen) -> list[Any]:
    """A list like those seen: items moved, lost, doubled, joined or new."""
    whole = [one for one in seen.at(path) if isinstance(one, list)]
    items = [item for one in whole for item in one] or value
    other = copy.deepcopy(draw(st.sampled_from(whole or [value])))
    if not items:
        return draw(st.lists(st.sampled_from(seen.names), max_size=2)) if seen.names else other
    item = copy.deepcopy(draw(st.sampled_from(items)))
    fresh = refreshed(draw, item, (*path, 0), seen)
    at = draw(st.integers(0, len(value)))
    ways: list[list[Any]] = [
        value[::-1],
        [*value[:at], *value[at + 1 :]],
        [*value[:at], item, *value[at:]],
        [*value[:at], fresh, *value[at:]],
        [*value, *other],
        [*value[at:], *value[:at]],
        list(draw(st.permutations(value))),
        [refreshed(draw, one, (*path, 0), seen) for one in value],
    ]
    return list(draw(st.sampled_from(ways)))[:LONGEST]


def refreshed(draw: Draw, value: Any, path: Path, seen: Seen) -> Any:
    """Return a value of the same form in which every number and text is drawn again."""
    if isinstance(value, list):
        made = [refreshed(draw, one, (*path, 0), seen) for one in value]
        pairs = [one for one in seen.at(path) if comparable(one)]
        rising = comparable(value) and bool(pairs) and all(one == sorted(one) for one in pairs)
        return sorted(made) if rising and mostly(draw) else made
    if isinstance(value, dict):
        return {name: refreshed(draw, one, (*path, name), seen) for name, one in value.items()}
    return changed(draw, value, path, seen)


def comparable(value: Any) -> bool:
    """Whether it is a list of texts alone or of numbers alone."""
    kinds = {type(one) for one in value} if isinstance(value, list) else {None}
    return kinds <= {int, float} or kinds == {str}


def table(draw: Draw, value: list[Any], path: Path, seen: Seen) -> list[Any]:
    """Rows of one length, filled with cells seen."""
    tables = [one for one in [*seen.at(path), value] if isinstance(one, list)]
    cells = [cell for rows in tables for row in rows for cell in row]
    if not cells:
        return copy.deepcopy(draw(st.sampled_from(tables)))
    height = draw(st.integers(1, max(map(len, tables)) + 2))
    width = draw(st.integers(1, max(len(row) for rows in tables for row in rows) + 2))
    drawn = [[draw(st.sampled_from(cells)) for _ in range(width)] for _ in range(height)]
    if isinstance(cells[0], str) and all(isinstance(row, str) for rows in tables for row in rows):
        return ["".join(row) for row in drawn]
    return copy.deepcopy(drawn)


def record(draw: Draw, value: dict[str, Any], path: Path, seen: Seen) -> dict[str, Any]:
    """An object with another value, or without one that others lack as well."""
    peers = [one for one in seen.at(path) if isinstance(one, dict)] or [value]
    spare = [name for name in value if any(name not in one for one in peers)]
    if spare and draw(st.booleans()):
        gone = draw(st.sampled_from(spare))
        return {name: one for name, one in value.items() if name != gone}
    return copy.deepcopy(dict(draw(st.sampled_from(peers))))
