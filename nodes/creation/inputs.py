"""Test inputs: those the model chose, and more made from them, which cost no tokens."""

import itertools
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from typing_extensions import TypedDict

GENERATED: Final = 6
"""Inputs made from the model's."""
_TRIES: Final = 60


class TestInput(TypedDict):
    """One input."""

    kind: Literal["typical", "edge", "invalid", "generated"]
    args: dict[str, Any]


def vary(inputs: Sequence[TestInput], limit: int = GENERATED) -> list[TestInput]:
    """Return new inputs made by crossing the parameters of the valid ones and changing one value a little.

    The same inputs give the same variations.
    """
    valid = [item["args"] for item in inputs if item["kind"] != "invalid"]
    if not valid:
        return []
    seen = {_key(item["args"]) for item in inputs}
    made: list[TestInput] = []
    draw = random.Random(json.dumps(valid, sort_keys=True))  # noqa: S311 - test inputs
    for _ in range(_TRIES):
        args = {
            name: draw.choice([item[name] for item in valid if name in item]) for name in valid[0]
        }
        if len(valid) == 1 or draw.random() < 0.5:  # noqa: PLR2004 - a coin
            name = draw.choice(list(args)) if args else ""
            args = {**args, name: _change(args[name], draw)} if name else args
        if _key(args) in seen:
            continue
        seen.add(_key(args))
        made.append({"kind": "generated", "args": args})
        if len(made) == limit:
            break
    return made


def fitting(args: Iterable[Mapping[str, Any]], schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return those arguments that have the names the schema asks for, each once."""
    known, required = set(schema["properties"]), set(schema.get("required", ()))
    fit = [dict(item) for item in args if required <= item.keys() <= known]
    return [next(group) for _, group in itertools.groupby(sorted(fit, key=_key), key=_key)]


def _change(value: Any, draw: random.Random) -> Any:  # noqa: PLR0911 - JSON, a table
    match value:
        case bool():
            return not value
        case int():
            return draw.choice([0, 1, value + 1, value - 1, value * 2])
        case float():
            return draw.choice([0.0, round(value / 2, 4), round(value + 1, 4), round(-value, 4)])
        case str() if value[:4].isdigit() and value[4:5] == "-":
            return value  # a date: crossing varies it without leaving the calendar
        case str():
            return draw.choice([value[::-1], value * 2, value[: len(value) // 2], value.upper()])
        case list() if value:
            return draw.choice([value[::-1], value[:-1], [*value, value[0]]])
        case _:
            return value


def _key(args: Mapping[str, Any]) -> str:
    return json.dumps(args, sort_keys=True, default=str)
