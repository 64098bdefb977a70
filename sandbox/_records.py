"""The classes of a module that are data: dataclasses, TypedDicts and Enums, read without running anything."""

import ast
import warnings
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

Kind = Literal["dataclass", "typeddict", "enum"]

TYPING: Final = frozenset(
    {"typing", "typing_extensions", "collections.abc", "collections", "datetime", "dataclasses", "enum"}
)  # fmt: skip
"""Modules whose names mean what they are called."""
ENUMS: Final = frozenset({"Enum", "IntEnum", "StrEnum"})
MAX_BASES: Final = 50
"""Classes that one class may inherit from, near or far; more are not read."""


@dataclass(frozen=True)
class Field:
    """One field of a record."""

    annotation: ast.expr
    required: bool
    default: ast.expr | None = None
    """The expression behind `=`, where it is the default itself."""


@dataclass(frozen=True)
class Record:
    """A class that is data."""

    kind: Kind
    node: ast.ClassDef
    fields: dict[str, Field] = field(default_factory=dict)
    values: list[JsonValue] | None = None
    """Of an Enum: its values, where all are written out."""


class Known:
    """The names that a module defines and imports at its top level."""

    def __init__(self, tree: ast.Module) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self._modules: dict[str, str] = {}
        self._members: dict[str, str] = {}
        self._aliases: dict[str, tuple[int, ast.expr]] = {}
        inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        outside = [one for one in tree.body if not isinstance(one, inner)]
        for node in (found for one in outside for found in ast.walk(one)):
            if isinstance(node, ast.Import):
                for one in node.names:
                    self._modules[one.asname or one.name.partition(".")[0]] = one.name
            elif isinstance(node, ast.ImportFrom):
                for one in node.names:
                    known = node.module in TYPING and not node.level
                    self._members[one.asname or one.name] = one.name if known else ""
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                self.classes[statement.name] = statement
            elif alias := _alias(statement):
                self._aliases[alias[0]] = (statement.lineno, alias[1])

    def name(self, node: ast.expr) -> str:
        """Return what an imported or built-in name is called where it comes from; empty for another."""
        if isinstance(node, ast.Attribute):
            base = ast.unparse(node.value)
            module = self._modules.get(base)
            return node.attr if module is None or module in TYPING else ""
        if not isinstance(node, ast.Name) or node.id in self._modules or node.id in self.classes:
            return ""
        return self._members.get(node.id, node.id)

    def own(self, node: ast.expr) -> str:
        """Return the name of the module's own class that a name stands for; empty if it is none."""
        return node.id if isinstance(node, ast.Name) and node.id in self.classes else ""

    def alias(self, node: ast.expr) -> tuple[str, ast.expr] | None:
        """Return name and type of an alias such as `Point = tuple[int, int]`."""
        if not isinstance(node, ast.Name) or node.id in self.classes:
            return None
        found = self._aliases.get(node.id)
        return (node.id, found[1]) if found else None

    def line(self, name: str) -> int:
        """Return where a class or alias is defined; 1 if it is not."""
        if name in self.classes:
            return self.classes[name].lineno
        return self._aliases[name][0] if name in self._aliases else 1


def read_record(known: Known, name: str) -> Record | None:
    """Return a class as data, or `None` if it is something else."""
    if name not in known.classes:
        return None
    line = _ancestry(known, name)
    bases = {known.name(_bare(base)) for node in line for base in node.bases}
    own = known.classes[name]
    if "TypedDict" in bases:
        return Record("typeddict", own, _typed_fields(known, line))
    if bases & ENUMS:
        return Record("enum", own, values=_members(own))
    if any(_decorator(known, own)) and not _makes_itself(known, own):
        return Record("dataclass", own, _data_fields(known, line))
    return None


def _ancestry(known: Known, name: str) -> list[ast.ClassDef]:
    """Return the classes of the module that a class inherits from, the farthest first, and itself."""
    found: dict[str, ast.ClassDef] = {}
    waiting = [name]
    while waiting and len(found) < MAX_BASES:
        node = known.classes.get(waiting.pop())
        if node is not None and node.name not in found:
            found[node.name] = node
            waiting += [known.own(_bare(base)) for base in node.bases]
    return [*reversed(found.values())]


def _typed_fields(known: Known, line: list[ast.ClassDef]) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for node in line:
        total = not any(
            one.arg == "total" and isinstance(one.value, ast.Constant) and one.value.value is False
            for one in node.keywords
        )
        for name, annotation, _ in _declared(node):
            words = _wrappers(known, annotation)
            required = "Required" in words or (total and "NotRequired" not in words)
            fields[name] = Field(annotation, required)
    return fields


def _data_fields(known: Known, line: list[ast.ClassDef]) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for node in line:
        if not any(_decorator(known, node)):
            continue
        for name, annotation, value in _declared(node):
            if {"ClassVar", "KW_ONLY"} & _wrappers(known, annotation):
                continue
            if not (isinstance(value, ast.Call) and known.name(value.func) == "field"):
                fields[name] = Field(annotation, value is None, value)
                continue
            given = {one.arg: one.value for one in value.keywords}
            if not _is_false(given.get("init")):
                optional = {"default", "default_factory"} & given.keys()
                fields[name] = Field(annotation, not optional, given.get("default"))
    return fields


def _declared(node: ast.ClassDef) -> list[tuple[str, ast.expr, ast.expr | None]]:
    return [
        (one.target.id, one.annotation, one.value)
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]


def _members(node: ast.ClassDef) -> list[JsonValue] | None:
    """Return the values of an Enum; `None` where one is computed, as by `auto()`."""
    values: list[JsonValue] = []
    for one in node.body:
        if isinstance(one, ast.Assign) and not _private(one.targets[0]):
            value = one.value.value if isinstance(one.value, ast.Constant) else None
            if not isinstance(value, str | int) or isinstance(value, bool):
                return None
            values.append(value)
    return values or None


def _wrappers(known: Known, node: ast.expr) -> set[str]:
    """Return the names around a type, as in `Annotated[NotRequired[int], …]`."""
    found: set[str] = set()
    inner = unquoted(node)
    while isinstance(inner, ast.Subscript):
        found.add(known.name(inner.value))
        parts = inner.slice
        inner = unquoted(parts.elts[0] if isinstance(parts, ast.Tuple) and parts.elts else parts)
    return found | ({known.name(inner)} if inner else set())


def unquoted(node: ast.expr) -> ast.expr | None:
    """Return the annotation inside quotes, any other as it is; `None` if it is not Python."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return node
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(node.value, mode="eval").body
    except (SyntaxError, ValueError, MemoryError):
        return None


def _decorator(known: Known, node: ast.ClassDef) -> list[ast.expr]:
    """Return the decorator that makes a dataclass, in a list of at most one."""
    return [
        one
        for one in node.decorator_list
        if known.name(one.func if isinstance(one, ast.Call) else one) == "dataclass"
    ][:1]


def _makes_itself(known: Known, node: ast.ClassDef) -> bool:
    """Whether a dataclass has an `__init__` of its own, whose arguments need not be its fields."""
    if any(isinstance(one, ast.FunctionDef) and one.name == "__init__" for one in node.body):
        return True
    return any(
        one.arg == "init" and _is_false(one.value)
        for call in _decorator(known, node)
        if isinstance(call, ast.Call)
        for one in call.keywords
    )


def _alias(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """Read `Name = TYPE`, `Name: TypeAlias = TYPE`, `type Name = TYPE` and `NewType("Name", TYPE)`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        if not ast.unparse(node.annotation).endswith("TypeAlias"):
            return None
        return (node.target.id, node.value) if isinstance(node.target, ast.Name) else None
    elif type(node).__name__ == "TypeAlias":  # from Python 3.12 on
        target, value = getattr(node, "name"), getattr(node, "value")  # noqa: B009 - unknown before
    else:
        return None
    if not isinstance(target, ast.Name):
        return None
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("NewType"):
        return (target.id, value.args[1]) if len(value.args) > 1 else None
    typed = isinstance(value, ast.Subscript | ast.BinOp | ast.Name | ast.Attribute)
    return (target.id, value) if typed or type(node).__name__ == "TypeAlias" else None


def _bare(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _private(node: ast.expr) -> bool:
    return not isinstance(node, ast.Name) or node.id.startswith("_")


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
