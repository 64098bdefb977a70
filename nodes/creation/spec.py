"""What a tool to be made is called and takes: its signature, and the JSON schema of its arguments."""

import ast
import re
from dataclasses import dataclass
from typing import Any, Final

from ...graph.state import Wanted
from ...sandbox.signature import signature_schema

_TYPES: Final = {
    "int": "int", "integer": "int", "float": "float", "number": "float", "str": "str", "string": "str",
    "text": "str", "date": "str", "bool": "bool", "boolean": "bool", "list": "list", "array": "list",
    "tuple": "list", "set": "list", "sequence": "list", "dict": "dict", "object": "dict", "any": "object",
}  # fmt: skip
"""Words that models use for types."""
_ALLOWED: Final = frozenset({*_TYPES.values(), "none"})
_ANNOTATION: Final = (ast.Name, ast.Subscript, ast.Tuple, ast.BinOp, ast.BitOr, ast.Load)
"""What a type may be written with, as in `dict[str, list[int]] | None`."""


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
    text = text.strip().lower()
    try:
        tree = ast.parse(text.split("(")[0].strip(), mode="eval").body
        named = ast.unparse(tree)
        if all(
            isinstance(node, _ANNOTATION)
            and (not isinstance(node, ast.Name) or node.id in _ALLOWED)
            for node in ast.walk(tree)
        ):
            return named.replace("none", "None")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    words = re.findall(r"[a-z]+", text)
    kinds = [_TYPES.get(word) or _TYPES.get(word.rstrip("s")) for word in words]
    known = [kind for kind in kinds if kind]
    if not known:
        return None
    if known[0] == "list" and len(known) > 1 and known[1] != "list":
        return f"list[{known[1]}]"
    return known[0]
