"""The tool `python`: one script, run once in a box of its own.

Here the script is only read. It is turned into a module that the sandbox loads, with a function
that hands out the value of its last expression.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from ...errors import ToolFailure
from ...sandbox.base import Limits, Outcome, Sandbox
from ...sandbox.screen import normalise, parse
from ._shared import PAGE_CHARS, clean, shorten

TOOL: Final = "python"
FUNCTION: Final = "_hand_out_"
LAST: Final = "_last_value_"
MAX_CODE_BYTES: Final = 64 << 10
LIMITS: Final = Limits()
FENCE: Final = re.compile(r"\A\s*```[a-zA-Z]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
FRAME: Final = re.compile(r"^line (\d+), in ([^:]*): .*$")

# Builtins by way of their module: the script may have put its own in their place.
TAIL: Final = f"""

def {FUNCTION}():
    import builtins as b
    import json as j
    names = b.globals()
    value = names.get("{LAST}")
    if value is None:
        value = names.get("result")
    try:
        text = j.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
        return j.loads(text)
    except (b.TypeError, b.ValueError, b.RecursionError):
        return b.repr(value).encode("utf-8", "backslashreplace").decode()
"""


class _Edit(NamedTuple):
    """Bytes to put in place of others."""

    start: int
    end: int
    text: bytes


async def run_python(code: str, *, sandbox: Sandbox, files: Mapping[str, Path]) -> JsonValue:
    """Run a script in a fresh box.

    Args:
        code: The script; a Markdown fence around it is taken off.
        sandbox: Where it runs.
        files: The task's files, which the script finds as `/data/NAME`.

    Returns:
        `{"stdout": text, "result": value}`: what it printed, and its last expression or `result`
        as JSON, or as `repr` writes it where it is not JSON; with a `note` if both are empty.

    Raises:
        ToolFailure: If the script is not Python, raises, or runs into a limit.
        SandboxUnavailable: If no box can be started.
    """
    script = _unfenced(code)
    source = as_module(script)
    boxed = sandbox.isolation != "none"  # without a box there is no /data to show files in
    outcome = await sandbox.call(
        source,
        FUNCTION,
        {},
        limits=LIMITS,
        files=dict(files) if boxed and files else None,
        fresh=True,  # it runs once: nothing to keep a box for
    )
    if outcome.status != "ok":
        missing = "" if boxed or "/data" not in script else "There is no /data here: use read_file."
        raise ToolFailure(TOOL, _explain(outcome, script, missing))
    answer: dict[str, JsonValue] = {
        "stdout": shorten(clean(outcome.stdout)),
        "result": _capped(outcome.value),
    }
    if not outcome.stdout and outcome.value is None:
        answer["note"] = "Nothing was printed and the last line has no value: print what you need."
    return answer


def as_module(script: str) -> str:
    """Return a module that does what the script does, with `FUNCTION` to fetch its value.

    Lines keep their numbers. `__name__` reads `"__main__"`, as scripts expect.

    Raises:
        ToolFailure: If the script is too long or not Python.
    """
    text = normalise(script)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_CODE_BYTES:
        raise ToolFailure(TOOL, f"The code has {size:,} bytes; at most {MAX_CODE_BYTES:,} work.")
    try:
        tree = parse(text)
    except SyntaxError as exc:
        where = f" in line {exc.lineno}: {(exc.text or '').strip()}" if exc.lineno else ""
        reason = f"SyntaxError: {exc.msg}{where}"[:600]
        raise ToolFailure(TOOL, clean(reason)) from exc
    edited = _apply(text, tree)
    try:
        parse(edited)
    except SyntaxError:  # an edit that does not fit costs the value, not the run
        edited = text
    return edited + TAIL


def _unfenced(code: str) -> str:
    match = FENCE.match(code.replace("\r\n", "\n"))
    return match[1] if match else code


def _apply(text: str, tree: ast.Module) -> str:
    data = text.encode()
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    done, pieces = 0, []
    for edit in sorted(_edits(data, starts, tree)):
        pieces += [data[done : edit.start], edit.text]
        done = edit.end
    return b"".join([*pieces, data[done:]]).decode()


def _edits(data: bytes, starts: list[int], tree: ast.Module) -> Iterator[_Edit]:
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        begin, end = _span(last, starts)
        yield _Edit(begin, begin, f"{LAST} = (".encode())
        yield _Edit(end, end, b")")
    # Python 3.11 gives the parts of an f-string wrong places.
    quoted = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "__name__" and id(node) not in quoted:
            begin, end = _span(node, starts)
            if isinstance(node.ctx, ast.Load) and data[begin:end] == b"__name__":
                yield _Edit(begin, end, b'"__main__"')


def _span(node: ast.expr | ast.stmt, starts: list[int]) -> tuple[int, int]:
    last_line = node.lineno if node.end_lineno is None else node.end_lineno
    last_column = node.col_offset if node.end_col_offset is None else node.end_col_offset
    return starts[node.lineno - 1] + node.col_offset, starts[last_line - 1] + last_column


def _explain(outcome: Outcome, script: str, missing: str) -> str:
    """Say how the run ended, with the script's own lines and not our edited ones."""
    lines = normalise(script).split("\n")
    frames = []
    for shown in outcome.traceback.split("\n"):
        frame = FRAME.match(shown)
        if frame is None:
            frames.append(shown)
        elif int(frame[1]) < len(lines):  # beyond are the lines that we added
            text = lines[int(frame[1]) - 1].strip()
            frames.append(f"line {frame[1]}, in {frame[2]}: {text}"[:300])
    raised = outcome.status == "raised"
    head = f"{outcome.error_type}: {outcome.error}" if raised else outcome.error or outcome.status
    printed = [f"It had printed: {shorten(outcome.stdout, 1_000)}"] if outcome.stdout else []
    parts = [head, missing, *frames, *printed]
    return clean("\n".join(part for part in parts if part))


def _capped(value: JsonValue) -> JsonValue:
    """Keep a small value as it is; a large one becomes shortened text."""
    if isinstance(value, str):
        return shorten(clean(value))
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= PAGE_CHARS else shorten(text)
