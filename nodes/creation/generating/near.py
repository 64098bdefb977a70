"""Inputs that lie near given ones: the same shapes and formats, with other values.

An input that fits nobody's idea of the function tells nothing about it. So what a value may become is read
from the values seen in the same place: dates stay dates, rows of one length stay so, numbers stay in range.
Importing this module imports hypothesis.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from .near_text import DATE, LONGEST, ODD, TIME, Draw, form, mostly, text

Path = tuple[str | int, ...]
Place = tuple[str, ...]
"""A path in which every index is `*`: values in one place are of one kind."""

MOST_EDITS: Final = 4
MOST_PLACES: Final = 4
LARGEST: Final = 10**12
"""Larger numbers are not counted from."""


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
        self.rich = [
            args for args, size in zip(self.inputs, sizes, strict=True) if 2 * size >= max(sizes)
        ]
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
            name: [
                len(args[name]) if isinstance(args.get(name), list) else -1 for args in self.inputs
            ]
            for name in self.inputs[0]
        }
        own = sizes.get(str(path[0]), [])
        found = [name for name, one in sizes.items() if one == own and -1 not in one]
        # That two were empty together, or held one item, is no sign.
        return found if len(found) > 1 and len(set(own)) > 1 and max(own) > 1 else []


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
        source = draw(st.sampled_from(texts))
        to = draw(st.sampled_from([n for n in texts if form(args[n]) == form(args[source])]))
        if draw(st.booleans()):
            args[to], args[source] = args[source], args[to]
        else:
            args[to] = text(draw, args[source], seen.at((source,)), seen.names)


def in_order(draw: Draw, args: dict[str, Any], seen: Seen) -> dict[str, Any]:
    """Put dates in the order in which they always came, mostly."""
    names = [
        name for name, value in args.items() if isinstance(value, str) and DATE.fullmatch(value)
    ]
    known = [[str(other.get(name, "")) for name in names] for other in seen.inputs]
    if all(dates == sorted(dates) for dates in known) and mostly(draw):
        args |= dict(zip(names, sorted(args[name] for name in names), strict=True))
    return args


def edit(draw: Draw, args: dict[str, Any], seen: Seen) -> None:
    """Change one value, somewhere."""
    found = list(walk(args))
    if not found:
        return
    # Each parameter gets its turn, and each level of it, however much there is inside another one.
    name = draw(st.sampled_from(list(args)))
    inside = [one for one in found if one[0][0] == name]
    where = draw(st.sampled_from(sorted({place(path) for path, _ in inside})))
    path, value = draw(st.sampled_from([one for one in inside if place(one[0]) == where]))
    holder: Any = args
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = changed(draw, value, path, seen)
    if rising(holder, path[:-1], seen) and mostly(draw):
        holder.sort()


def changed(  # noqa: PLR0911 - JSON, a table
    draw: Draw, value: Any, path: Path, seen: Seen
) -> Any:
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
    if max(abs(low), abs(high), abs(value)) > LARGEST:
        picked: float = draw(st.sampled_from([*known, value]))
        return picked
    decimals = [str(one).partition(".")[2] for one in known if isinstance(one, float)]
    places = min(max(map(len, decimals), default=0), MOST_PLACES)
    scale = 10**places
    width = max(3, high - low)
    bottom = max(0, low - width / 2) if low >= 0 else low - width / 2
    ticks = st.integers(int(bottom * scale), int((high + width) * scale))
    steps = st.sampled_from([value + 1, value - 1 if value >= 1 or low < 0 else value + 2])
    far = int(10 * (max(abs(low), abs(high)) + 1))
    wide = st.integers(-far if draw(st.integers(0, ODD)) == 0 else 0, far)
    ways = [st.sampled_from(known), steps, ticks.map(lambda n: n / scale)]
    drawn = draw(st.one_of(*ways) if mostly(draw) else st.one_of(wide, st.integers(0, 9)))
    return round(float(drawn), places) if decimals else int(drawn)


def listing(draw: Draw, value: list[Any], path: Path, seen: Seen) -> list[Any]:
    """A list like those seen: items moved, lost, doubled, joined or new."""
    whole = [one for one in seen.at(path) if isinstance(one, list)]
    items = [item for one in whole for item in one] or value
    other = copy.deepcopy(draw(st.sampled_from(whole or [value])))
    if not items:
        return (
            list(draw(st.lists(st.sampled_from(seen.names), max_size=2))) if seen.names else other
        )
    item = copy.deepcopy(draw(st.sampled_from(items)))
    fresh = refreshed(draw, item, (*path, 0), seen)
    at = draw(st.integers(0, len(value)))
    ways: list[list[Any]] = [
        value[::-1],
        [*value[:at], *value[at + 1 :]],
        [*value[:at], item, *value[at:]],
        [*value[:at], fresh, *value[at:]],
        [*value, fresh, refreshed(draw, item, (*path, 0), seen)],
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
        return sorted(made) if rising(made, path, seen) and mostly(draw) else made
    if isinstance(value, dict):
        return {name: refreshed(draw, one, (*path, name), seen) for name, one in value.items()}
    return changed(draw, value, path, seen)


def rising(value: Any, path: Path, seen: Seen) -> bool:
    """Whether it is a row, as a pair from low to high, of which all were seen in order."""
    rows = [one for one in seen.at(path) if comparable(one)]
    in_order = bool(rows) and all(one == sorted(one) for one in rows)
    return len(path) > 1 and comparable(value) and in_order


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
