"""Test inputs made from the model's own and the schema: new, of the same form, and the same every time."""

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mem2evolve.nodes.creation.inputs import GENERATED, fits, fitting, generate, vary
from mem2evolve.nodes.creation.inputs import TestInput as Chosen
from mem2evolve.sandbox.signature import signature_schema

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


TYPES: Final = {
    "n": {"type": "integer"}, "x": {"type": "number"}, "when": {"type": "string"}, "flag": {"type": "boolean"},
    "way": {"type": "string", "enum": ["up", "down"]}, "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "pairs": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}},
    "rows": {"type": "array"},
}  # fmt: skip
WHOLE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": TYPES,
    "required": ["n", "x", "when", "way", "pairs", "rows"],
    "additionalProperties": False,
}
SEEDS: Final[list[Chosen]] = [
    {
        "kind": "typical",
        "args": {
            "n": 40, "x": 2.5, "when": "2024-02-29", "flag": True, "way": "up", "maybe": 3,
            "pairs": [[1, 3], [2, 5]], "rows": [{"g": "a", "v": 1}, {"g": "b"}],
        },
    },
    {
        "kind": "edge",
        "args": {"n": 60, "x": 0.25, "when": "1999-12-31", "way": "up", "pairs": [[0, 9]], "rows": []},
    },
    {"kind": "invalid", "args": {"n": -9, "x": 0.0, "when": "?", "way": "up", "pairs": [], "rows": []}},
]  # fmt: skip


def test_generated_inputs_fit_and_stay_near() -> None:
    """New, no two alike, allowed by the schema; dates stay dates, pairs pairs, choices are all tried."""
    made = generate(SEEDS, WHOLE, 60)
    keys = [key(item["args"]) for item in made]

    assert len(set(keys) - {key(item["args"]) for item in SEEDS}) == len(made) == 60
    for item in made:
        args = item["args"]
        assert item["kind"] == "generated"
        assert fits(args, WHOLE)
        dt.date.fromisoformat(args["when"])
        assert args["x"] == round(args["x"], 2)
        assert all(len(pair) == 2 for pair in args["pairs"])
        assert all({"g"} <= row.keys() <= {"g", "v"} for row in args["rows"])
    assert {item["args"]["way"] for item in made} == {"up", "down"}
    assert {item["args"].get("maybe", 0) is None for item in made} == {False, True}
    assert sum(20 <= item["args"]["n"] <= 80 for item in made) > len(made) / 2


def test_tables_and_coupled_lists_keep_their_form() -> None:
    """Rows of one length stay so, mostly; two lists that were always as long as each other stay so."""
    schema = signature("grid: list, left: list, right: list")
    seeds: list[Chosen] = [
        {"kind": "typical", "args": {"grid": ["#.", ".#"], "left": [1, 2], "right": [3, 4]}},
        {"kind": "typical", "args": {"grid": ["###"], "left": [1], "right": [3]}},
    ]
    made = [item["args"] for item in generate(seeds, schema, 40)]
    even = [len({len(row) for row in args["grid"]}) <= 1 for args in made]
    assert sum(even) > 0.8 * len(even)
    assert all(len(args["left"]) == len(args["right"]) for args in made)
    assert {letter for args in made for row in args["grid"] for letter in row} <= set("#.x")


def test_without_inputs_the_schema_is_enough() -> None:
    """Plain values of its types; optional parameters may be left out."""
    made = [item["args"] for item in generate([], WHOLE, 30)]
    assert made
    assert all(fits(args, WHOLE) for args in made)
    assert {"flag" in args for args in made} == {True, False}


@pytest.mark.parametrize(
    "args",
    [
        {}, {"a": 10**400}, {"a": 1e308}, {"a": -1e-300}, {"a": ""}, {"a": [[]]}, {"a": [None, [1, "x"], {}]},
        {"a": {"b": {"c": [True]}}}, {"a": "2024-13-45"}, {"a": "9999-12-31"}, {"a": "0001-01-01"}, {"a": "x" * 5000},
        {"a": None}, {"a": [0.1, 2, 3.0]}, {"a": "é\u0301 '\n"},
    ],
)  # fmt: skip
def test_odd_inputs_have_neighbours(args: dict[str, Any]) -> None:
    """Whatever JSON was given, generating does not fail, and makes strict JSON that fits."""
    schema = signature("a") if args else signature("")
    for item in generate([{"kind": "edge", "args": args}], schema, 12):
        json.dumps(item["args"], allow_nan=False).encode()
        assert fits(item["args"], schema)


@settings(PROPERTY, max_examples=15, suppress_health_check=list(HealthCheck))
@given(INPUTS)
def test_whatever_was_chosen_has_neighbours(inputs: list[Chosen]) -> None:
    """The same every time, and what was given is not changed."""
    names = list(inputs[0]["args"]) if inputs else []
    before = json.dumps(inputs)
    made = generate(inputs, signature(", ".join(names)), 8)
    assert made == generate(inputs, signature(", ".join(names)), 8)
    assert json.dumps(inputs) == before


@pytest.mark.parametrize(
    ("value", "schema", "allowed"),
    [
        (1, {"type": "integer"}, True),
        (True, {"type": "integer"}, False),
        (True, {"type": "number"}, False),
        (1, {"type": "number"}, True),
        (1.5, {"type": "integer"}, False),
        (True, {"enum": [1]}, False),
        (None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, True),
        ("x", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, False),
        ([1, "x"], {"type": "array", "items": {"type": "integer"}}, False),
        ([1], {"type": "array", "minItems": 2}, False),
        ([1, 2, 3], {"type": "array", "maxItems": 2}, False),
        ({"a": 1}, {"type": "object", "additionalProperties": {"type": "string"}}, False),
        ({"a": 1}, {"type": "object", "required": ["b"]}, False),
        ({"a": 1}, {}, True),
    ],
)
def test_what_a_schema_allows(value: Any, schema: dict[str, Any], allowed: bool) -> None:  # noqa: FBT001
    """As far as our own schemas go."""
    assert fits(value, schema) is allowed


SCRIPT: Final = """
import json, sys
from mem2evolve.nodes.creation.inputs import generate
assert "hypothesis" not in sys.modules
made = generate(*json.loads(sys.argv[1]), 20)
assert "hypothesis" in sys.modules
print(json.dumps(made))
"""


def test_another_program_gets_the_same_and_nothing_is_left(tmp_path: Path) -> None:
    """Whichever modules are loaded; no folder is made; hypothesis is imported only when it is needed."""
    (tmp_path / "own.py").write_text("LIMIT = 4711\nWORDS = ['swordfish', 47.11]\n")
    given_ = json.dumps([SEEDS, WHOLE])
    for first in ("", "import own, tomllib\n"):
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", first + SCRIPT, given_],
            cwd=tmp_path,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == generate(SEEDS, WHOLE, 20)
    assert [path.name for path in tmp_path.iterdir()] == ["own.py"]


def signature(parameters: str) -> dict[str, Any]:
    """The schema of a function with these parameters."""
    schema: dict[str, Any] = signature_schema(f"def f({parameters}):\n    ...\n", "f")
    return schema
