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
from .base import Problem
from .header import read_header

MAX_SOURCE_BYTES: Final = 64 << 10
SMART: Final = "“”‘’„‚«»"  # noqa: RUF001 - the very characters

Function = ast.FunctionDef | ast.AsyncFunctionDef


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
    problems = [
        *read_header(source, packages).problems,
        *_public(tree, function),
        *_effects(tree),
        *_imports(tree, {*permissions}, {name.replace("-", "_").lower() for name in dependencies}),
        *_uses(tree, {*permissions}),
    ]
    return sorted(set(problems))


def public_functions(tree: ast.Module) -> list[Function]:
    """Return the top-level functions whose names do not start with an underscore."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [n for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")]


def _syntax_problem(source: str, exc: SyntaxError) -> Problem:
    line = max(1, exc.lineno or 1)
    lines = source.splitlines()
    text = lines[line - 1] if line <= len(lines) else ""
    if found := next((char for char in SMART if char in text), ""):
        return Problem(line, f"Syntax error: {found} is a typographic quote; use ' or \".")
    if text.lstrip().startswith("```"):
        return Problem(line, "Syntax error: ``` is Markdown; send the code without its fence.")
    return Problem(line, f"Syntax error: {exc.msg}.")


def _public(tree: ast.Module, wanted: str | None) -> Iterator[Problem]:
    """Exactly one public function, of the right name and form, and no public class."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            reason = (
                f"The class {node.name!r} is public; a tool is one function: call it _{node.name}."
            )
            yield Problem(node.lineno, reason)
    functions = public_functions(tree)
    chosen = [f for f in functions if f.name == wanted] if wanted else functions[:1]
    if not chosen:
        have = ", ".join(repr(f.name) for f in functions)
        need = f"named {wanted!r}" if wanted else "without a leading underscore"
        tail = f"; it has {have}" if have else ""
        yield Problem(1, f"There is no top-level function {need}{tail}.")
        return
    for extra in functions:
        if extra is not chosen[-1]:
            name = extra.name
            reason = (
                f"{name!r} is defined twice."
                if name == chosen[-1].name
                else f"{name!r} is a second public function; call it _{name}."
            )
            yield Problem(extra.lineno, reason)
    yield from _form(chosen[-1])


def _form(function: Function) -> Iterator[Problem]:
    """A plain function with a docstring, annotations, and named parameters only."""
    line, name = function.lineno, function.name
    if isinstance(function, ast.AsyncFunctionDef):
        yield Problem(line, f"{name!r} is async; write a plain `def`.")
    if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _own_nodes(function)):
        yield Problem(line, f"{name!r} is a generator; return a list.")
    if not (ast.get_docstring(function) or "").strip():
        yield Problem(
            line, f"{name!r} has no docstring; say what it does and what each argument is."
        )
    given = function.args
    for star, arg in (("*", given.vararg), ("**", given.kwarg)):
        if arg:
            yield Problem(arg.lineno, f"{star}{arg.arg} is not allowed; name each parameter.")
    for arg in given.posonlyargs:
        yield Problem(arg.lineno, f"{arg.arg!r} is positional-only; arguments are passed by name.")
    for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        if arg.annotation is None:
            yield Problem(arg.lineno, f"The parameter {arg.arg!r} has no type annotation.")
    if function.returns is None:
        yield Problem(line, f"{name!r} has no annotation of what it returns.")


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """Walk a function's body without the functions and classes defined in it."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, inner):
            waiting += ast.iter_child_nodes(node)


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
