"""What the screen says of code before it runs, and that it survives anything."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.sandbox import Problem, normalise, screen

GOOD = '''"""Doubling."""

import math
from collections import Counter as _Counter

FACTOR = 2


def double(x: int, *, times: int = 1) -> int:
    """Double x.

    Args:
        x: A number.
        times: How often.
    """
    return _twice(x) * times


def _twice(x):
    return x * FACTOR
'''
HEAD = 'def f(x: int) -> int:\n    """Do."""\n'


DATA = "from dataclasses import dataclass\n@dataclass\nclass Row:\n    a: int\n" + HEAD
NODE = "from typing import TypedDict\n\nclass Node(TypedDict):\n    inner: list['Node']\n"
TURNS = (
    "from dataclasses import dataclass\n@dataclass\nclass A:\n    b: 'B | None'\n"
    "@dataclass\nclass B:\n    a: 'A'\n"
)
NEEDS = 'def f(x: {}) -> {}:\n    """Do."""\n    return x\n'


def chain(length: int, fields: int) -> str:
    """Classes each of which holds the next one, in so many fields."""
    held = "".join(f"    {name}: 'C{{}}'\n" for name in "ab"[:fields])
    classes = "".join(
        f"class C{n}(TypedDict):\n{held.replace('{}', str(n + 1))}" for n in range(length)
    )
    return f"from typing import TypedDict\n{classes}class C{length}(TypedDict):\n    a: int\n"


DOUBLES = chain(15, 2)
"""Small as code; written out, each class doubles the next."""
CHAIN = chain(39, 1)


def test_a_tool_passes() -> None:
    """Helpers, constants, imports and one public function are what a tool is made of."""
    assert screen(GOOD) == []
    assert screen(GOOD, function="double") == []


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("def f(:\n", 1, "Syntax error"),
        (HEAD + "    return “x”\n", 3, "“ is a typographic quote"),
        ("```python\n" + HEAD + "    return x\n", 1, "without its fence"),
        (HEAD + "    return '\0'\n", 3, "NUL"),
        (HEAD + "    return '\ud800'\n", 3, "surrogate"),
        (HEAD + "    return x\n#" + "x" * 70_000, 1, "at most 65,536"),
        ("X = 1\n", 1, "no top-level function"),
        (HEAD + "    return x\ndef g(): pass\n", 4, "'g' is a second public function"),
        (HEAD + "    return x\n" + HEAD + "    return x\n", 4, "'f' is defined twice"),
        ("def f(x: int) -> int:\n    return x\n", 1, "no docstring"),
        ('def f(x) -> int:\n    """Do."""\n', 1, "'x' has no type annotation"),
        ('def f(x: int):\n    """Do."""\n', 1, "no annotation of what it returns"),
        ('def f(*a: int) -> int:\n    """Do."""\n', 1, "*a is not allowed"),
        ('def f(**a: int) -> int:\n    """Do."""\n', 1, "**a is not allowed"),
        ('def f(x: int, /) -> int:\n    """Do."""\n', 1, "positional-only"),
        ('async def f(x: int) -> int:\n    """Do."""\n', 1, "is async"),
        (HEAD + "    yield x\n", 1, "is a generator"),
        ("class Tool:\n    pass\n" + HEAD, 1, "The class 'Tool' is public"),
        (
            "class Tool:\n    pass\n",
            1,
            "'Tool' is a class; a tool is one function: write `def Tool(…)`",
        ),
        (
            DATA + "    return x\n" + HEAD.replace("f(", "Row("),
            8,
            "'Row' is a second public function",
        ),
        ("class A:\n    print(1)\n" + HEAD, 2, "Remove an expression in the class 'A'"),
        (HEAD.replace("f(", "f" * 65 + "("), 1, "has 65 characters; use at most 64"),
        (HEAD.replace("f(", "größe("), 1, "'größe' is not plain ASCII"),
        (HEAD + "    return x" + ".real" * 250 + "\n", 3, "nested more than 200 deep"),
        (HEAD + "    return input()\n", 3, "input is not allowed: nobody answers"),
        (NODE + NEEDS.format("Node", "int"), 3, "'Node' contains itself (Node → Node)"),
        (NODE + NEEDS.format("int", "list[Node]"), 3, "'Node' contains itself (Node → Node)"),
        (TURNS + NEEDS.format("dict[str, A]", "int"), 3, "'A' contains itself (A → B → A)"),
        (
            "Json = dict[str, 'Json'] | int\n" + NEEDS.format("Json", "int"),
            1,
            "'Json' contains itself",
        ),
        (DOUBLES + NEEDS.format("C0", "int"), 1, "98,305 parts written out; at most 1,000"),
        (CHAIN + NEEDS.format("C0", "int"), 1, "are 42 deep; at most 20"),
        ("print(1)\n" + HEAD, 1, "Remove an expression"),
        ("for i in []: pass\n" + HEAD, 1, "Remove a statement (for)"),
        (HEAD + "if __name__ == '__main__':\n    f(1)\n", 3, "it never runs"),
        ("import os\n" + HEAD, 1, "Importing 'os' is not allowed"),
        ("from urllib import request\n" + HEAD, 1, "Importing 'urllib' is not allowed"),
        ("import urllib.request\n" + HEAD, 1, "'urllib.request' is not allowed"),
        ("import pathlib\n" + HEAD, 1, "needs the permission 'files'"),
        ("import numpy as np\n" + HEAD, 1, "not among the declared dependencies"),
        ("from . import x\n" + HEAD, 1, "relative import"),
        ("from math import *\n" + HEAD, 1, "one by one"),
        (HEAD + "    import socket\n", 3, "'socket' is not allowed"),
        (HEAD + "    return eval('1')\n", 3, "eval is not allowed: use ast.literal_eval"),
        (HEAD + "    g = exec\n", 3, "exec is not allowed"),
        (HEAD + "    return open('x')\n", 3, "open needs the permission"),
        (HEAD + "    return ().__class__.__base__.__subclasses__()\n", 3, "__subclasses__"),
    ],
)
def test_each_problem_has_line_and_reason(source: str, line: int, says: str) -> None:
    """The line concerned is named, and what to do."""
    problems = screen(source)
    assert any(p.line == line and says in p.reason for p in problems), problems


def test_classes_that_say_what_data_look_like_may_be_public() -> None:
    """Dataclass, TypedDict and Enum; of the name that is wanted, a class is still no tool."""
    assert screen(DATA + "    return x\n") == []
    assert screen(CHAIN.replace("C39", "Last") + HEAD + "    return x\n") == []
    assert screen("from enum import Enum\nclass E(Enum):\n    A = 1\n" + HEAD) == []
    assert [p.reason for p in screen(DATA, function="Row")] == [
        "There is no top-level function named 'Row'; it has 'f'.",
        "'Row' is a class; a tool is one function: write `def Row(…)`.",
    ]


def test_a_wanted_name_is_asked_for() -> None:
    """With `function` given, another name is a problem that names both."""
    problems = screen(GOOD, function="triple")
    assert problems == [
        Problem(1, "There is no top-level function named 'triple'; it has 'double'.")
    ]


def test_permissions_and_dependencies_widen() -> None:
    """What was declared may be used."""
    source = "import pathlib\nimport numpy.linalg\nfrom os import path\n" + HEAD
    source += "    return open('x')\n"
    assert screen(source, permissions=["files"], dependencies=["numpy"]) == []
    assert len(screen(source)) == 4


def test_pure_parts_of_packages_pass() -> None:
    """Parsing an address is no network."""
    assert screen("import urllib.parse\nfrom urllib.parse import quote\n" + HEAD) == []
    assert screen("from urllib import parse\n" + HEAD) == []


def test_an_inner_generator_is_no_generator() -> None:
    """Only the public function's own yield counts, and shadowed names are not calls."""
    assert screen(HEAD + "    def g():\n        yield x\n    return sum(g())\n") == []
    assert screen(HEAD + "    compiled = x\n    return compiled\n") == []


@pytest.mark.filterwarnings("error")
def test_the_codes_own_warnings_are_not_ours() -> None:
    """An invalid escape warns in the compiler, not here."""
    assert screen(HEAD + "    return '\\d'\n") == []


def test_normalise() -> None:
    """No byte-order mark, line feeds only, one at the end."""
    assert normalise("\ufeffa\r\nb\rc\n\n") == "a\nb\nc\n"


@given(st.text() | st.text("def f(x):\n '\"#@=[]{}*\\\0\ud800“", max_size=60))
def test_any_text_is_screened(source: str) -> None:
    """It never raises, and every problem has a line and a sentence."""
    problems = screen(source)
    assert all(p.line >= 1 and p.reason.endswith(".") for p in problems)
    assert normalise(normalise(source)) == normalise(source)


@pytest.mark.parametrize("source", ["(" * 5000, "-" * 60_000, "x = " + "[" * 150 + "]" * 150])
def test_nesting_is_survived(source: str) -> None:
    """What the parser itself gives up on is a syntax problem."""
    assert screen(source)


@given(
    st.sampled_from(GOOD.splitlines()), st.sampled_from(["import os", "exec('1')", "while 1: 1"])
)
def test_a_bad_line_anywhere_is_found(after: str, bad: str) -> None:
    """Wherever a forbidden line is put at top level, the module is no longer clean."""
    lines = GOOD.splitlines()
    lines.insert(lines.index(after) + 1, bad)
    source = "\n".join(lines)
    try:
        ast.parse(source)
    except SyntaxError:
        assert "Syntax error" in screen(source)[0].reason
        return
    assert screen(source) or bad in (ast.get_docstring(ast.parse(source).body[-2]) or "")
