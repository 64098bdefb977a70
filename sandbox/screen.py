"""Reading generated code before it runs. A courtesy to the model that wrote it, no boundary.

It catches early, and with a line and a reason, what would fail later with less to learn from. Code
that means to get past it can; what it can then reach is decided by the box.
"""

import ast
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ._allowance import (
    FILES,
    FORBIDDEN_ATTRIBUTES,
    FORBIDDEN_CALLS,
    NEEDS_FILES,
    PURE,
    PURE_SUBMODULES,
)
from ._forms import Forms
from ._public import public
from .base import Problem
from .header import read_header

MAX_SOURCE_BYTES: Final = 64 << 10
MAX_NESTING: Final = 200
"""Statements and expressions inside one another, and links of a chain; more breaks what reads it further on."""
SMART: Final = "“”‘’„‚«»"  # noqa: RUF001 - the very characters


def normalise(source: str) -> str:
    """Return the source as we keep it: no byte-order mark, line feeds only, one at the end."""
    text = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.rstrip("\n") + "\n"


def parse(source: str) -> ast.Module:
    """Parse without running anything, and without warnings about the code's own literals.

    Raises:
        SyntaxError: If it is not Python, whatever the parser calls it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (ValueError, RecursionError, MemoryError) as exc:
        raise SyntaxError(f"it cannot be parsed: {exc or 'it is nested too deeply'}") from exc


def screen(
    source: str,
    *,
    function: str | None = None,
    permissions: Sequence[str] = (),
    dependencies: Sequence[str] = (),
    packages: Collection[str] = (),
) -> list[Problem]:
    """List what keeps a module from being a tool. Never raises, never runs anything.

    Args:
        source: A Python module, as `normalise` returns it.
        function: The name that its public function must have; any, if None.
        permissions: What the tool may do besides computing: `files`, `network:HOST`.
        dependencies: Import names that the packages it declares bring with them.
        packages: Names of the packages it may declare.

    Returns:
        The problems, by line; empty for a tool.
    """
    try:
        size = len(source.encode())
    except UnicodeEncodeError as exc:
        line = source.count("\n", 0, exc.start) + 1
        return [Problem(line, "The code holds a lone surrogate, which is not text.")]
    if size > MAX_SOURCE_BYTES:
        return [
            Problem(1, f"The code has {size:,} bytes; at most {MAX_SOURCE_BYTES:,} are allowed.")
        ]
    if "\0" in source:
        return [Problem(source.count("\n", 0, source.index("\0")) + 1, "The code holds a NUL.")]
    try:
        tree = parse(source)
    except SyntaxError as exc:
        return [_syntax_problem(source, exc)]
    if line := _too_deep(tree):
        reason = (
            f"The code is nested more than {MAX_NESTING} deep; write it with loops, data or steps."
        )
        return [Problem(line, reason)]
    problems = [
        *read_header(source, packages, permissions).problems,
        *public(tree, function, Forms(tree)),
        *_effects(tree),
        *_imports(tree, {*permissions}, {name.replace("-", "_").lower() for name in dependencies}),
        *_uses(tree, {*permissions}),
    ]
    return sorted(set(problems))


def _syntax_problem(source: str, exc: SyntaxError) -> Problem:
    line = max(1, exc.lineno or 1)
    lines = source.splitlines()
    text = lines[line - 1] if line <= len(lines) else ""
    if found := next((char for char in SMART if char in text), ""):
        return Problem(line, f"Syntax error: {found} is a typographic quote; use ' or \".")
    if text.lstrip().startswith("```"):
        return Problem(line, "Syntax error: ``` is Markdown; send the code without its fence.")
    return Problem(line, f"Syntax error: {exc.msg}.")


def _too_deep(tree: ast.Module) -> int:
    """Return a line where the code is nested too deeply; 0 if it is nowhere."""
    level: list[tuple[int, ast.AST]] = [(1, tree)]
    for _ in range(MAX_NESTING):
        level = [
            (getattr(node, "lineno", line), node)
            for line, parent in level
            for node in ast.iter_child_nodes(parent)
        ]
    return level[0][0] if level else 0


def _effects(tree: ast.Module) -> Iterator[Problem]:
    """At the top level only definitions, imports and constants: importing must do nothing."""
    quiet = (
        *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
        *(ast.Assign, ast.AnnAssign, ast.Pass),
    )
    for place, node in enumerate(tree.body):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, quiet) or (text and place == 0):
            continue
        if isinstance(node, ast.If) and "__name__" in ast.dump(node.test):
            yield Problem(node.lineno, 'Remove `if __name__ == "__main__":`; it never runs.')
        else:
            kind = type(node).__name__.lower()
            what = "an expression" if kind == "expr" else f"a statement ({kind})"
            yield Problem(
                node.lineno, f"Remove {what} at the top level; move it into the function."
            )
    for outer in (one for one in tree.body if isinstance(one, ast.ClassDef)):
        for node in outer.body:
            if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
                reason = f"Remove an expression in the class {outer.name!r}; it runs at import."
                yield Problem(node.lineno, reason)


def _imports(tree: ast.Module, permissions: set[str], dependencies: set[str]) -> Iterator[Problem]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield Problem(
                node.lineno, "A relative import has nothing to refer to; the tool is one file."
            )
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if any(alias.name == "*" for alias in node.names):
                yield Problem(node.lineno, f"Import names from {module!r} one by one, not with *.")
            # `from xml import etree` is as good as `import xml.etree`.
            inner = [f"{module}.{alias.name}" for alias in node.names]
            if not all(_allowed(name, permissions, dependencies) for name in inner):
                yield from _import_problem(node.lineno, module, permissions, dependencies)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _import_problem(node.lineno, alias.name, permissions, dependencies)


def _import_problem(
    line: int, module: str, permissions: set[str], dependencies: set[str]
) -> Iterator[Problem]:
    if _allowed(module, permissions, dependencies):
        return
    top = module.partition(".")[0]
    if module in FILES or top in FILES:
        yield Problem(line, f"Importing {module!r} needs the permission 'files'.")
    elif top in sys.stdlib_module_names:
        reason = f"Importing {module!r} is not allowed: a tool only computes."
        yield Problem(line, reason)
    else:
        reason = (
            f"{module!r} is not in the standard library and not among the declared dependencies."
        )
        yield Problem(line, reason)


def _allowed(module: str, permissions: set[str], dependencies: set[str]) -> bool:
    parts = module.split(".")
    prefixes = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    if prefixes & PURE_SUBMODULES or parts[0] in PURE or parts[0].lower() in dependencies:
        return True
    return "files" in permissions and bool(prefixes & FILES)


def _uses(tree: ast.Module, permissions: set[str]) -> Iterator[Problem]:
    """Names and attributes that a pure function has no use for, also when only passed on."""
    own = any(getattr(node, "name", "") == "fetch" for node in ast.walk(tree))
    may_fetch = own or any(one.startswith("network:") for one in permissions)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in FORBIDDEN_CALLS:
                yield Problem(node.lineno, f"{node.id} is not allowed: {FORBIDDEN_CALLS[node.id]}.")
            elif node.id in NEEDS_FILES and "files" not in permissions:
                yield Problem(node.lineno, f"{node.id} needs the permission 'files'.")
            elif node.id == "fetch" and not may_fetch:
                yield Problem(node.lineno, "fetch needs the permission 'network:HOST'.")
            elif node.id == "__builtins__":
                yield Problem(node.lineno, "__builtins__ is not allowed: call functions by name.")
        elif isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_ATTRIBUTES:
            yield Problem(node.lineno, f".{node.attr} is not allowed: a tool only computes.")
