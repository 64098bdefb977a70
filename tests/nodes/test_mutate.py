"""Mutants: small faults put into a tool, over the implementations of `tests/data`."""

import ast
import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mem2evolve.nodes.creation.agree import normal_form
from mem2evolve.nodes.creation.mutate import LIMIT, mutants, stubs

ENOUGH: Final = 5
SPECS: Final = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "tool_specs.jsonl").read_text().splitlines()
]
SOURCES: Final = [
    (spec["card"].partition(":")[0], source)
    for spec in SPECS
    for source in [spec["reference"], *spec["wrong"]]
]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(SOURCES))
def test_mutants_of_real_tools(tool: tuple[str, str]) -> None:
    """Enough of them; each compiles and is other code; none twice; the same every time; spread out."""
    name, source = tool
    made = mutants(source, name)

    assert ENOUGH <= len(made) <= LIMIT
    forms = [normal_form(mutant.source) for mutant in made]
    assert len({*forms, normal_form(source)}) == len(made) + 1
    lines = source.splitlines()
    for mutant in made:
        compile(mutant.source, "<mutant>", "exec")
        assert any(
            isinstance(node, ast.FunctionDef) and node.name == name
            for node in ast.parse(mutant.source).body
        )
        assert 1 <= mutant.line <= len(lines)
        assert mutant.words == f"line {mutant.line}: {mutant.change}"
    assert mutants(source, name) == made
    assert len({mutant.line for mutant in made}) >= 3


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(SOURCES), st.integers(0, 12))
def test_no_more_than_asked_for(tool: tuple[str, str], limit: int) -> None:
    """A limit is a limit."""
    assert len(mutants(tool[1], tool[0], limit=limit)) <= limit


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("def f(a):\n    return a < 3\n", ["a <= 3", "a >= 3", "a < 4", "a < 2", "a < 0"]),
        ("def f(a):\n    return a and f(a)\n", ["a or f(a)"]),
        ("def f(a):\n    return [a, 'x']\n", ["['x', a]", "[a, '']"]),
        ("def f(a):\n    return a[1:]\n", ["a[1 + 1:]", "a[1:-1]"]),
        ("def f(a):\n    return max(a, 2)\n", ["min(a, 2)", "return a"]),
        (
            "def f(a):\n    if not a:\n        raise ValueError('x')\n    return 1\n",
            ["    pass", "if a:"],
        ),
        ("def f(a):\n    return sorted(a, reverse=True)\n", ["sorted(a)", "reverse=False"]),
        ("def f(a):\n    return -a if a else 2.5\n", ["return a if a", "if not a", "3.5"]),
    ],
)
def test_kinds_of_faults(source: str, changed: list[str]) -> None:
    """Comparisons, bounds, constants, logic, slices, calls, conditions, and what is dropped."""
    made = [mutant.source for mutant in mutants(source, "f", limit=50)]
    for text in changed:
        assert any(text in one for one in made), (text, made)


def test_words_and_annotations_are_no_behaviour() -> None:
    """What nobody can test is not changed."""
    source = (
        '"""Doc."""\ndef f(a: "int" = None) -> "str":\n    """Doc 1."""\n'
        "    if a:\n        raise ValueError('message', 3)\n    return a\n"
    )
    for mutant in mutants(source, "f", limit=50):
        assert "'message'" in mutant.source or "pass" in mutant.source or "return" in mutant.source
        assert "ValueError(" not in mutant.source or "ValueError('message', 3)" in mutant.source
        assert mutant.source.count("Doc") == 2 or "argument" in mutant.change


def case(expected: Any, raises: str = "") -> dict[str, Any]:
    """A case, as far as a stub needs it."""
    return {"args": {}, "expected": expected, "raises": raises, "tolerance": 0.0}


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ([], []),
        ([case(1)], ["a stub that always returns 1"]),
        ([case([1.5, None, True])], ["a stub that always returns [1.5, null, true]"]),
        (
            [case(1), case(2), case(2.0)],
            ["a stub that always returns 1", "a stub that always returns 2"],
        ),
        ([case(None, "ValueError")], ["a stub that always raises ValueError"]),
        (
            [case(None, "ValueError"), case("é"), case(None, "ValueError")],
            ['a stub that always returns "é"', "a stub that always raises ValueError"],
        ),
    ],
)
def test_stubs(cases: list[dict[str, Any]], said: list[str]) -> None:
    """What the first case expects, and what most do."""
    made = stubs("f", cases)
    assert [stub.words for stub in made] == said
    for stub in made:
        space: dict[str, Any] = {}
        exec(stub.source, space)  # noqa: S102 - our own
        if "raises" in stub.change:
            with pytest.raises(ValueError, match=r"^$"):
                space["f"](a=1)
        else:
            assert any(space["f"](a=1) == one["expected"] for one in cases)
