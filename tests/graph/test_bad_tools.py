"""What a model may write instead of a tool: each is refused with line and reason, and the next round makes the tool."""

from typing import Any, Final

import pytest

from mem2evolve.nodes.naming import tool_name

from .conftest import (
    FORMULA,
    LOOP,
    TOOL,
    Agent,
    call,
    decision_on,
    fenced,
    first_run,
    plan_of,
    subtask,
    wanted,
)

DOC: Final = '    """Sum the squares from 1 to n."""\n'
HEAD: Final = f"def {TOOL}(n: int) -> int:\n{DOC}"
NODE: Final = (
    "from dataclasses import dataclass\n\n@dataclass\nclass Node:\n"
    "    value: int\n    inner: list['Node']\n\n"
)

BAD: Final[dict[str, tuple[str, int, str]]] = {
    "no docstring": (
        f"def {TOOL}(n: int) -> int:\n    return n\n",
        1, f"{TOOL!r} has no docstring",
    ),
    "two public functions": (
        f"{FORMULA}def main(n: int) -> int:\n    return n\n",
        13, "'main' is a second public function; call it _main.",
    ),
    "a generator": (
        f"{HEAD}    yield n\n",
        1, f"{TOOL!r} is a generator; return a list.",
    ),
    "input()": (
        f"{HEAD}    return int(input())\n",
        3, "input is not allowed: nobody answers; take an argument.",
    ),
    "a class of the name": (
        f"class {TOOL}:\n{DOC}    def __call__(self, n: int) -> int:\n        return n\n",
        1, f"{TOOL!r} is a class; a tool is one function: write `def {TOOL}(…)`.",
    ),
    "a class of another name": (
        f"class SumOfSquares:\n{DOC}    def run(self, n: int) -> int:\n        return n\n",
        1, f"'SumOfSquares' is a class; a tool is one function: write `def {TOOL}(…)`.",
    ),
    "a call at import": (
        f"{FORMULA}print({TOOL}(10))\n",
        13, "Remove an expression at the top level",
    ),
    "a loop at import": (
        f"{FORMULA}for i in range(3):\n    {TOOL}(i)\n",
        13, "Remove a statement (for) at the top level",
    ),
    "a main block": (
        f'{FORMULA}if __name__ == "__main__":\n    {TOOL}(1)\n',
        13, 'Remove `if __name__ == "__main__":`',
    ),
    "a call in a class": (
        f"class _A:\n    print(1)\n\n{FORMULA}",
        2, "Remove an expression in the class '_A'",
    ),
    "a syntax error": (
        f"{HEAD}    return n +\n",
        3, "Syntax error: invalid syntax.",
    ),
    "smart quotes": (
        f"{HEAD}    raise ValueError(“no”)\n",
        3, "Syntax error: “ is a typographic quote; use ' or \".",
    ),
    "a megabyte of code": (
        f"{FORMULA}_DATA = {'[' + '7, ' * 350_000 + ']'}\n",
        1, "at most 65,536 are allowed.",
    ),
    "recursion in what it takes": (
        f"{NODE}def {TOOL}(n: Node) -> int:\n{DOC}    return 1\n",
        4, "The type 'Node' contains itself (Node → Node)",
    ),
    "recursion in what it returns": (
        f"{NODE}def {TOOL}(n: int) -> Node:\n{DOC}    return Node(n, [])\n",
        4, "The type 'Node' contains itself (Node → Node)",
    ),
    "a path for a name": (
        f"def ../{HEAD[4:]}    return n\n",
        1, "Syntax error: invalid syntax.",
    ),
    "another name": (
        FORMULA.replace(TOOL, "größe"),
        1, f"There is no top-level function named {TOOL!r}; it has 'größe'.",
    ),
    "code nested too deeply": (
        f"{HEAD}    return {'(' * 300}n{')' * 300}\n",
        3, "Syntax error: too many nested parentheses.",
    ),
    "a chain too long": (
        f"{HEAD}    return n{' + n' * 400}\n",
        3, "The code is nested more than 200 deep",
    ),
    "a chain that no parser takes": (
        f"{HEAD}    return n{' + n' * 9000}\n",
        1, "Syntax error: it cannot be parsed",
    ),
    "async": (
        f"async {HEAD}    return n\n",
        1, f"{TOOL!r} is async; write a plain `def`.",
    ),
    "any number of arguments": (
        f"def {TOOL}(*n: int) -> int:\n{DOC}    return 1\n",
        1, "*n is not allowed; name each parameter.",
    ),
    "arguments of any name": (
        f"def {TOOL}(**n: int) -> int:\n{DOC}    return 1\n",
        1, "**n is not allowed; name each parameter.",
    ),
    "no Python at all": (
        "I cannot do that.\n",
        1, "Syntax error: invalid syntax.",
    ),
}  # fmt: skip
"""Code, and the line and reason by which it is refused."""


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_tool_is_refused_with_a_reason(agent: Agent, name: str) -> None:
    """The reason reaches the writer, the tool is made in the next round, and of the bad one nothing is left."""
    source, line, reason = BAD[name]
    cast = first_run(tool=[fenced(source), fenced(FORMULA)])
    end = await agent.run(cast)

    assert decision_on(end, "tool")["outcome"] == "created"
    [creation] = end["creations"]
    first, oracle, second = creation["drafts"]
    assert (first["role"], oracle["role"], second["role"]) == ("tool", "oracle", "tool")
    problems = [one for one in first["problems"] if one.startswith(f"line {line}: ")]
    [told] = [one for one in problems if reason in one]
    assert f"- {told}" in cast.heard("tool")[1]
    assert (oracle["problems"], second["problems"]) == ([], [])
    await assert_only_the_good_tool(agent, TOOL, FORMULA)


async def assert_only_the_good_tool(agent: Agent, name: str, code: str) -> None:
    """One record, one folder with its three files, and nothing half written."""
    [tool] = [one for one in await agent.memory.list("tool") if one.origin == "generated"]
    assert (tool.name, tool.version, tool.code) == (name, 1, code)
    folder = agent.home / "tools_generated"
    assert [path.name for path in folder.iterdir()] == [name]
    files = ("cases.json", "tool.json", "tool.py")
    assert sorted(agent.files()) == [f"{name}/v1/{file}" for file in files]
    assert not [path for path in agent.home.rglob("passwd*") if path.is_file()]


@pytest.mark.parametrize(
    "mangled",
    ["\ufeff" + FORMULA, FORMULA.replace("\n", "\r\n"), "\ufeff" + FORMULA.replace("\n", "\r\n")],
    ids=["BOM", "CRLF", "both"],
)
async def test_line_ends_and_byte_order_marks_are_no_fault(agent: Agent, mangled: str) -> None:
    """They are put right, and the tool is made in the first round."""
    cast = first_run(tool=fenced(mangled))
    end = await agent.run(cast)

    [creation] = end["creations"]
    assert (creation["rounds"], creation["first_pass"]) == (1, True)
    await assert_only_the_good_tool(agent, TOOL, FORMULA)


@pytest.mark.parametrize(
    "asked",
    ["../../etc/passwd", "a/b", "..", "größe", "x" * 70, "a\x00b"],
    ids=["path", "slash", "dots", "umlaut", "long", "NUL"],
)
async def test_a_wanted_name_that_is_none_becomes_a_safe_one(agent: Agent, asked: str) -> None:
    """Whatever the plan calls it, the tool has a name that Python, providers and folders take."""
    name = tool_name(asked)
    code, other = FORMULA.replace(TOOL, name), LOOP.replace(TOOL, name)
    cast = first_run(
        plan=plan_of(subtask("Sum squares", wanted(asked))),
        tool=fenced(code),
        oracle=fenced(other),
        act=[call(10, name), "385"],
    )
    end = await agent.run(cast)

    decision: dict[str, Any] = decision_on(end, "tool")
    assert (decision["outcome"], decision["asset_name"]) == ("created", name)
    assert f"def {name}(n: int) -> int" in cast.heard("tool")[0]
    await assert_only_the_good_tool(agent, name, code)
