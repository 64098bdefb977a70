"""`nodes/toolbox/python.py`: a script becomes a module, and its outcome an answer."""

import ast
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mem2evolve.errors import SandboxUnavailable, ToolFailure
from mem2evolve.nodes.toolbox.python import FUNCTION, MAX_CODE_BYTES, as_module, run_python
from mem2evolve.sandbox import Outcome, Sandbox, open_sandbox


@pytest.fixture(params=["bubblewrap", "unsafe-subprocess"])
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    """A real sandbox of each kind."""
    made = open_sandbox(request.param)
    yield made
    await made.close()


def in_process(script: str) -> Any:
    """The value a harmless script hands out, without a sandbox: only for scripts written here."""
    names: dict[str, Any] = {}
    exec(compile(as_module(script), "<script>", "exec", dont_inherit=True), names)  # noqa: S102
    return names[FUNCTION]()


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("1 + 2", 3),
        ("x = 4\nx * 2  # twice", 8),
        ("a = 1; a + 1;", 2),
        ("(\n  1 +\n  2\n)", 3),
        ("result = 5", 5),
        ("result = 5\nprint", "<built-in function print>"),
        ("result = 6\nNone", 6),
        ("'é' + 'ß'; 'é' * 2", "éé"),
        ("", None),
        ("# nothing", None),
        ("def f(n):\n    return n and n + f(n - 1)\nf(4)\n", 10),
        ("from __future__ import annotations\nx: Missing = 1\nx", 1),
        ("if __name__ == '__main__':\n    result = 'ran'", "ran"),
        ("__name__", "__main__"),
        ("f'{__name__!r}' and 'kept'", "kept"),
        ("1, 2", [1, 2]),
        ("{1: 'a'}", {"1": "a"}),
        ("{3}", "{3}"),
        ("float('nan')", "nan"),
        ("'\\ud800'", "'\\ud800'"),
        ("```python\n2 + 2\n```", 4),
        ("\ufeff7\r\n", 7),
        ("repr = len = globals = None\n8", 8),
        ("(n := 9)", 9),
        ("*[1], 2", [1, 2]),
    ],
)
def test_a_script_hands_out_its_value(script: str, value: Any) -> None:
    """The last expression counts, else `result`; what is not JSON is written as Python shows it."""
    script = script if not script.startswith("```") else script[10:-4]

    assert in_process(script) == value


# Pieces that meet the edits: ends of expressions, f-strings, names, breaks and wide letters.
PIECES = st.lists(
    st.sampled_from(
        # The last but one is a wide letter that Python reads as x.
        [
            *"1x()\n\r;#'é=*\f\0:\\",
            "  ",
            '"""',
            "f'{",
            "}'",
            "__name__",
            "if 1:",
            "yield ",
            "await ",
            "lambda: ",
            "\N{MATHEMATICAL BOLD SMALL X}",
            "\ud800",
        ]
    ),
    max_size=12,
).map("".join)


@given(PIECES | st.text())
@example("(" * 500)
@example("-" * 20_000 + "1")
@example("x" + ".a" * 20_000)
@example("f'{__name__}'")
def test_any_text_becomes_a_module_or_a_failure(script: str) -> None:
    """Nothing else is ever raised, and the module is Python with the lines where they were."""
    try:
        module = as_module(script)
    except ToolFailure:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(module)
    last = tree.body[-1]
    assert isinstance(last, ast.FunctionDef)
    assert last.name == FUNCTION


def test_too_long_a_script_is_refused() -> None:
    """The size is ours to limit, before anything is parsed."""
    with pytest.raises(ToolFailure, match="at most 65,536"):
        as_module("#" * MAX_CODE_BYTES)


def test_a_syntax_error_names_its_line() -> None:
    """The model gets what it needs to mend it."""
    with pytest.raises(ToolFailure, match=r"SyntaxError: .* in line 2: y = = 1"):
        as_module("x = 1\ny = = 1\n")


async def test_nothing_to_see_is_said(looking: Any) -> None:
    """A script without output is a common slip."""
    answer = await run_python("x = 1", sandbox=looking(), files={})

    assert answer == {
        "stdout": "",
        "result": None,
        "note": "Nothing was printed and the last line has no value: print what you need.",
    }


async def test_long_output_keeps_both_ends(looking: Any) -> None:
    """What is missing is counted between them, and control characters are gone."""
    box = looking(outcome=Outcome(status="ok", value=["v" * 9_000], stdout="a\x1b\0" * 9_000 + "z"))

    answer: Any = await run_python("0", sandbox=box, files={})

    assert answer["stdout"].endswith("az")
    assert "[... 1,001 characters left out ...]" in answer["stdout"]
    assert "characters left out" in answer["result"]


async def test_files_are_shown_only_in_a_box(looking: Any, tmp_path: Path) -> None:
    """Without a box there is no /data; a script that wants it is told so."""
    files = {"a.txt": tmp_path / "a.txt"}
    boxed, bare = looking(), looking(isolation="none", outcome=Outcome(status="raised", error="?"))

    await run_python("1", sandbox=boxed, files=files)
    with pytest.raises(ToolFailure, match="no /data here: use read_file"):
        await run_python("open('/data/a.txt')", sandbox=bare, files=files)

    assert [boxed.asked[0]["files"], bare.asked[0]["files"]] == [files, None]


async def test_a_missing_sandbox_is_not_the_models_fault() -> None:
    """It passes through: not a tool failure."""

    class Gone:
        isolation = "bubblewrap"

        async def call(self, *args: Any, **kwargs: Any) -> Outcome:
            raise SandboxUnavailable("none", hint="install it")

    with pytest.raises(SandboxUnavailable):
        await run_python("1", sandbox=Gone(), files={})  # type: ignore[arg-type]


async def test_a_real_run_prints_and_returns(sandbox: Sandbox) -> None:
    """Output and value come back apart."""
    code = "import math\nprint('area')\nmath.floor(math.pi * 100)"

    answer = await run_python(code, sandbox=sandbox, files={})

    assert answer == {"stdout": "area\n", "result": 314}


async def test_a_real_error_shows_the_scripts_own_lines(sandbox: Sandbox) -> None:
    """The traceback has the model's text and numbers, none of ours."""
    code = "def f(x):\n    return 1 / x\n\nprint('before')\nf(0)\n"

    with pytest.raises(ToolFailure) as caught:
        await run_python(code, sandbox=sandbox, files={})

    assert caught.value.reason == (
        "ZeroDivisionError: division by zero\n"
        "line 5, in <module>: f(0)\n"
        "line 2, in f: return 1 / x\n"
        "It had printed: before\n"
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os._exit(3)", "exited with status 3"),
        ("return 1", "SyntaxError"),
        ("x = []\nfor _ in range(200): x = [x]\nx", "nested more than 100"),
        ("'x' * 2_000_000", "at most 1,048,576"),
        ("10 ** 5000", "Exceeds the limit"),
    ],
)
async def test_each_bad_end_is_a_tool_failure(code: str, reason: str) -> None:
    """However the script ends, the model reads why."""
    made = open_sandbox("bubblewrap")
    with pytest.raises(ToolFailure, match=reason):
        await run_python(code, sandbox=made, files={})
    await made.close()


async def test_a_script_reads_the_tasks_files(tmp_path: Path) -> None:
    """They are at /data/NAME."""
    path = tmp_path / "somewhere"
    path.write_text("1\n2\n")
    made = open_sandbox("bubblewrap")

    answer = await run_python(
        "sum(map(int, open('/data/numbers.txt')))", sandbox=made, files={"numbers.txt": path}
    )
    await made.close()

    assert answer == {"stdout": "", "result": 3}
