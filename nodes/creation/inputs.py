"""Test inputs: those the model chose, and more made from them and from the schema, which cost no tokens."""

import itertools
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from typing_extensions import TypedDict

GENERATED: Final = 6
"""Inputs made from the model's."""
_TRIES: Final = 60
_DRAWN: Final = 3
"""Tries for each input to be generated; many are repeats."""
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "integer": (int,), "number": (int, float), "string": (str,), "boolean": (bool,), "array": (list,),
    "object": (dict,), "null": (type(None),),
}  # fmt: skip


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


def generate(inputs: Sequence[TestInput], schema: Mapping[str, Any], limit: int) -> list[TestInput]:
    """Return new inputs near the valid ones, or, where there are none, plain ones that the schema allows.

    The same inputs and schema give the same, and each fits the schema. It takes some tenths of a second of
    computing, and at its first use the reading of hypothesis: call it in a thread.
    """
    from .generating.drawing import examples  # noqa: PLC0415 - hypothesis takes long to import
    from .generating.near import near  # noqa: PLC0415
    from .generating.plain import plain, with_choices  # noqa: PLC0415

    valid = [item["args"] for item in inputs if item["kind"] != "invalid"]
    known = [args for args in valid if fits(args, schema)]
    strategy = with_choices(near(known), known, schema) if known else plain(schema)
    seen = {_key(item["args"]) for item in inputs}
    made: list[TestInput] = []
    for args in examples(strategy, _DRAWN * limit):
        if _key(args) not in seen and fits(args, schema):
            seen.add(_key(args))
            made.append({"kind": "generated", "args": args})
    return made[:limit]


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a JSON value is what a schema of ours allows (`sandbox.signature` writes them)."""
    if "anyOf" in schema:
        return any(fits(value, choice) for choice in schema["anyOf"])
    if "enum" in schema and not any(
        value == one and type(value) is type(one) for one in schema["enum"]
    ):
        return False
    kinds = _TYPES.get(schema.get("type", ""))
    if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
        return False
    if isinstance(value, list):
        items, least, most = (schema.get(key) for key in ("items", "minItems", "maxItems"))
        sized = (least or 0) <= len(value) and (most is None or len(value) <= most)
        return sized and all(fits(item, items or {}) for item in value)
    return not isinstance(value, dict) or _fits_object(value, schema)


def _fits_object(value: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    if not set(schema.get("required", ())) <= value.keys():
        return False
    if rest is False and not value.keys() <= properties.keys():
        return False
    others = rest if isinstance(rest, dict) else {}
    return all(fits(one, properties.get(name, others)) for name, one in value.items())


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
