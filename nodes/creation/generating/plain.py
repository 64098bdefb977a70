"""Inputs from a JSON schema alone: small and ordinary values of the types it names.

Importing this module imports hypothesis.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

WORDS: Final = ("", "a", "b", "ab", "abc", "A", "two words", "x1", "10", "2024-02-29")
NUMBERS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 2.25, 10.0, 99.5, -1.0, -0.5)
MOST_ITEMS: Final = 4
ODDS: Final = 5
"""One of so many inputs takes a free choice from its schema."""


def plain(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - a table
    """Return a strategy for values that the schema allows."""
    if "enum" in schema:
        return st.sampled_from(list(schema["enum"]))
    if "anyOf" in schema:
        return st.one_of([plain(choice) for choice in schema["anyOf"]])
    match schema.get("type"):
        case "integer":
            return st.one_of(st.integers(0, 12), st.integers(-3, 100))
        case "number":
            return st.one_of(st.sampled_from(NUMBERS), st.integers(0, 12))
        case "string":
            return st.sampled_from(WORDS)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            least, most = schema.get("minItems", 0), schema.get("maxItems", MOST_ITEMS)
            return st.lists(plain(schema.get("items", {})), min_size=least, max_size=most)
        case "object":
            return _object(schema)
        case _:
            return st.one_of(st.integers(0, 12), st.sampled_from(WORDS))


def _object(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = set(schema.get("required", ()))
    rest = schema.get("additionalProperties")
    if not properties and isinstance(rest, Mapping):
        return st.dictionaries(st.sampled_from(("a", "b", "c")), plain(rest), max_size=3)
    return st.fixed_dictionaries(
        {name: plain(one) for name, one in properties.items() if name in required},
        optional={name: plain(one) for name, one in properties.items() if name not in required},
    )


def with_choices(
    strategy: st.SearchStrategy[dict[str, Any]],
    inputs: Sequence[Mapping[str, Any]],
    schema: Mapping[str, Any],
) -> st.SearchStrategy[dict[str, Any]]:
    """Let parameters whose schema is a free choice, or that no input gives, take what the schema allows."""
    properties = schema.get("properties", {})
    given = {name for args in inputs for name in args}
    free = [name for name, one in properties.items() if name not in given or _is_choice(one)]
    if not free:
        return strategy

    @st.composite
    def chosen(draw: Draw) -> dict[str, Any]:
        args = dict(draw(strategy))
        for name in free:
            if draw(st.integers(1, ODDS)) == 1:
                args[name] = draw(plain(properties[name]))
        return args

    return chosen()


def _is_choice(schema: Mapping[str, Any]) -> bool:
    return "enum" in schema or "anyOf" in schema or schema.get("type") in {"boolean", "null"}
