"""What a tool to be made is called and takes: its signature, and the JSON schema of its arguments."""

import ast
import re
from dataclasses import dataclass
from typing import Any, Final

from ...graph.state import Wanted
from ...sandbox.signature import signature_schema

_TYPES: Final = {
    "int": "int", "integer": "int", "float": "float", "number": "float", "double": "float", "str": "str",
    "string": "str", "text": "str", "date": "str", "datetime": "str", "bool": "bool", "boolean": "bool",
    "list": "list", "array": "list", "tuple": "list", "set": "list", "sequence": "list", "iterable": "list",
    "dict": "dict", "object": "dict", "mapping": "dict", "any": "object", "none": "None", "null": "None",
}  # fmt: skip
"""Words that models use for types, with the plain ones that tools are planned with."""
_NULLABLE: Final = frozenset({"none", "null", "optional", "nullable"})
_MAX_PARTS: Final = 12
"""Types in one union or inside one another, values in one Literal; a planner that writes more means something else."""


@dataclass(frozen=True)
class Spec:
    """The agreed form of a tool."""

    name: str
    description: str
    signature: str
    """`name(a: int, b: str) -> float`, as it stands behind `def`."""
    schema: dict[str, Any]
    """JSON schema of the arguments."""

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters, in order."""
        return list(self.schema["properties"])


def spec_of(need: Wanted, name: str) -> Spec | None:
    """Return the form of a wanted tool, or `None` if its input is not written as `name: type, …`."""
    parameters = _parameters(need["input"])
    if not parameters:
        return None
    returns = _type(need["output"]) or "object"
    inside = ", ".join(f"{parameter}: {kind}" for parameter, kind in parameters)
    return make_spec(name, need["description"], f"{name}({inside}) -> {returns}")


def make_spec(name: str, description: str, signature: str) -> Spec | None:
    """Return the form with this signature, or `None` if it is no Python."""
    try:
        schema = signature_schema(f"def {signature}:\n    ...\n", name)
    except (ValueError, SyntaxError):
        return None
    return Spec(name, description, signature, schema)


def _parameters(text: str) -> list[tuple[str, str]]:
    """Read `a: int, b: list of str` as names with Python types; empty when it cannot be read so."""
    found: list[tuple[str, str]] = []
    for part in re.split(
        r"[,;]\s*(?=[A-Za-z_]\w*\s*[:(])|[,;]\s*(?=[A-Za-z_]\w*\s*$)", _spread(text)
    ):
        match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(?::\s*(.+)|\((.+)\))\s*", part)
        kind = _type(match[2] or match[3]) if match else None
        if match is None or kind is None or any(match[1].lower() == name for name, _ in found):
            return []
        found.append((match[1].lower(), kind))
    return found


def _spread(text: str) -> str:
    """Turn `a, b: int` into `a: int, b: int`."""
    text = text.strip().strip("().")
    names = re.fullmatch(r"((?:[A-Za-z_]\w*\s*,\s*)+)([A-Za-z_]\w*)\s*:\s*([^:]+)", text)
    if names is None:
        return text
    every = [name.strip() for name in names[1].split(",") if name.strip()] + [names[2]]
    return ", ".join(f"{name}: {names[3]}" for name in every)


def _type(text: str) -> str | None:
    """Return the Python type that a phrase such as `list of str` or `float (km)` names."""
    text = text.strip()
    for written in (text, text.split("(")[0].strip()):
        try:
            found = _annotation(ast.parse(written, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if found is not None and found.count("[") <= _MAX_PARTS:
            return found
    words = re.findall(r"[a-z]+", text.lower())
    kinds = [_TYPES.get(word) or _TYPES.get(word.rstrip("s")) for word in words]
    known = [kind for kind in kinds if kind and kind != "None"]
    if not known:
        return None
    listed = known[0] == "list" and len(known) > 1 and known[1] != "list"
    found = f"list[{known[1]}]" if listed else known[0]
    return _union([found, "None"]) if _NULLABLE.intersection(words) else found


def _annotation(node: ast.expr) -> str | None:  # noqa: PLR0911 - a table
    """Write a type as a tool takes it: JSON's own types, and a Literal; `None` if it is none."""
    if len(choices := _choices(node)) > 1:
        return _union([_annotation(one) for one in choices])
    match node:
        case ast.Constant(value=None):
            return "None"
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _TYPES.get(name.lower())
        case ast.Tuple(elts=parts) if parts:
            return _list_of(parts)
    name, parts = _generic(node)
    if name == "literal":
        return _literal(parts)
    if name in {"union", "annotated"}:
        return _annotation(parts[0])
    if _TYPES.get(name) == "list":
        return _list_of(parts)
    values = _annotation(parts[-1]) if _TYPES.get(name) == "dict" else None
    return values and f"dict[str, {values}]"  # keys are text in JSON, whatever was meant


def _generic(node: ast.expr) -> tuple[str, list[ast.expr]]:
    """Read `Name[A, B]` as a name, in lower case, and what is in the brackets; an empty name for all else."""
    match node:
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return (name.lower(), parts) if parts else ("", [])
    return "", []


def _choices(node: ast.expr) -> list[ast.expr]:
    """Return the types of `A | B`, `Optional[A]` and `Union[A, B]`, at any depth."""
    name, parts = _generic(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        parts = [node.left, node.right]
    elif name == "optional":
        parts = [parts[0], ast.Constant(None)]
    elif name != "union":
        return [node]
    return [choice for part in parts for choice in _choices(part)]


def _list_of(parts: list[ast.expr]) -> str | None:
    """Return the list of these kinds: of one, or of several that a planner does not tell apart."""
    given = [part for part in parts if not _is_ellipsis(part)]
    kinds = {_annotation(part) for part in given}
    if None in kinds:
        return None
    return f"list[{kinds.pop()}]" if len(kinds) == 1 else "list"


def _union(kinds: list[str | None]) -> str | None:
    parts = list(dict.fromkeys(kind for kind in kinds if kind))
    if None in kinds or len(parts) > _MAX_PARTS:
        return None
    return "object" if "object" in parts else " | ".join(parts)


def _literal(parts: list[ast.expr]) -> str | None:
    values: list[str] = []
    for part in parts:
        # A name is a text whose quotes were forgotten.
        value = part.value if isinstance(part, ast.Constant) else getattr(part, "id", None)
        if not isinstance(value, str | int) or not str(value).isprintable():
            return None
        values.append(repr(value))
    return f"Literal[{', '.join(values)}]" if len(values) <= _MAX_PARTS else None


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
