"""Small faults put into a tool on purpose: cases that do not notice them say little about the tool.

Pure: sources go in, sources come out, nothing is run. The same source gives the same mutants.
"""

import ast
import copy
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...sandbox.header import header_text
from ...sandbox.screen import parse
from .agree import equal, normal_form

LIMIT: Final = 8
"""Mutants of one source, besides the constant stubs."""

_COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_COUNTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip
_SWAPPED: Final = {
    "min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor",
    "upper": "lower", "lower": "upper", "startswith": "endswith", "endswith": "startswith",
    "lstrip": "rstrip", "rstrip": "lstrip", "append": "extend",
}  # fmt: skip
"""Functions and methods that are easily taken for one another."""
_DROPPED: Final = (ast.Raise, ast.AugAssign, ast.Expr, ast.Break, ast.Continue, ast.If)
"""Statements whose loss leaves a function that still runs."""


@dataclass(frozen=True)
class Mutant:
    """A source with one fault."""

    source: str
    line: int
    """Of the original, from 1; 0 for a stub."""
    change: str
    """What was changed, in a few words."""

    @property
    def words(self) -> str:
        """Say it to a model or a person."""
        return f"line {self.line}: {self.change}" if self.line else self.change


@dataclass(frozen=True)
class _Fault:
    """One thing that could be changed: the node by its place in `ast.walk`, and what to put there."""

    at: int
    line: int
    kind: str
    change: str
    put: ast.AST


def mutants(source: str, function: str, *, limit: int = LIMIT) -> list[Mutant]:
    """Return up to `limit` sources with one fault each, spread over lines and kinds of faults.

    None is the same code as the original in other words, and each compiles.

    Args:
        source: A module, or what should be one.
        function: Its public function; helpers beside it are changed as well.
        limit: How many at most.

    Returns:
        In the order of the lines. Empty where nothing can be changed.

    Raises:
        SyntaxError: If the source is not Python.
    """
    tree, head = parse(source), header_text(source)  # without it a mutant has no packages
    # What is said in an error is no behaviour.
    said = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for part in list(ast.walk(node))[1:]
    }
    faults = [
        fault
        for at, node in enumerate(ast.walk(tree))
        if id(node) not in said
        for fault in _faults(at, node)
    ]
    random.Random(f"{function}\n{source}").shuffle(faults)  # noqa: S311 - the same every time
    seen = {normal_form(source)}
    lines: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    found: list[Mutant] = []
    while faults and len(found) < limit:
        fault = min(faults, key=lambda one: (lines[one.line], kinds[one.kind]))
        faults.remove(fault)
        text = head + _with(tree, fault)
        form = _form(text)
        if form is None or form in seen:
            continue
        seen.add(form)
        lines[fault.line] += 1
        kinds[fault.kind] += 1
        found.append(Mutant(text, fault.line, fault.change))
    return sorted(found, key=lambda one: (one.line, one.change))


def stubs(function: str, cases: Sequence[Mapping[str, Any]]) -> list[Mutant]:
    """Return functions that always do the same: what the first case expects, and what most cases do."""
    first = next((case for case in cases if not case["raises"]), None)
    often = max(cases, key=lambda case: sum(_alike(case, other) for other in cases), default=None)
    found: list[Mutant] = []
    for case in (first, often):
        if case is None:
            continue
        does = f"raise {case['raises']}" if case["raises"] else f"return {case['expected']!r}"
        text = f"def {function}(*args, **kwargs):\n    {does}\n"
        shown = case["raises"] or json.dumps(case["expected"], ensure_ascii=False)[:80]
        verb = "raises" if case["raises"] else "returns"
        if all(text != stub.source for stub in found):
            found.append(Mutant(text, 0, f"a stub that always {verb} {shown}"))
    return found


def _alike(case: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(case["raises"] == other["raises"] and equal(case["expected"], other["expected"]))


def _form(text: str) -> str | None:
    """Return the normal form of a source that compiles; `None` for one that does not."""
    try:
        compile(text, "<mutant>", "exec", dont_inherit=True)
        return normal_form(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _with(tree: ast.Module, fault: _Fault) -> str:
    """Return the source with this fault."""
    changed = copy.deepcopy(tree)
    old = next(node for at, node in enumerate(ast.walk(changed)) if at == fault.at)
    new = ast.fix_missing_locations(_Swap(old, copy.deepcopy(fault.put)).visit(changed))
    return ast.unparse(new) + "\n"


class _Swap(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _faults(at: int, node: ast.AST) -> Iterator[_Fault]:
    line = getattr(node, "lineno", 0)
    for kind, change, put in _changes(node):
        yield _Fault(at, line, kind, change, put)


_Change = tuple[str, str, ast.AST]
"""Kind, words, and what to put in the node's place."""


def _changes(node: ast.AST) -> Iterator[_Change]:  # noqa: C901, PLR0912 - a table
    """Yield what could be put in the place of a node."""
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BinOp(op=op) if type(op) in _COUNTED:
            other = _COUNTED[type(op)]()
            yield _told("arithmetic", node, ast.BinOp(node.left, other, node.right))
        case ast.AugAssign(op=op) if type(op) in _COUNTED:
            other = _COUNTED[type(op)]()
            yield _told("arithmetic", node, ast.AugAssign(node.target, other, node.value))
        case ast.BoolOp():
            turned = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield _told("logic", node, ast.BoolOp(turned, node.values))
        case ast.UnaryOp():
            yield _told("sign", node, node.operand)
        case ast.IfExp():
            yield _told("condition", node, ast.IfExp(_negated(node.test), node.body, node.orelse))
        case ast.If() | ast.While():
            yield "condition", f"the condition {_text(node.test)} is negated", _with_test(node)
        case ast.Constant():
            yield from _constants(node)
        case ast.Subscript(slice=ast.Slice()):
            yield from _slices(node)
        case ast.Call():
            yield from _calls(node)
        case ast.Return(value=ast.expr() as value):
            yield from _returns(node, value)
        case ast.FunctionDef():
            yield from _arguments(node)
        case _:
            pass
    if isinstance(node, _DROPPED) and not _is_text(node):
        shown = _text(node).partition("\n")[0]
        yield "dropped", f"{shown!r} is dropped", ast.Pass()


def _told(kind: str, old: ast.AST, new: ast.AST) -> _Change:
    return kind, f"{_text(old)} becomes {_text(new)}", new


def _text(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
    return text if len(text) <= 60 else f"{text[:59]}…"  # noqa: PLR2004 - a few words


def _is_text(node: ast.AST) -> bool:
    """Whether it is a docstring, or another expression that does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _negated(test: ast.expr) -> ast.expr:
    return test.operand if isinstance(test, ast.UnaryOp) else ast.UnaryOp(ast.Not(), test)


def _with_test(node: ast.If | ast.While) -> ast.AST:
    kind = type(node)
    return kind(_negated(node.test), node.body, node.orelse)


def _comparisons(node: ast.Compare) -> Iterator[_Change]:
    for n, op in enumerate(node.ops):
        for other in _COMPARED[type(op)]:
            ops = [*node.ops[:n], other(), *node.ops[n + 1 :]]
            yield _told("comparison", node, ast.Compare(node.left, ops, node.comparators))


def _constants(node: ast.Constant) -> Iterator[_Change]:
    value = node.value
    others: list[Any] = []
    if isinstance(value, bool):
        others = [not value]
    elif isinstance(value, int | float):
        others = [value + 1, value - 1, 0]
    elif isinstance(value, str):
        others = ["", f"{value}x"] if value else ["x"]
    for other in others:
        yield _told("constant", node, ast.Constant(other))


def _slices(node: ast.Subscript) -> Iterator[_Change]:
    cut = node.slice
    if not isinstance(cut, ast.Slice):
        return
    one = ast.Constant(1)
    lower = ast.BinOp(cut.lower, ast.Add(), one) if cut.lower else one
    upper = ast.BinOp(cut.upper, ast.Sub(), one) if cut.upper else ast.UnaryOp(ast.USub(), one)
    for changed in (ast.Slice(lower, cut.upper, cut.step), ast.Slice(cut.lower, upper, cut.step)):
        yield _told("slice", node, ast.Subscript(node.value, changed, node.ctx))


def _calls(node: ast.Call) -> Iterator[_Change]:
    called = node.func
    if isinstance(called, ast.Name) and called.id in _SWAPPED:
        name: ast.expr = ast.Name(_SWAPPED[called.id], ast.Load())
        yield _told("call", node, ast.Call(name, node.args, node.keywords))
    elif isinstance(called, ast.Attribute) and called.attr in _SWAPPED:
        name = ast.Attribute(called.value, _SWAPPED[called.attr], ast.Load())
        yield _told("call", node, ast.Call(name, node.args, node.keywords))
    if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
        yield _told("call", node, node.args[0])
    elif node.keywords:
        yield _told("call", node, ast.Call(called, node.args, node.keywords[:-1]))


def _returns(node: ast.Return, value: ast.expr) -> Iterator[_Change]:
    """The parts of the result in another order, or nothing."""
    changed: ast.expr = ast.Constant(None)
    if isinstance(value, ast.List | ast.Tuple) and len(value.elts) > 1:
        changed = type(value)([*value.elts[1:], value.elts[0]], ast.Load())
    yield _told("result", node, ast.Return(changed))


def _arguments(node: ast.FunctionDef) -> Iterator[_Change]:
    """The function hands back its first argument as it came."""
    if node.args.args and node.args.args[0].arg not in {"self", "cls"}:
        first = node.args.args[0].arg
        changed = copy.deepcopy(node)
        changed.body = [ast.Return(ast.Name(first, ast.Load()))]
        yield "result", f"{node.name} returns its argument {first}", changed
