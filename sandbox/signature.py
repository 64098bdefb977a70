"""What a tool takes and returns, read from its source. Nothing is run."""

import ast
import inspect
import re
from typing import Final, TypeAlias

from pydantic import JsonValue

from .screen import Function, parse, public_functions

Schema: TypeAlias = dict[str, JsonValue]

SCALARS: Final = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}
ARRAYS: Final = frozenset({"list", "List", "Sequence", "Iterable", "Collection", "tuple", "Tuple"})
OBJECTS: Final = frozenset({"dict", "Dict", "Mapping", "MutableMapping"})
SECTION: Final = re.compile(r"^(Args|Arguments|Parameters):\s*$")
ENTRY: Final = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
HEADING: Final = re.compile(r"^\S.*$")


def signature_schema(source: str, function: str) -> Schema:
    """Return the JSON schema of the function's arguments, described as in its docstring.

    An annotation that JSON schema cannot express becomes `{}`, which allows anything.

    Raises:
        ValueError: If the source is not Python or has no such function.
    """
    node = _find(source, function)
    described = _descriptions(ast.get_docstring(node) or "")
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
    pairs = [
        *zip(positional, [*defaults, *args.defaults], strict=True),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    properties: dict[str, JsonValue] = {}
    required: list[JsonValue] = []
    for arg, default in pairs:
        schema = _schema(arg.annotation)
        if text := described.get(arg.arg):
            schema["description"] = text
        if default is None:
            required.append(arg.arg)
        else:
            schema |= _default(default)
        properties[arg.arg] = schema
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def output_schema(source: str, function: str) -> Schema:
    """Return the JSON schema of what the function returns; `{}` where nothing is known.

    Raises:
        ValueError: If the source is not Python or has no such function.
    """
    return _schema(_find(source, function).returns)


def docstring_summary(source: str, function: str) -> str:
    """Return the first paragraph of the function's docstring on one line; empty without one.

    Raises:
        ValueError: If the source is not Python or has no such function.
    """
    text = ast.get_docstring(_find(source, function)) or ""
    return " ".join(text.strip().partition("\n\n")[0].split())


def _find(source: str, function: str) -> Function:
    try:
        found = [f for f in public_functions(parse(source)) if f.name == function]
    except SyntaxError as exc:
        raise ValueError(f"The source of {function!r} is not Python: {exc}") from exc
    if not found:
        raise ValueError(f"The source has no public function {function!r}.")
    return found[-1]


def _schema(node: ast.expr | None) -> Schema:
    """Translate an annotation; what is not known allows anything."""
    if isinstance(node, ast.Constant):
        return _of_constant(node)
    if isinstance(node, ast.Name | ast.Attribute):
        return _of_name(_last_name(node))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _any_of([node.left, node.right])
    if isinstance(node, ast.Subscript):
        inner = node.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return _of_generic(_last_name(node.value), parts)
    return {}


def _of_constant(node: ast.Constant) -> Schema:
    if node.value is None:
        return {"type": "null"}
    if isinstance(node.value, str):  # an annotation in quotes
        try:
            return _schema(ast.parse(node.value, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}
    return {}


def _of_name(name: str) -> Schema:
    if name in SCALARS:
        return {"type": SCALARS[name]}
    if name in ARRAYS:
        return {"type": "array"}
    return {"type": "object"} if name in OBJECTS else {}


def _of_generic(name: str, parts: list[ast.expr]) -> Schema:  # noqa: PLR0911 - a table
    if name == "Optional":
        return _any_of([*parts, ast.Constant(None)])
    if name == "Union":
        return _any_of(parts)
    if name in {"Annotated", "Final"}:
        return _schema(parts[0])
    if name == "Literal":
        return _literal(parts)
    if name in {"tuple", "Tuple"}:
        return _tuple(parts)
    if name in ARRAYS:
        items = _schema(parts[0])
        return {"type": "array", "items": items} if items else {"type": "array"}
    if name in OBJECTS:
        values = _schema(parts[-1])
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    return {}


def _literal(parts: list[ast.expr]) -> Schema:
    values: list[JsonValue] = []
    for part in parts:
        try:
            value = ast.literal_eval(part)
        except ValueError:
            return {}
        if not isinstance(value, str | int | None):
            return {}
        values.append(value)
    kinds = {type(value) for value in values}
    named = SCALARS.get(kinds.pop().__name__) if len(kinds) == 1 else None
    return {"type": named, "enum": values} if named else {"enum": values}


def _tuple(parts: list[ast.expr]) -> Schema:
    """A tuple is an array: of one kind, or of a fixed length. Providers want `items` either way."""
    if isinstance(parts[-1], ast.Constant) and parts[-1].value is Ellipsis:
        return _of_generic("list", parts[:1])
    kinds = [_schema(part) for part in parts]
    items: Schema = kinds[0] if all(kind == kinds[0] for kind in kinds) else {}
    if not items and all(kinds):
        items = {"anyOf": list(kinds)}
    return {"type": "array", "items": items, "minItems": len(parts), "maxItems": len(parts)}


def _any_of(parts: list[ast.expr]) -> Schema:
    schemas: list[Schema] = []
    for part in parts:
        schema = _schema(part)
        if not schema:
            return {}
        choices = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and choice not in schemas:
                schemas.append(choice)
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _default(node: ast.expr) -> Schema:
    """The default, where it is a plain value that JSON can hold."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return {}
    plain = value is None or isinstance(value, bool | int | str)
    finite = isinstance(value, float) and abs(value) < float("inf")
    return {"default": value} if plain or finite else {}


def _descriptions(docstring: str) -> dict[str, str]:
    """Read the `Args:` section of a Google docstring."""
    found: dict[str, str] = {}
    inside, indent, name = False, 0, ""
    for line in inspect.cleandoc(docstring).splitlines():
        if HEADING.match(line):
            inside, name = bool(SECTION.match(line)), ""
            continue
        if not inside or not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        entry = ENTRY.match(line)
        if entry and (not found or depth <= indent):
            indent, name = depth, entry[2]
            found[name] = entry[3].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {key: text for key, text in found.items() if text}
