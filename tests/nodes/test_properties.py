"""What may be said of results without knowing them."""

from collections.abc import Mapping
from typing import Any

import pytest

from mem2evolve.nodes.creation.cases import try_case
from mem2evolve.nodes.creation.properties import CHOICES
from mem2evolve.sandbox import Outcome

KEEPS = {
    "not_negative": (abs, {"x": -3}),
    "share": (lambda x: x / 10, {"x": 3}),
    "sorted": (sorted, {"items": [3, 1, 2]}),
    "same_length": (lambda text: text[::-1], {"text": "abc"}),
    "same_members": (sorted, {"items": [3, 1, 1]}),
    "members_only": (lambda items: items[:1], {"items": [3, 1]}),
    "applied_twice_is_once": (lambda text: text.strip(), {"text": " a "}),
    "applied_twice_is_back": (lambda text: text[::-1], {"text": "abc"}),
    "order_of_arguments_is_free": (lambda a, b: a + b, {"a": 1, "b": 2}),
    "order_of_list_is_free": (sum, {"items": [1, 2, 3]}),
}
BREAKS = {
    "not_negative": (lambda x: x, {"x": -3}),
    "share": (lambda x: x, {"x": 3}),
    "sorted": (lambda items: items, {"items": [3, 1, 2]}),
    "same_length": (lambda text: text + "!", {"text": "abc"}),
    "same_members": (lambda items: list(set(items)), {"items": [3, 1, 1]}),
    "members_only": (lambda items: [7], {"items": [3, 1]}),
    "applied_twice_is_once": (lambda text: text + "!", {"text": "a"}),
    "applied_twice_is_back": (lambda text: text.upper(), {"text": "abc"}),
    "order_of_arguments_is_free": (lambda a, b: a - b, {"a": 1, "b": 2}),
    "order_of_list_is_free": (lambda items: items[0], {"items": [1, 2, 3]}),
}


def case(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case that expects a property."""
    return {
        "args": args,
        "expected": None,
        "raises": "",
        "property": name,
        "tolerance": 0.0,
        "origin": "property",
    }


async def tried(function: Any, name: str, args: Mapping[str, Any]) -> str:
    """Return how a function fails the property."""

    async def call(given: Mapping[str, Any]) -> Outcome:
        values = list(given.values())
        return Outcome(status="ok", value=function(*values))

    return await try_case(call, case(name, args))


@pytest.mark.parametrize("name", CHOICES)
async def test_each_is_told_apart(name: str) -> None:
    """One function keeps it, another breaks it and is told what must hold."""
    assert await tried(KEEPS[name][0], name, KEEPS[name][1]) == ""
    said = await tried(BREAKS[name][0], name, BREAKS[name][1])
    assert "it must hold that" in said


async def test_a_refusal_keeps_no_property() -> None:
    """An input that is refused has no result of which anything could hold."""

    async def call(_: Mapping[str, Any]) -> Outcome:
        return Outcome(status="raised", error_type="ValueError", error="no")

    assert "raised ValueError" in await try_case(call, case("sorted", {"items": []}))
