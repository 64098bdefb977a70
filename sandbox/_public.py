"""What a module has to offer to be a tool: one public function, of a form that can be called by JSON."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from ._forms import Forms, trouble
from .base import Problem

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What providers, MCP and the folder of a tool accept."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(tree: ast.Module) -> list[Function]:
    """Return the top-level functions whose names do not start with an underscore."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [n for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")]


def public(tree: ast.Module, wanted: str | None, forms: Forms) -> Iterator[Problem]:
    """Exactly one public function, of the right name and form, and no public class but those of its types."""
    try:
        yield from _classes(tree, wanted, forms)
    except RecursionError:  # in annotations that are texts
        yield Problem(1, "The types of a class are nested too deeply.")
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
    yield from _name(chosen[-1])
    yield from _form(chosen[-1])
    yield from _types(chosen[-1], forms)


def _classes(tree: ast.Module, wanted: str | None, forms: Forms) -> Iterator[Problem]:
    """A class is no tool; one that only says what data look like may be public."""
    alone = not public_functions(tree)
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        if alone or node.name == wanted:
            name = wanted or node.name
            reason = f"{node.name!r} is a class; a tool is one function: write `def {name}(…)`."
            yield Problem(node.lineno, reason)
        elif forms.record(node.name) is None:
            reason = (
                f"The class {node.name!r} is public; a tool is one function: call it _{node.name}."
            )
            yield Problem(node.lineno, reason)


def _types(function: Function, forms: Forms) -> Iterator[Problem]:
    """What it takes and returns must have a schema."""
    given = function.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    annotations = [*(arg.annotation for arg in every), function.returns]
    try:
        found = trouble(forms, [forms.form(one) for one in annotations])
    except RecursionError:
        found = (function.lineno, "The types of arguments and result are nested too deeply.")
    if found:
        yield Problem(*found)


def _name(function: Function) -> Iterator[Problem]:
    name = function.name
    if not NAME.fullmatch(name):
        fault = f"has {len(name)} characters" if name.isascii() else "is not plain ASCII"
        reason = f"The name {name!r} {fault}; use at most 64 letters a-z, digits and underscores."
        yield Problem(function.lineno, reason)


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
