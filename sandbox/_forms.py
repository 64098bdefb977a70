"""What an annotation means, read from the syntax tree of its module. Nothing is run.

A form is a JSON value, so that the box can be told it:

- a text: `any`, `null`, `boolean`, `integer`, `number`, `string`, `array`, `object`, `date`,
  `datetime`, `time`;
- `["list", FORM]`, `["dict", FORM, FORM]`, `["tuple", FORM, ...]`, `["row", FORM]` for a tuple of
  any length, `["union", FORM, ...]`, `["literal", VALUE, ...]`;
- `["record", NAME]` for a class of the module: a dataclass, a TypedDict or an Enum.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from pydantic import JsonValue

from ._records import Field, Known, Record, read_record, unquoted

Form: TypeAlias = str | list[JsonValue]

ANY: Final = "any"
SCALARS: Final = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}
DATES: Final = {"date": "date", "datetime": "datetime", "time": "time"}
ARRAYS: Final = frozenset({"list", "List", "Sequence", "Iterable", "Collection"})
TUPLES: Final = frozenset({"tuple", "Tuple"})
OBJECTS: Final = frozenset({"dict", "Dict", "Mapping", "MutableMapping"})
WRAPPERS: Final = frozenset(
    {"Annotated", "Final", "Required", "NotRequired", "ReadOnly", "InitVar", "Unpack"}
)
"""Say something about a type that a form does not hold."""
CONVERTED: Final = frozenset({*DATES.values(), "tuple", "row", "record"})
"""Forms whose values are made from JSON, not JSON themselves."""

MAX_PARTS: Final = 1_000
"""Types in one schema once those of the module are written out; more is no schema for a model."""
MAX_DEPTH: Final = 20
"""Types inside one another."""


class Forms:
    """The types of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self._known = Known(tree)
        self._open: list[str] = []
        self._records: dict[str, Record | None] = {}
        self.endless: list[str] = []
        """Aliases that were found to name themselves."""

    def form(self, node: ast.expr | None) -> Form:
        """Return what an annotation means; what is not known is `any`."""
        if isinstance(node, ast.Constant):
            return self._of_constant(node)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._of_name(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union(_choices(node))
        if isinstance(node, ast.Subscript):
            inner = node.slice
            return self._of_generic(
                node.value, inner.elts if isinstance(inner, ast.Tuple) else [inner]
            )
        return ANY

    def record(self, name: str) -> Record | None:
        """Return the class of that name as data, or `None` if it is not a dataclass, TypedDict or Enum."""
        if name not in self._records:
            self._records[name] = read_record(self._known, name)
        return self._records[name]

    def fields(self, record: Record) -> dict[str, Form]:
        """Return the forms of a record's fields."""
        return {name: self.form(field.annotation) for name, field in record.fields.items()}

    def line(self, name: str) -> int:
        """Return where a class or alias of the module is defined."""
        return self._known.line(name)

    def _of_constant(self, node: ast.Constant) -> Form:
        if node.value is None:
            return "null"
        inner = unquoted(node)
        return self.form(inner) if inner is not node else ANY

    def _of_name(self, node: ast.expr) -> Form:
        alias = self._known.alias(node)
        if alias is not None:
            return self._of_alias(*alias)
        if own := self._known.own(node):
            return ["record", own] if self.record(own) is not None else ANY
        name = self._known.name(node)
        if name in TUPLES:
            return ["row", ANY]
        if name in ARRAYS:
            return "array"
        if name in OBJECTS:
            return "object"
        return SCALARS.get(name) or DATES.get(name) or ANY

    def _of_alias(self, name: str, value: ast.expr) -> Form:
        if name in self._open:
            self.endless.append(name)
            return ANY
        self._open.append(name)
        try:
            return self.form(value)
        finally:
            self._open.pop()

    def _of_generic(self, base: ast.expr, parts: list[ast.expr]) -> Form:  # noqa: PLR0911 - a table
        if self._known.own(base):
            return self._of_name(base)
        name = self._known.name(base)
        if not parts:  # `tuple[()]`; nothing else has no parts
            return ["tuple"] if name in TUPLES else ANY
        if name == "Optional":
            return self._union([*parts, ast.Constant(None)])
        if name == "Union":
            return self._union(parts)
        if name in WRAPPERS:
            return self.form(parts[0])
        if name == "Literal":
            return self._literal(parts)
        if name in TUPLES:
            return self._tuple(parts)
        if name in ARRAYS:
            return _list_of(self.form(parts[0]))
        if name in OBJECTS:
            key, value = self.form(parts[0]), self.form(parts[-1])
            return "object" if value == ANY and key not in CONVERTED else ["dict", key, value]
        return ANY

    def _union(self, parts: Iterable[ast.expr]) -> Form:
        options: list[JsonValue] = []
        for part in parts:
            form = self.form(part)
            inner = form[1:] if isinstance(form, list) and form[0] == "union" else [form]
            options += [one for one in inner if one not in options]
        if ANY in options and not any(map(needed, options)):
            return ANY
        return options[0] if len(options) == 1 else ["union", *options]  # type: ignore[return-value]

    def _tuple(self, parts: list[ast.expr]) -> Form:
        if isinstance(parts[-1], ast.Constant) and parts[-1].value is Ellipsis:
            return ["row", self.form(parts[0])]
        return ["tuple", *map(self.form, parts)]

    @staticmethod
    def _literal(parts: list[ast.expr]) -> Form:
        values: list[JsonValue] = []
        for part in parts:
            try:
                value = ast.literal_eval(part)
            except (ValueError, TypeError):
                return ANY
            if not isinstance(value, str | int | None):
                return ANY
            values.append(value)
        return ["literal", *values]


def needed(form: JsonValue) -> bool:
    """Whether a value of this form has to be made from JSON. Records are: their fields are asked for."""
    if isinstance(form, str):
        return form in CONVERTED
    if not isinstance(form, list) or form[0] == "literal":
        return False
    return form[0] in CONVERTED or any(map(needed, form[1:]))


def named(form: JsonValue) -> list[str]:
    """Return the names of the records in a form."""
    if not isinstance(form, list) or form[0] == "literal":
        return []
    if form[0] == "record":
        return [str(form[1])]
    return [name for part in form[1:] for name in named(part)]


def reachable(forms: Forms, start: Iterable[Form]) -> dict[str, Record]:
    """Return the records that values of these forms can hold, by name."""
    found: dict[str, Record] = {}
    waiting = [name for form in start for name in named(form)]
    while waiting:
        name = waiting.pop()
        record = forms.record(name)
        if record is not None and name not in found:
            found[name] = record
            waiting += [inner for form in forms.fields(record).values() for inner in named(form)]
    return found


def trouble(forms: Forms, start: Sequence[Form]) -> tuple[int, str] | None:
    """Say, with a line, what keeps these forms from being one finite schema of a sensible size."""
    records = reachable(forms, start)
    inside = {
        name: [inner for form in forms.fields(record).values() for inner in named(form)]
        for name, record in records.items()
    }
    if circle := _circle(inside):
        path = " → ".join(circle)
        reason = (
            f"The type {circle[0]!r} contains itself ({path}), which no schema of a tool can hold"
        )
        return forms.line(circle[0]), f"{reason}; take or return a flat list of dicts instead."
    if forms.endless:
        name = forms.endless[0]
        reason = f"The type {name!r} contains itself, which no schema of a tool can hold"
        return forms.line(name), f"{reason}; use dict, list or object instead."
    parts, depth = _measure(forms, records, start)
    if parts > MAX_PARTS:
        reason = f"The types of arguments and result have {parts:,} parts written out"
        return 1, f"{reason}; at most {MAX_PARTS:,} are allowed."
    if depth > MAX_DEPTH:
        reason = f"The types of arguments and result are {depth} deep"
        return 1, f"{reason}; at most {MAX_DEPTH} are allowed."
    return None


def _measure(forms: Forms, records: Mapping[str, Record], start: Iterable[Form]) -> tuple[int, int]:
    """Return how many types there are with all records written out, and how deep they lie."""
    seen: dict[str, tuple[int, int]] = {}

    def of(form: JsonValue) -> tuple[int, int]:
        if not isinstance(form, list) or form[0] == "literal":
            return 1, 1
        if form[0] != "record":
            return _sum(map(of, form[1:]))
        name = str(form[1])
        if name not in seen:
            seen[name] = _sum(map(of, forms.fields(records[name]).values()))
        return seen[name]

    return _sum(map(of, start))


def _sum(sizes: Iterable[tuple[int, int]]) -> tuple[int, int]:
    counts = [(0, 0), *sizes]
    return 1 + sum(count for count, _ in counts), 1 + max(depth for _, depth in counts)


def _circle(inside: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a way through the records that comes back to where it began; empty if there is none."""
    done: set[str] = set()
    for start in inside:
        path, todo = [start], [iter(inside[start])]
        while path:
            name = next((one for one in todo[-1] if one not in done), None)
            if name is None:
                done.add(path.pop())
                todo.pop()
            elif name in path:
                return [*path[path.index(name) :], name]
            else:
                path.append(name)
                todo.append(iter(inside[name]))
    return []


def _choices(node: ast.BinOp) -> list[ast.expr]:
    """Return the types of `A | B | …` without a call for each."""
    found: list[ast.expr] = []
    rest: ast.expr = node
    while isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.BitOr):
        found.append(rest.right)
        rest = rest.left
    return [rest, *reversed(found)]


def _list_of(item: Form) -> Form:
    return "array" if item == ANY else ["list", item]


__all__ = ["ANY", "Field", "Form", "Forms", "Record", "needed", "reachable", "trouble"]
