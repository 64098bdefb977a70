"""What a tool takes and returns, read from its source. Nothing is run."""

import ast
import inspect
import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from pydantic import JsonValue

from ._forms import ARRAYS as LISTS
from ._forms import OBJECTS, SCALARS, TUPLES, Form, Forms, trouble
from ._public import Function, public_functions
from .screen import parse

Schema: TypeAlias = dict[str, JsonValue]

PLAIN: Final[dict[str, Schema]] = {
    **{name: {"type": name} for name in ("null", "boolean", "integer", "number")},
    **{name: {"type": name} for name in ("string", "array", "object")},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "time"},
}
ARGUMENTS: Final = re.compile(r"^(Args|Arguments|Parameters):\s*$")
FIELDS: Final = re.compile(r"^(Attributes|Fields|Args|Arguments):\s*$")
RETURNS: Final = re.compile(r"^Returns?:\s*$")
ENTRY: Final = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
HEADING: Final = re.compile(r"^\S.*$")
TYPE_WORDS: Final = frozenset({*SCALARS, *LISTS, *OBJECTS, *TUPLES})


def signature_schema(source: str, function: str) -> Schema:
    """Return the JSON schema of the function's arguments, described as in its docstring.

    An annotation that JSON schema cannot express becomes `{}`, which allows anything. TypedDicts,
    dataclasses and Enums of the module are written out where they are used.

    Raises:
        ValueError: If the source is not Python, has no such function, or its types have no finite schema.
    """
    node, forms = _find(source, function)
    described = _section(ast.get_docstring(node) or "", ARGUMENTS)
    properties: dict[str, JsonValue] = {}
    required: list[JsonValue] = []
    pairs = _parameters(node)
    schemas = _write(forms, [arg.annotation for arg, _ in pairs])
    for (arg, default), schema in zip(pairs, schemas, strict=True):
        if text := described.get(arg.arg):
            schema["description"] = text
        if default is None:
            required.append(arg.arg)
        else:
            schema.update(_default(default))
        properties[arg.arg] = schema
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def output_schema(source: str, function: str) -> Schema:
    """Return the JSON schema of what the function returns, described as in its docstring.

    Only a description, or nothing at all, where the type is not known.

    Raises:
        ValueError: As for `signature_schema`.
    """
    node, forms = _find(source, function)
    [schema] = _write(forms, [node.returns])
    if text := _returned(ast.get_docstring(node) or "", node.returns):
        schema["description"] = text
    return schema


def docstring_summary(source: str, function: str) -> str:
    """Return the first paragraph of the function's docstring on one line; empty without one.

    Raises:
        ValueError: If the source is not Python or has no such function.
    """
    text = ast.get_docstring(_find(source, function)[0]) or ""
    return " ".join(text.strip().partition("\n\n")[0].split())


def _find(source: str, function: str) -> tuple[Function, Forms]:
    try:
        tree = parse(source)
    except SyntaxError as exc:
        raise ValueError(f"The source of {function!r} is not Python: {exc}") from exc
    found = [one for one in public_functions(tree) if one.name == function]
    if not found:
        raise ValueError(f"The source has no public function {function!r}.")
    return found[-1], Forms(tree)


def _parameters(node: Function) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the parameters, each with its default."""
    positional = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(node.args.defaults))
    return [
        *zip(positional, [*defaults, *node.args.defaults], strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]


def _write(forms: Forms, annotations: Sequence[ast.expr | None]) -> list[Schema]:
    try:
        meant: list[Form] = [forms.form(one) for one in annotations]
        if found := trouble(forms, meant):
            raise ValueError(found[1])
        return [_Writer(forms).schema(form) for form in meant]
    except RecursionError as exc:
        raise ValueError("The types are nested too deeply.") from exc


class _Writer:
    """Writes forms as JSON schema, the records in them in full."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms

    def schema(self, form: JsonValue) -> Schema:  # noqa: PLR0911 - a table
        """Return the schema of a form; `{}`, which allows anything, where none can say it."""
        if isinstance(form, str):
            return dict(PLAIN.get(form, {}))
        match form:
            case ["list" | "row", item]:
                items = self.schema(item)
                return {"type": "array", "items": items} if items else {"type": "array"}
            case ["dict", _, value]:
                values = self.schema(value)
                extra: Schema = {"additionalProperties": values} if values else {}
                return {"type": "object", **extra}
            case ["tuple", *parts]:
                return self._tuple(parts)
            case ["union", *parts]:
                return _any_of([self.schema(part) for part in parts])
            case ["literal", *values]:
                return _enum(values)
            case ["record", str(name)]:
                return self._record(name)
        return {}

    def _tuple(self, parts: list[JsonValue]) -> Schema:
        """A tuple is an array: of one kind, or of a fixed length. Providers want `items` either way."""
        kinds = [self.schema(part) for part in parts]
        items: Schema = kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else {}
        if not items and kinds and all(kinds):
            items = {"anyOf": list(kinds)}
        return {"type": "array", "items": items, "minItems": len(parts), "maxItems": len(parts)}

    def _record(self, name: str) -> Schema:
        record = self._forms.record(name)
        if record is None:
            return {}
        if record.kind == "enum":
            return _enum(record.values or [])
        described = _section(ast.get_docstring(record.node) or "", FIELDS)
        properties: dict[str, JsonValue] = {}
        for field, form in self._forms.fields(record).items():
            schema = self.schema(form)
            if text := described.get(field):
                schema["description"] = text
            if (default := record.fields[field].default) is not None:
                schema |= _default(default)
            properties[field] = schema
        return {
            "type": "object",
            "properties": properties,
            "required": [name for name, field in record.fields.items() if field.required],
            "additionalProperties": False,
        }


def _enum(values: Sequence[JsonValue]) -> Schema:
    if not values:
        return {}
    kinds = {type(value) for value in values}
    named = SCALARS.get(kinds.pop().__name__) if len(kinds) == 1 else None
    return {"type": named, "enum": [*values]} if named else {"enum": [*values]}


def _any_of(parts: Sequence[Schema]) -> Schema:
    schemas: list[Schema] = []
    for schema in parts:
        if not schema:
            return {}
        choices = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and choice not in schemas:
                schemas.append(choice)
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def _default(node: ast.expr) -> Schema:
    """The default, where it is a plain value that JSON can hold."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return {}
    plain = value is None or isinstance(value, bool | int | str)
    finite = isinstance(value, float) and abs(value) < float("inf")
    return {"default": value} if plain or finite else {}


def _section(docstring: str, heading: re.Pattern[str]) -> dict[str, str]:
    """Read what a section of a Google docstring says of each name."""
    found: dict[str, str] = {}
    indent, name = 0, ""
    for line in _lines(docstring, heading):
        depth = len(line) - len(line.lstrip())
        entry = ENTRY.match(line)
        if entry and (not found or depth <= indent):
            indent, name = depth, entry[2]
            found[name] = entry[3].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {key: text for key, text in found.items() if text}


def _returned(docstring: str, annotation: ast.expr | None) -> str:
    """Read the `Returns:` section; a type in front, which the annotation says already, is left out."""
    text = " ".join(line.strip() for line in _lines(docstring, RETURNS))
    kind, colon, rest = text.partition(": ")
    written = ast.unparse(annotation) if annotation is not None else ""
    if colon and (kind.strip() == written or kind.strip() in TYPE_WORDS):
        return rest.strip()
    return text


def _lines(docstring: str, heading: re.Pattern[str]) -> list[str]:
    """Return the lines of a section, without empty ones."""
    found: list[str] = []
    inside = False
    for line in inspect.cleandoc(docstring).splitlines():
        if HEADING.match(line):
            inside = bool(heading.match(line))
        elif inside and line.strip():
            found.append(line)
    return found
