"""`nodes/creation/document.py`."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.nodes.creation.document import documented

PLAIN = "import math\n\n\ndef area(r: float) -> float:\n    # mind the sign\n    return math.pi * r**2\n"


@pytest.mark.parametrize("source", [PLAIN, "def area(r: float) -> float: return 3 * r\n"])
@given(
    text=st.text(st.sampled_from(list("Aré. \"'\\\n{")), min_size=1).filter(
        lambda text: text.strip(" .\n\\")
    )
)
def test_any_sentence_becomes_the_docstring(source: str, text: str) -> None:
    """The module stays Python, does the same, and the function has a docstring."""
    made = ast.parse(documented(source, "area", text))
    function = made.body[-1]
    assert isinstance(function, ast.FunctionDef)
    assert ast.get_docstring(function)
    assert ast.dump(function.body[-1]) == ast.dump(ast.parse(source).body[-1].body[-1])


def test_comments_and_a_docstring_stay() -> None:
    """Only what is missing is added."""
    once = documented(PLAIN, "area", "Area of a circle.")
    assert '    """Area of a circle."""\n    return' in once
    assert "# mind the sign" in once
    assert documented(once, "area", "Something else") == once
    assert documented(PLAIN, "other", "x") == PLAIN
