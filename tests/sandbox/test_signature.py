"""Schemas read from source, without running it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.sandbox import docstring_summary, output_schema, signature_schema

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
    }
    assert docstring_summary(SOURCE, "f") == "Do a thing, over two lines."


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
