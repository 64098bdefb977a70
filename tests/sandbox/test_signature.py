"""Schemas read from source, without running it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.sandbox import docstring_summary, output_schema, screen, signature_schema
from mem2evolve.sandbox._plan import plan_of

SOURCE = '''
import os
raise SystemExit

def f(a: int, b: "list[str]", c: float | None = None, *, d: bool = True) -> dict[str, float]:
    """Do a thing,
    over two lines.

    More about it.

    Args:
        a: The first.
        b (list): The second: with a colon,
            and another line.
        d: Whether.

    Returns:
        c: not an argument.
    """
'''


def test_the_whole_schema() -> None:
    """Types, descriptions, defaults, and nothing besides."""
    assert signature_schema(SOURCE, "f") == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first."},
            "b": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The second: with a colon, and another line.",
            },
            "c": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
            "d": {"type": "boolean", "default": True, "description": "Whether."},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert output_schema(SOURCE, "f") == {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "description": "c: not an argument.",
    }
    assert docstring_summary(SOURCE, "f") == "Do a thing, over two lines."


DAY: dict[str, Any] = {"type": "string", "format": "date"}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("str", {"type": "string"}),
        ("None", {"type": "null"}),
        ("Any", {}),
        ("list", {"type": "array"}),
        ("list[Any]", {"type": "array"}),
        ("typing.List[int]", {"type": "array", "items": {"type": "integer"}}),
        ("Sequence[int]", {"type": "array", "items": {"type": "integer"}}),
        ("dict", {"type": "object"}),
        ("Optional[int]", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("Union[int, str]", {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (
            "int | str | None",
            {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        ),
        ("int | Any", {}),
        ("int | int", {"type": "integer"}),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("Literal[1, 'b', None]", {"enum": [1, "b", None]}),
        ("Literal[x]", {}),
        ("tuple[int, ...]", {"type": "array", "items": {"type": "integer"}}),
        (
            "tuple[int, int]",
            {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        ),
        (
            "tuple[int, str]",
            {
                "type": "array",
                "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        ("Annotated[int, 'x']", {"type": "integer"}),
        ("date", DAY),
        ("datetime.datetime", {"type": "string", "format": "date-time"}),
        ("time | None", {"anyOf": [{"type": "string", "format": "time"}, {"type": "null"}]}),
        ("list[date]", {"type": "array", "items": DAY}),
        (
            "dict[str, tuple[date, ...]]",
            {"type": "object", "additionalProperties": {"type": "array", "items": DAY}},
        ),
        ("tuple[()]", {"type": "array", "items": {}, "minItems": 0, "maxItems": 0}),
        ("list[()]", {}),
        ("date | Any", {}),
        ("'list[\"date\"]'", {"type": "array", "items": DAY}),
        ("'broken ['", {}),
        ("f(1)", {}),
        ("Foo[int]", {}),
    ],
)
def test_annotations(annotation: str, schema: dict[str, Any]) -> None:
    """What JSON schema can say is said; the rest allows anything."""
    source = f"def f(x: {annotation}) -> {annotation}: pass"
    assert signature_schema(source, "f")["properties"] == {"x": schema}
    assert output_schema(source, "f") == schema


def test_names_mean_what_they_were_imported_as() -> None:
    """An alias is followed, a name of the module wins, and a module is no type."""
    source = """
import datetime as dt
import time
from datetime import date as Day
from typing import NewType, TypeAlias, Annotated as A
Pair = tuple[int, int]
Rows: TypeAlias = "list[Pair]"
UserId = NewType("UserId", int)
class date: ...
def f(a: dt.date, b: Day, c: date, d: time, e: A[int, 3], g: Rows, h: UserId) -> None: ...
"""
    pair = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    assert signature_schema(source, "f")["properties"] == {
        "a": DAY,
        "b": DAY,
        "c": {},
        "d": {},
        "e": {"type": "integer"},
        "g": {"type": "array", "items": pair},
        "h": {"type": "integer"},
    }


@pytest.mark.parametrize(
    ("section", "described"),
    [
        ("Returns:\n    float: The sum.", "The sum."),
        ("Returns:\n    dict: The sum.", "The sum."),
        ("Returns:\n    dict[str, float]: By name,\n    in km: exact.", "By name, in km: exact."),
        ("Returns:\n    The sum: exact.\n\nRaises:\n    ValueError: no.", "The sum: exact."),
        ("Return:\n    The sum.", "The sum."),
        ("Raises:\n    ValueError: no.", None),
    ],
)
def test_what_it_returns_is_described(section: str, described: str | None) -> None:
    """By the `Returns:` section, without the type that the annotation gives already."""
    source = f'def f() -> dict[str, float]:\n    """Do.\n\n{section}\n"""\n'
    assert output_schema(source, "f").get("description") == described


def test_types_that_contain_themselves_are_an_error() -> None:
    """In what it takes and in what it returns; it ends, and says which."""
    node = "from typing import TypedDict\nclass Node(TypedDict):\n    inner: list['Node']\n"
    with pytest.raises(ValueError, match="'Node' contains itself"):
        signature_schema(f"{node}def f(x: Node) -> int: ...", "f")
    with pytest.raises(ValueError, match="'Node' contains itself"):
        output_schema(f"{node}def f(x: int) -> Node | None: ...", "f")


def test_required_and_total() -> None:
    """Each class of a TypedDict's line has its own `total`."""
    source = """
from typing import NotRequired, Required, TypedDict
class Base(TypedDict):
    a: int
    b: NotRequired[int]
class Loose(Base, total=False):
    c: int
    d: Required[int]
def f(x: Loose) -> None: ...
"""
    properties: Any = signature_schema(source, "f")["properties"]
    assert list(properties["x"]["properties"]) == ["a", "b", "c", "d"]
    assert properties["x"]["required"] == ["a", "d"]


WORDS = [
    "A",
    "B",
    "int",
    "date",
    "list[",
    "dict[",
    "tuple[",
    "Literal[",
    "]",
    ", ",
    " | ",
    "'",
    "None",
    "...",
    "()",
]


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map("".join), min_size=4, max_size=4))
def test_any_types_have_a_schema_or_a_reason(types: list[str]) -> None:
    """Also classes and aliases that name one another: it ends, and what it says is JSON."""
    first, second, third, fourth = types
    source = (
        f"from dataclasses import dataclass\n@dataclass\nclass A:\n    x: {first}\n    y: {second} = 1\n"
        f"B = {third}\ndef f(x: {fourth}) -> B:\n    'D.'\n"
    )
    try:
        taken, returned = signature_schema(source, "f"), output_schema(source, "f")
    except ValueError:
        assert screen(source, function="f")
        return
    assert json.loads(json.dumps([taken, returned])) == [taken, returned]
    plan = plan_of(source, "f")
    assert plan == "" or json.loads(plan)["args"].keys() <= {"x"}


def test_a_missing_function_is_an_error() -> None:
    """So is a source that is not Python."""
    with pytest.raises(ValueError, match="no public function 'g'"):
        signature_schema(SOURCE, "g")
    with pytest.raises(ValueError, match="is not Python"):
        docstring_summary("def f(:", "f")


@given(st.text(max_size=80))
def test_any_docstring_is_read(text: str) -> None:
    """Whatever stands in it, the schema has the one argument."""
    try:
        source = f"def f(x: int) -> int:\n    {text!r}\n"
        schema = signature_schema(source, "f")
    except ValueError:
        assert not text.isprintable()
        return
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert set(properties) == {"x"}
