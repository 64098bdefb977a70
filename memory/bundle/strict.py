"""JSON from a stranger: one object, of bounded depth, whose numbers are numbers."""

import json
import math
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 100
"""Levels of nesting: above any record, below what the validator and the interpreter can bear."""
MAX_PARTS: Final = 1_000_000
"""Commas: a bound on the values in one text, each of which costs far more than its character."""


class Unfit(ValueError):
    """It cannot be used; says why in a few words."""


def read_object(text: bytes) -> dict[str, Any]:
    """Return the object that a JSON text holds.

    `Infinity` is let through, since a tool may have to return it; see `has_infinity`. NaN is not: a record
    that holds one is not even equal to itself.

    Raises:
        Unfit: If it is no such text.
    """
    if text.count(b",") > MAX_PARTS:
        raise Unfit(f"it has more than {MAX_PARTS:,} parts")
    decoder = json.JSONDecoder(
        parse_constant=_constant, parse_float=_float, object_pairs_hook=_once
    )
    try:
        value = decoder.decode(text.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise Unfit(f"it is no UTF-8 at byte {exc.start + 1}") from exc
    except RecursionError:
        raise Unfit(f"it is nested more than {MAX_DEPTH} levels deep") from None
    except json.JSONDecodeError as exc:
        raise Unfit(f"it is no JSON at character {exc.pos + 1}: {exc.msg}") from exc
    except Unfit:
        raise
    except ValueError as exc:  # a number of more digits than the interpreter reads
        raise Unfit(str(exc).partition(";")[0]) from exc
    if not isinstance(value, dict):
        raise Unfit("it is no JSON object")
    _check_depth(value)
    return value


def has_infinity(value: Any) -> bool:
    """Whether an infinite number is in a value, at any depth."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, float) and not math.isfinite(one):
            return True
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
    return False


def _check_depth(value: Any) -> None:
    left = [value]
    for _ in range(MAX_DEPTH):
        left = [
            inner
            for one in left
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not left:
            return
    raise Unfit(f"it is nested more than {MAX_DEPTH} levels deep")


def _constant(name: str) -> float:
    if name == "NaN":
        raise Unfit("it has a NaN, which is no number")
    return float(name)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Unfit(f"{text[:40]} is beyond every number")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        _twice([name for name, _ in pairs])
    return found


def _twice(names: list[str]) -> NoReturn:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Unfit(f"the key {name[:60]!r} is there twice in one object")
        seen.add(name)
    raise AssertionError
