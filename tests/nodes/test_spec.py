"""From a wanted card to a signature."""

import json
import keyword
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mem2evolve.graph.state import Wanted
from mem2evolve.nodes.creation.spec import _type, make_spec, spec_of
from mem2evolve.sandbox import output_schema, signature_schema
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
    "int = 3": {"type": "integer"}, "datetime": {"type": "string"}, "dt.date": {"type": "string"},
    "Optional[int]": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "typing.Optional[date]": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "number or None": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    "Union[int, str]": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    "list[Optional[str]]": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "Literal['km', 'mi']": {"type": "string", "enum": ["km", "mi"]},
    "Literal[km, mi]": {"type": "string", "enum": ["km", "mi"]},
    "Literal[1, 2] | None": {"anyOf": [{"type": "integer", "enum": [1, 2]}, {"type": "null"}]},
    "Dict[int, date]": {"type": "object", "additionalProperties": {"type": "string"}},
    "list[int | Any]": {"type": "array"}, "tuple[float, ...]": {"type": "array", "items": {"type": "number"}},
    "tuple[int, str]": {"type": "array"}, "set[str]": {"type": "array", "items": {"type": "string"}},
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
    [("int", "int"), ("list of str", "list[str]"), ("", "object"), ("the area", "object"), ("float (m²)", "float"),
     ("int, str", "list"), ("int, int", "list[int]"), ("(float, float)", "list[float]"), ("None", "None"),
     ("int or None", "int | None"), ("Literal['a', 'b']", "Literal['a', 'b']"),
     ("list[Literal['x']]", "list[Literal['x']]"),
     ("Literal[1.5]", "object"), ("Literal['\\ud800']", "object"), ("Point", "object"), ("list[Point]", "list"),
     ("list[]", "list"), ("dict[()]", "dict"),
     ("a list of dates", "list[str]"), ("Optional[Union[int, None]]", "int | None"), ("Annotated[int, 'km']", "int")],
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


WORDS: Final = ["int", "str", "date", "datetime.date", "list", "dict", "tuple", "Optional", "Union", "Literal", "None",
                "Any", "[", "]", "(", ")", ", ", " | ", "'a'", "1", "...", " of ", " or ", "=", "0xf"]  # fmt: skip


@PROPERTY
@given(st.text(max_size=80) | st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
@example("list[" * 60 + "int" + "]" * 60)
@example(" | ".join(["int", "str"] * 500))
@example("Literal[0x" + "f" * 9999 + "]")
@example("Literal['a | b', 'é\\n']")
def test_any_text_is_a_type_or_none(text: str) -> None:
    """What a type is read as is Python, and has a schema that JSON can hold, as argument and as result."""
    kind = _type(text)
    if kind is None:
        return
    source = f"def f(x: {kind}) -> {kind}:\n    ...\n"
    compile(parse(source), "<type>", "exec", dont_inherit=True)
    [schema] = signature_schema(source, "f")["properties"].values()  # type: ignore[union-attr]
    assert schema == output_schema(source, "f")
    assert json.loads(json.dumps(schema).encode()) == schema
    assert schema or "object" in kind
    assert "object" in kind or _type(kind) == kind


@pytest.mark.parametrize(
    "signature", ["", "f(", "g(a: int)", "f(a: int) ->", "f(a: int): import os #", "f(\x00)"]
)
def test_a_signature_that_is_none(signature: str) -> None:
    """No Python, or another function's: there is no form."""
    made: Any = make_spec("f", "d", signature)
    assert made is None or made.schema["properties"]
