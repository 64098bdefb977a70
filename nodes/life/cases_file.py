"""Reading a `cases.json` that a person has edited: every refusal names file, case, line and field."""

import json
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from ...errors import InputError
from ...memory.records import Case

MAX_CASES: Final = 200
FIELDS: Final = ("args", "expected", "raises", "property", "tolerance", "origin")
_HINT: Final = 'A case is {"args": {…}, "expected": value}, or has "raises": "ValueError" instead of "expected".'
_SPACE: Final = " \t\n\r"


class _Item(NamedTuple):
    """One element of the list, and where it begins."""

    value: Any
    where: str


def read_cases(
    text: str, file: str, kept: Sequence[Case], schema: dict[str, Any]
) -> tuple[Case, ...]:
    """Return the cases that a file holds. Those that a record has too keep their origin; others are a person's.

    Args:
        text: What the file says.
        file: Its name, for messages.
        kept: The cases of the record.
        schema: JSON schema of the tool's arguments: their names are checked.

    Raises:
        InputError: If it is no list of cases.
    """
    origins = {_key(case.model_dump(mode="json")): case.origin for case in kept}
    cases = []
    for item in _items(text, file):
        checked = _checked(item, schema)
        origin = origins.get(_key(checked), "person")
        cases.append(Case(**{**checked, "origin": origin}))
    if not cases:
        _refuse(file, "there is no case")
    if len(cases) > MAX_CASES:
        _refuse(file, f"there are {len(cases)} cases; at most {MAX_CASES} are run")
    return tuple(cases)


def _items(text: str, file: str) -> Iterator[_Item]:
    """Yield the elements of the one list, each with its line.

    Raises:
        InputError: If it is no strict JSON.
    """
    decoder = json.JSONDecoder(
        parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_once
    )
    text = text.removeprefix("\ufeff")
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        _refuse(f"{file}, line {_line(text, at)}", "it must be a list of cases: [ … ]")
    at, number = _skip(text, at + 1), 0
    more = text[at : at + 1] != "]"
    while more:
        number += 1
        where = f"{file}, line {_line(text, at)}, case {number}"
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as exc:
            _refuse(f"{file}, line {exc.lineno}, column {exc.colno}", f"no JSON: {exc.msg}")
        except (ValueError, RecursionError) as exc:
            _refuse(where, str(exc) if isinstance(exc, ValueError) else "it is nested too deeply")
        yield _Item(value, where)
        at = _skip(text, at)
        more = text[at : at + 1] == ","
        at = _skip(text, at + 1) if more else at
    if text[at : at + 1] != "]":
        _refuse(f"{file}, line {_line(text, at)}", "a comma or the closing ] is missing")
    if rest := text[at + 1 :].strip(_SPACE):
        _refuse(f"{file}, line {_line(text, at)}", f"after the list there is more: {rest[:40]!r}")


def _checked(item: _Item, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a case, complete."""
    value, where = item
    if not isinstance(value, dict):
        _refuse(where, f"it is {_kind(value)}, not an object")
    if unknown := [name for name in value if name not in FIELDS]:
        _refuse(where, f"unknown field {unknown[0]!r}; known are {', '.join(FIELDS)}")
    case = {"expected": None, "raises": "", "property": "", "tolerance": 0.0, **value}
    if not isinstance(case.get("args"), dict):
        _refuse(where, f"field 'args' is {_kind(case.get('args'))}, not an object of arguments")
    _check_args(where, case["args"], schema)
    for name in ("raises", "property"):
        if not isinstance(case[name], str) or (case[name] and not case[name].isidentifier()):
            _refuse(where, f"field {name!r} is {case[name]!r:.60}, not a name")
    tolerance = case["tolerance"]
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or tolerance < 0:
        _refuse(where, f"field 'tolerance' is {tolerance!r:.60}, not a number from 0")
    outcomes = [name for name in ("raises", "property") if case[name]]
    outcomes += ["expected"] if case["expected"] is not None else []
    if len(outcomes) > 1:
        _refuse(where, f"it has {' and '.join(map(repr, outcomes))}; only one of them can hold")
    if not outcomes and "expected" not in value:
        _refuse(where, "it says neither what is expected nor what is raised")
    try:
        tolerance = float(tolerance)
    except OverflowError:
        _refuse(where, "field 'tolerance' is beyond every float")
    return {**case, "tolerance": tolerance}


def _check_args(where: str, args: Collection[str], schema: dict[str, Any]) -> None:
    takes = schema["properties"]
    missing = [name for name in schema["required"] if name not in args]
    unknown = [name for name in args if name not in takes]
    if missing or unknown:
        faults = [f"{name!r} is missing" for name in missing]
        faults += [f"{name!r} is unknown" for name in unknown]
        told = ", ".join(takes) or "no arguments"
        _refuse(where, f"field 'args': {', '.join(faults)[:200]}; the tool takes {told}")


def _key(case: dict[str, Any]) -> str:
    """Return what makes two cases the same: all but where they come from; 2 is not 2.0."""
    return json.dumps({name: case[name] for name in FIELDS if name != "origin"}, sort_keys=True)


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        type(None): "missing",
    }
    return names.get(type(value), "a number")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is beyond every float")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice in one object")
    return found


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _refuse(where: str, why: str) -> NoReturn:
    raise InputError(f"{where}: {why}.", hint=_HINT)
