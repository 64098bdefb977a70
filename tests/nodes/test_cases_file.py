"""Reading a `cases.json` that a person has edited, and writing cases for pytest."""

import ast
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.errors import InputError
from mem2evolve.memory.records import Case, ToolRecord
from mem2evolve.nodes.life.cases_file import read_cases
from mem2evolve.nodes.life.export import pytest_file

SCHEMA: dict[str, Any] = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
GOOD = '{"args": {"n": 1}, "expected": 3}'


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ("", ("cases.json, line 1: it must be a list",)),
        ("{}", ("line 1: it must be a list",)),
        ("[]", ("there is no case",)),
        ("[\n" + GOOD + "\n" + GOOD + "]", ("line 3: a comma or the closing ] is missing",)),
        ("[" + GOOD + "] x", ("after the list there is more: 'x'",)),
        ("[" + GOOD + ",\n{'args': 1}]", ("line 2, column 2: no JSON",)),
        ("[\n" + GOOD + ",\n1]", ("line 3, case 2: it is a number, not an object",)),
        ('[{"expected": 3}]', ("case 1: field 'args' is missing",)),
        ('[{"args": [], "expected": 3}]', ("field 'args' is a list",)),
        ('[{"args": {"m": 1}, "expected": 3}]', ("'n' is missing, 'm' is unknown", "takes n")),
        ('[{"args": {"n": 1}}]', ("neither what is expected nor what is raised",)),
        ('[{"args": {"n": 1}, "expected": NaN}]', ("case 1: NaN is no JSON number",)),
        ('[{"args": {"n": 1}, "expected": 1e999}]', ("1e999 is beyond every float",)),
        ('[{"args": {"n": 1, "n": 2}, "expected": 3}]', ("'n' is there twice",)),
        ('[{"args": {"n": 1}, "expect": 3}]', ("unknown field 'expect'", "known are args")),
        ('[{"args": {"n": 1}, "raises": 3}]', ("field 'raises' is 3, not a name",)),
        ('[{"args": {"n": 1}, "expected": 0, "raises": "E"}]', ("only one of them can hold",)),
        ('[{"args": {"n": 1}, "expected": 3, "tolerance": -1}]', ("'tolerance' is -1",)),
        ('[{"args": {"n": 1}, "expected": 3, "tolerance": true}]', ("'tolerance' is True",)),
        ("[" + "[" * 100_000, ("nested too deeply",)),
        ('[{"args": {"n": 1}, "expected": ' + "9" * 5000 + "}]", ("case 1", "4300")),
        ("[" + ",".join([GOOD] * 201) + "]", ("201 cases; at most 200",)),
        ("\x00", ("line 1: it must be a list",)),
    ],
)
def test_cases_that_are_none(cases: str, said: tuple[str, ...]) -> None:
    """File, line, case and field are named, and how a case is written."""
    with pytest.raises(InputError) as caught:
        read_cases(cases, "cases.json", (), SCHEMA)
    for words in said:
        assert words in str(caught.value)
    assert '"raises": "ValueError"' in caught.value.hint


def test_what_was_kept_keeps_its_origin() -> None:
    """Another value, or another kind of number, is a person's case; another origin in the file is none."""
    kept = Case(args={"n": 1}, expected=3, origin="agreement")
    other: list[Any] = [{"args": {"n": 1}, "expected": value} for value in (3, 3.0, 4)]
    other += [{"args": {"n": 1}, "expected": 3, "origin": "task"}]
    other += [{"args": {"n": 1}, "raises": "E"}]
    read = read_cases("\ufeff" + json.dumps(other), "cases.json", [kept], SCHEMA)

    assert [case.origin for case in read] == [
        *("agreement", "person", "person", "agreement", "person"),
    ]


@given(st.text(alphabet='[]{}",: \n1aN\\t') | st.text())
def test_whatever_a_file_says_it_is_read_or_refused(text: str) -> None:
    """Nothing but a refusal comes out of it."""
    with contextlib.suppress(InputError):
        read_cases(text, "cases.json", (), SCHEMA)


values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(['"""', "{x}", "\\", "'''", "\ud800", "\u202e", "\n#"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(args=st.dictionaries(st.text(), values, max_size=3), expected=values)
def test_exported_cases_are_what_was_recorded(args: Any, expected: Any) -> None:
    """Whatever text is in them: the file parses, and its data is the record's, also the kinds of numbers."""
    case = Case(args=args, expected=expected, origin="agreement")
    tool = ToolRecord(name="t", description="T", input_schema={}, function="t", cases=(case,))
    text = pytest_file(tool, "test_t.py")
    text.encode()
    [found] = [
        ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CASES"
    ]

    assert [json.dumps(one, sort_keys=True) for one in found] == [
        json.dumps(case.model_dump(mode="json"), sort_keys=True)
    ]


def test_a_tool_without_cases_has_none_to_export() -> None:
    """It is named."""
    with pytest.raises(InputError, match="t v1 has no cases"):
        pytest_file(ToolRecord(name="t", description="T", input_schema={}), "test_t.py")
