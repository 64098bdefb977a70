"""Agreement of independent implementations: where expected values come from when nobody knows them.

Compare CodeT (arXiv 2207.10397), which ranks code by the tests it passes and the peers that pass the
same ones. Here values are compared, on the host, and only truly different implementations count.
"""

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...sandbox import Outcome
from ...sandbox.screen import parse

RELATIVE: Final = 1e-9
ABSOLUTE: Final = 1e-12
"""Two floats are the same up to these: order of summation is no disagreement."""
EXPECTED_ERROR: Final = "ValueError"
"""The one way in which a tool may refuse its input."""


@dataclass(frozen=True)
class Vote:
    """What the implementations made of one input."""

    args: Mapping[str, Any]
    agreed: Outcome | None
    """The outcome that most of them share; `None` when contested."""
    voters: int
    """How many different implementations share it."""


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes are the same: equal values, or both refuse the input."""
    if one.status == "ok" and other.status == "ok":
        return equal(one.value, other.value)
    return refuses(one) and refuses(other)


def refuses(outcome: Outcome) -> bool:
    """Whether the input was refused as agreed, by a `ValueError` or a class derived from it."""
    return _raised(outcome, EXPECTED_ERROR)


def _raised(outcome: Outcome, name: str) -> bool:
    return outcome.status == "raised" and name in {outcome.error_type, *outcome.error_bases}


def equal(one: Any, other: Any, tolerance: float = ABSOLUTE) -> bool:
    """Whether two JSON values are equal, floats up to a relative 1e-9 or the absolute tolerance.

    Two ints must differ by no more than the absolute tolerance: counting wrong by one in 10**12 is wrong.
    A bool never equals a number; `3` equals `3.0`; the order of keys does not matter.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return _close(one, other, tolerance)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            equal(a, b, tolerance) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            equal(one[key], other[key], tolerance) for key in one
        )
    return type(one) is type(other) and bool(one == other)


def _close(one: float, other: float, tolerance: float) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return abs(one - other) <= tolerance
    try:
        return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=max(tolerance, ABSOLUTE))
    except OverflowError:  # an int beyond every float
        return False


def vote(args: Mapping[str, Any], outcomes: Sequence[Outcome]) -> Vote:
    """Return what at least two implementations, and more than agree on anything else, make of one input.

    Args:
        args: The input.
        outcomes: One for each *different* implementation. Those that neither return nor refuse do not count.
    """
    groups: list[list[Outcome]] = []
    for outcome in outcomes:
        if outcome.status != "ok" and not refuses(outcome):
            continue
        group = next((group for group in groups if same(group[0], outcome)), None)
        if group is None:
            groups.append([outcome])
        else:
            group.append(outcome)
    groups.sort(key=len, reverse=True)
    second = len(groups[1]) if len(groups) > 1 else 0
    if not groups or len(groups[0]) < 2 or len(groups[0]) == second:  # noqa: PLR2004 - two make an agreement
        return Vote(args, None, 0)
    return Vote(args, groups[0][0], len(groups[0]))


def holds(case: Mapping[str, Any], outcome: Outcome) -> bool:
    """Whether the outcome is what the case expects. An exception may be of a derived class."""
    if case["raises"]:
        return _raised(outcome, case["raises"])
    return outcome.status == "ok" and equal(outcome.value, case["expected"], case["tolerance"])


def normal_form(source: str) -> str:
    """Return the source without docstrings, annotations, comments, layout, own names and ways to import.

    Two drafts with the same normal form are one opinion, not two.

    Raises:
        SyntaxError: If the source is not Python, or nested too deeply.
    """
    try:
        return ast.dump(_Normaliser().visit(parse(source)))
    except RecursionError as exc:
        raise SyntaxError("it is nested too deeply") from exc


class _Normaliser(ast.NodeTransformer):
    """Renames what the module defines in order of appearance, and drops what does not run."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._imported: dict[str, str] = {}
        """What each imported name is in full, as `math.sqrt`; empty where one name is imported as two things."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [one for one in body if not isinstance(one, ast.Pass)]
            body[:] = kept or [ast.Pass()]
        return node

    def visit_Module(self, node: ast.Module) -> ast.AST:
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._own(inner.name)
            elif isinstance(inner, ast.arg):
                self._own(inner.arg)
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                self._own(inner.id)
            elif isinstance(inner, ast.ExceptHandler) and inner.name:
                self._own(inner.name)
            elif isinstance(inner, ast.Import | ast.ImportFrom):
                self._import(inner)
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._names[node.name]
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        return self._without_plain(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return self._without_plain(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._names[node.name]
        node.returns = None
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg, node.annotation = self._names[node.arg], None
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = self._names[node.name] if node.name else None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return self.generic_visit(
            ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno)
        )

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if full := self._full(node.id):
            first, *rest = full.split(".")
            found: ast.expr = ast.Name(first, ast.Load())
            for part in rest:
                found = ast.Attribute(found, part, ast.Load())
            return found
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """The words of an error are no opinion about the result."""
        if isinstance(node.exc, ast.Call):
            node.exc.args = []
        return self.generic_visit(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for local, full in _bound(node):
            self._imported[local] = full if self._imported.get(local, full) == full else ""

    def _without_plain(self, node: ast.Import | ast.ImportFrom) -> ast.AST | None:
        """Leave out an import whose names are written in full where they are used."""
        if all(self._full(local) for local, _ in _bound(node)):
            return ast.Pass()
        for alias in node.names:
            alias.asname = self._names.get(alias.asname or "", alias.asname)
        return node

    def _full(self, name: str) -> str:
        """Return what an imported name stands for; empty if it stands for something else as well."""
        return "" if name in self._names else self._imported.get(name, "")

    def _own(self, name: str) -> None:
        self._names.setdefault(name, f"n{len(self._names)}")


def _bound(node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """Return each name that an import binds, with what it stands for; empty for what is not known."""
    if isinstance(node, ast.ImportFrom):
        start = f"{node.module}." if node.module and not node.level else ""
        return [
            (one.asname or one.name, f"{start}{one.name}" if start and one.name != "*" else "")
            for one in node.names
        ]
    tops = [one.name.partition(".")[0] for one in node.names]
    return [
        (one.asname, one.name) if one.asname else (top, top)
        for one, top in zip(node.names, tops, strict=True)
    ]
