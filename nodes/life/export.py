"""The cases of a tool as a file of pytest, which needs nothing of ours to run."""

from typing import Any, Final

from ...errors import InputError
from ...memory.records import ToolRecord
from ..creation.agree import ABSOLUTE, RELATIVE

FIRST_LINE: Final = '"""Cases of a generated tool, exported by mem2evolve.'
"""By which an earlier export is known: it may be written over."""
VARIABLE: Final = "MEM2EVOLVE_TOOL"

_TEXT: Final = '''\
{first_line}

The tool is read from `tool.py` beside this file, or from the file that {variable} names:

    python -m pytest {file}
    {variable}=path/to/tool.py python -m pytest {file}
"""

import importlib.util
import json
import math
import os
from pathlib import Path

import pytest

NAME = {name}
FUNCTION = {function}
VERSION = {version}
DEPENDENCIES = {dependencies}
CASES = [
{cases}]


@pytest.fixture(scope="module")
def tool():
    path = Path(os.environ.get("{variable}") or Path(__file__).with_name("tool.py"))
    if not path.is_file():
        pytest.fail(f"There is no {{path}}: put tool.py beside this file, or let {variable} name it.")
    spec = importlib.util.spec_from_file_location("tool_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, FUNCTION)


@pytest.mark.parametrize("case", CASES, ids=range(1, len(CASES) + 1))
def test_case(tool, case):
    if case["property"]:
        pytest.skip(f"mem2evolve checks the property {{case['property']}}; here it is not known")
    args = json.loads(json.dumps(case["args"]))
    if case["raises"]:
        with pytest.raises(Exception) as caught:
            tool(**args)
        assert type(caught.value).__name__ == case["raises"]
        return
    result = json.loads(json.dumps(tool(**args)))
    assert same(result, case["expected"], case["tolerance"]), (result, case["expected"])


def same(one, other, tolerance):
    """Whether JSON values are equal, floats up to a relative 1e-9 or the tolerance."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int) and isinstance(other, int):
        return abs(one - other) <= tolerance
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        try:
            return math.isclose(one, other, rel_tol={relative!r}, abs_tol=max(tolerance, {absolute!r}))
        except OverflowError:
            return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b, tolerance) for a, b in zip(one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k], tolerance) for k in one)
    return type(one) is type(other) and one == other
'''


def pytest_file(record: ToolRecord, file: str) -> str:
    """Return the cases of a tool as a Python file: data that nothing in it can break out of.

    Args:
        record: The tool.
        file: Name under which it will be kept.

    Raises:
        InputError: If the tool has no cases.
    """
    if not record.cases:
        raise InputError(
            f"{record.name} v{record.version} has no cases.",
            hint="Only tools that were made here have; see `mem2evolve tools list`.",
        )
    return _TEXT.format(
        first_line=FIRST_LINE,
        variable=VARIABLE,
        file=file,
        name=repr(record.name),
        function=repr(record.function),
        version=record.version,
        dependencies=repr(list(record.dependencies)),
        cases="".join(_shown(case.model_dump(mode="json")) for case in record.cases),
        relative=RELATIVE,
        absolute=ABSOLUTE,
    )


def _shown(case: dict[str, Any]) -> str:
    """Return a case as a literal of Python, a line for each field: its text is escaped by `repr`."""
    fields = ("args", "expected", "raises", "property", "tolerance", "origin")
    lines = "".join(f"        {name!r}: {case[name]!r},\n" for name in fields)
    return f"    {{\n{lines}    }},\n"
