"""From a wanted card to a signature."""

import keyword
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mem2evolve.graph.state import Wanted
from mem2evolve.nodes.creation.spec import make_spec, spec_of
from mem2evolve.sandbox.screen import parse

PROPERTY: Final = settings(deadline=None, max_examples=100)
NAMES: Final = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)
TYPES: Final = {
    "int": {"type": "integer"}, "integer": {"type": "integer"}, "float": {"type": "number"},
    "number": {"type": "number"}, "str": {"type": "string"}, "string": {"type": "string"},
    "bool": {"type": "boolean"}, "date": {"type": "string"}, "dict": {"type": "object"},
    "list": {"type": "array"}, "list of str": {"type": "array", "items": {"type": "string"}},
    "list of ints": {"type": "array", "items": {"type": "integer"}},
    "list[float]": {"type": "array", "items": {"type": "number"}},
    "List[str]": {"type": "array", "items": {"type": "string"}},
    "array of numbers": {"type": "array", "items": {"type": "number"}},
    "float (km)": {"type": "number"}, "positive integer": {"type": "integer"},
    "tuple[int, int]": {"type": "array", "items": {"type": "integer"}},
    "Optional[int]": {"type": "integer"}, "int = 3": {"type": "integer"},
    "int | None": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
}  # fmt: skip
"""Ways in which plans write a type, and what it means."""


def want(given_input: str, output: str = "int") -> Wanted:
    """A need with this input."""
    return Wanted(
        kind="tool", name="f", description="d", input=given_input, output=output, subtasks=[]
    )


@PROPERTY
@given(
    st.lists(st.tuples(NAMES, st.sampled_from(sorted(TYPES))), min_size=1, max_size=4, unique_by=lambda p: p[0]),
    st.sampled_from([", ", ",", "; ", " , "]),
)  # fmt: skip
def test_parameters_are_read(parameters: list[tuple[str, str]], comma: str) -> None:
    """`a: int, b: list of str` becomes names in order, each with the schema of its type."""
    spec = spec_of(want(comma.join(f"{name}: {kind}" for name, kind in parameters)), "f")
    assert spec is not None
    assert spec.parameters == [name for name, _ in parameters]
    for name, kind in parameters:
        assert spec.schema["properties"][name] == TYPES[kind]
    assert spec.schema["required"] == spec.parameters


@pytest.mark.parametrize(
    ("written", "signature"),
    [
        ("a: int, b: list of str", "f(a: int, b: list[str]) -> int"),
        ("a, b, c: float", "f(a: float, b: float, c: float) -> int"),
        ("(start: date, end: date)", "f(start: str, end: str) -> int"),
        ("values (list of float), p (float)", None),
        ("A: int", "f(a: int) -> int"),
        ("rows: dict[str, list[int]]", "f(rows: dict[str, list[int]]) -> int"),
        ("a: int): import os", "f(a: int) -> int"),
        ("", None),
        ("a", None),
        ("two numbers", None),
        ("a: int, a: int", None),
        ("a: int, A: int", None),
        ("from: str, to: str", None),
        ("a: 5", None),
        ("a: 'YYYY-MM-DD'", None),
        ("a: lambda: 1", None),
        ("*a: int", None),
        ("a: int\nb: int", None),
    ],
)
def test_inputs_by_example(written: str, signature: str | None) -> None:
    """What cannot be read as parameters is left to be asked for."""
    spec = spec_of(want(written), "f")
    assert (spec and spec.signature) == signature


@pytest.mark.parametrize(
    ("written", "returns"),
    [("int", "int"), ("list of str", "list[str]"), ("", "object"), ("the area", "object"), ("float (m²)", "float")],
)  # fmt: skip
def test_the_output_becomes_an_annotation(written: str, returns: str) -> None:
    """An output in no known type may be anything."""
    spec = spec_of(want("a: int", written), "f")
    assert spec is not None
    assert spec.signature == f"f(a: int) -> {returns}"


PIECES: Final = ["a", "b", ":", ": ", ",", ";", "(", ")", "[", "]", "int", "list of ", "str", " ", "\n", "\x00",
                 "|", "None", "=", "-", "not ", "*", "'", "lambda ", ".", "5", "Optional[", "é"]  # fmt: skip


@PROPERTY
@given(
    st.text(max_size=400) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.text(max_size=40),
)
@example("a: " + "-" * 390 + "1", "int")
@example("a: " + "[" * 390, "int")
@example("a: \x00", "\x00")
@example("a: " + "not " * 95 + "int", "-" * 190 + "1")
def test_odd_inputs_give_a_sound_signature_or_none(written: str, output: str) -> None:
    """Never a crash, and never a signature that is no Python or takes a name twice."""
    spec = spec_of(want(written, output), "f")
    if spec is not None:
        compile(parse(f"def {spec.signature}:\n    ...\n"), "<spec>", "exec", dont_inherit=True)
        assert len(set(spec.parameters)) == len(spec.parameters) > 0


@pytest.mark.parametrize(
    "signature", ["", "f(", "g(a: int)", "f(a: int) ->", "f(a: int): import os #", "f(\x00)"]
)
def test_a_signature_that_is_none(signature: str) -> None:
    """No Python, or another function's: there is no form."""
    made: Any = make_spec("f", "d", signature)
    assert made is None or made.schema["properties"]
