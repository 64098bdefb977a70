"""Test inputs made from the model's own: new, of the same form, and the same every time."""

import json
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from mem2evolve.nodes.creation.inputs import GENERATED, fitting, vary
from mem2evolve.nodes.creation.inputs import TestInput as Chosen

PROPERTY: Final = settings(deadline=None, max_examples=60)
VALUES: Any = (
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.lists(st.integers(), max_size=4)
    | st.none()
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)
KINDS: Any = st.sampled_from(["typical", "edge", "invalid"])


def inputs_of(names: list[str]) -> Any:
    """Inputs for these parameters."""
    args = st.fixed_dictionaries(dict.fromkeys(names, VALUES))
    one = st.builds(lambda kind, given: {"kind": kind, "args": given}, KINDS, args)
    return st.lists(one, max_size=5)


INPUTS: Any = st.sampled_from([[], ["a"], ["a", "b"], ["start", "end", "step"]]).flatmap(inputs_of)


def key(args: Any) -> str:
    """One text for each input."""
    return json.dumps(args, sort_keys=True)


@PROPERTY
@given(INPUTS)
def test_the_same_inputs_give_the_same_variations(inputs: list[Chosen]) -> None:
    """So a resumed run tests what the first one tested, and nothing it was given is changed."""
    before = json.dumps(inputs)
    assert vary(inputs) == vary(inputs)
    assert json.dumps(inputs) == before


@PROPERTY
@given(INPUTS)
def test_variations_are_new_and_of_the_same_form(inputs: list[Chosen]) -> None:
    """None repeats another or an input, all parameters are there, and the number is bounded."""
    made = vary(inputs)
    keys = [key(item["args"]) for item in [*inputs, *made]]
    assert len(made) <= GENERATED
    assert len(set(keys[len(inputs) :]) - set(keys[: len(inputs)])) == len(made)
    for item in made:
        assert item["kind"] == "generated"
        assert item["args"].keys() == inputs[0]["args"].keys()


@PROPERTY
@given(INPUTS)
def test_kinds_of_values_stay(inputs: list[Chosen]) -> None:
    """An int stays an int: what makes no sense is the model's to choose, and is not varied."""
    valid = [item["args"] for item in inputs if item["kind"] != "invalid"]
    kinds = {name: {type(args[name]) for args in valid} for args in valid for name in args}
    for item in vary(inputs):
        assert all(type(value) in kinds[name] for name, value in item["args"].items())


def test_nothing_valid_gives_nothing() -> None:
    """There is nothing to vary."""
    assert vary([]) == []
    assert vary([{"kind": "invalid", "args": {"a": 1}}]) == []


def test_one_input_is_enough() -> None:
    """One value at a time is changed a little."""
    made = vary([{"kind": "typical", "args": {"n": 10, "word": "abcd", "when": "2024-02-29"}}])
    assert len(made) == GENERATED
    for item in made:
        changed = [item["args"]["n"] != 10, item["args"]["word"] != "abcd"]
        assert sum(changed) == 1
        assert item["args"]["when"] == "2024-02-29"


def test_dates_stay_in_the_calendar() -> None:
    """They are crossed with each other, never cut or turned round."""
    dates = ["2024-02-29", "1999-12-31"]
    inputs: list[Chosen] = [
        {"kind": "typical", "args": {"start": one, "end": other}}
        for one, other in [dates, dates[::-1]]
    ]
    assert {value for item in vary(inputs) for value in item["args"].values()} <= set(dates)


def test_an_optional_parameter_is_not_made_up() -> None:
    """Left out of one input, it takes its value from those that have it."""
    inputs: list[Chosen] = [
        {"kind": "typical", "args": {"a": 1, "b": "x"}},
        {"kind": "typical", "args": {"a": 2}},
    ]
    assert all(item["args"]["b"] is not None for item in vary(inputs, 20))


SCHEMA: Final = {"properties": {"a": {}, "b": {}}, "required": ["a"]}


@PROPERTY
@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), max_size=6))
def test_only_fitting_arguments_are_kept(args: list[dict[str, Any]]) -> None:
    """Required ones there, unknown ones not, each input once, and none lost."""
    kept = fitting(args, SCHEMA)
    wanted = {key(one) for one in args if {"a"} <= one.keys() <= {"a", "b"}}
    assert sorted(key(one) for one in kept) == sorted(wanted)
