"""What may be said of a result without knowing it: invariants and round trips, by name.

A model that knows the need names those that must hold; the host checks them on results of the tool.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from .agree import equal

Args = Mapping[str, Any]


@dataclass(frozen=True)
class Property:
    """One kind of truth about a function."""

    says: str
    """In words for the model, and for a person."""
    holds: Callable[[Args, Any, Any], bool]
    """Of the arguments, the result, and the result of the second call."""
    again: Callable[[Args, Any], Args | None] | None = None
    """Arguments of a second call made from those and the result of the first; `None` if there are none."""


def _first(args: Args) -> Any:
    return next(iter(args.values()), None)


def _of_kind(args: Args, kind: type) -> Any:
    """The first argument of that kind, empty without one."""
    return next((value for value in args.values() if isinstance(value, kind)), kind())


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same_members(one: Any, other: Any) -> bool:
    if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
        return False
    left = list(other)
    for item in one:
        at = next((n for n, member in enumerate(left) if equal(item, member)), None)
        if at is None:
            return False
        del left[at]
    return True


def _rising(value: Any) -> bool:
    try:
        return isinstance(value, list) and all(a <= b for a, b in pairwise(value))
    except TypeError:
        return False


def _fed_back(args: Args, value: Any) -> Args:
    return {**args, next(iter(args)): value}


def _swapped(args: Args, _: Any) -> Args | None:
    names = list(args)
    if len(names) < 2:  # noqa: PLR2004 - to swap takes two
        return None
    return {**args, names[0]: args[names[1]], names[1]: args[names[0]]}


def _reversed(args: Args, _: Any) -> Args | None:
    name = next((name for name, value in args.items() if isinstance(value, list)), None)
    return {**args, name: args[name][::-1]} if name else None


RETURNS: Final = "returns"
PROPERTIES: Final[Mapping[str, Property]] = {
    RETURNS: Property("there is a result", lambda _, __, ___: True),
    "not_negative": Property("the result is a number ≥ 0", lambda _, r, __: _number(r) and r >= 0),
    "share": Property(
        "the result is a number from 0 to 1", lambda _, r, __: _number(r) and 0 <= r <= 1
    ),
    "sorted": Property("the result is a list in rising order", lambda _, r, __: _rising(r)),
    "same_length": Property(
        "the result is as long as the first list or text given",
        lambda a, r, _: isinstance(r, list | str) and len(r) == len(_of_kind(a, type(r))),
    ),
    "same_members": Property(
        "the result is a list of the same members as the first list given",
        lambda a, r, _: _same_members(r, _of_kind(a, list)),
    ),
    "members_only": Property(
        "every member of the result is one of the first list given",
        lambda a, r, _: (
            isinstance(r, list) and all(any(equal(x, y) for y in _of_kind(a, list)) for x in r)
        ),
    ),
    "applied_twice_is_once": Property(
        "given its own result as the first argument it returns that again",
        lambda _, r, s: equal(r, s),
        _fed_back,
    ),
    "applied_twice_is_back": Property(
        "given its own result as the first argument it returns the first argument",
        lambda a, _, s: equal(_first(a), s),
        _fed_back,
    ),
    "order_of_arguments_is_free": Property(
        "with the first two arguments swapped it returns the same",
        lambda _, r, s: equal(r, s),
        _swapped,
    ),
    "order_of_list_is_free": Property(
        "with the first list reversed it returns the same", lambda _, r, s: equal(r, s), _reversed
    ),
}
CHOICES: Final = tuple(name for name in PROPERTIES if name != RETURNS)
"""Those that a model may name: that there is a result says nothing about the need."""
