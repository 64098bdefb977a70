"""What other MCP servers say, made harmless: descriptions and schemas of tools, and their results."""

import json
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from ...errors import ToolFailure
from ._shared import clean

MAX_TEXT: Final = 300
"""Characters kept of a description."""
MAX_SCHEMA: Final = 16_000
"""Characters of a tool's input schema; a tool with a longer one is passed over."""
MAX_DEPTH: Final = 20
EXPLAINING: Final = frozenset({"description", "title"})
"""Keys of a schema whose text is for readers."""
LEFT_OUT: Final = frozenset({"$comment", "examples"})
MAX_RESULT: Final = 100_000
"""Characters kept of a result. A model sees fewer."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A tool as its server lists it, with what is foreign made harmless."""

    name: str
    description: str
    input_schema: dict[str, Any]


def listed(tool: Any) -> Listed | None:
    """Return a tool with its texts made harmless; `None` when its schema cannot be used."""
    schema = tool.input_schema
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return None
    try:
        schema = _harmless(schema, MAX_DEPTH)
    except ValueError:
        return None
    if len(json.dumps(schema)) > MAX_SCHEMA:
        return None
    return Listed(
        name=tool.name,
        description=one_line(tool.description or ""),
        input_schema={"type": "object", "properties": {}, **schema},
    )


def _harmless(value: Any, depth: int, key: str = "") -> Any:
    """Clean the texts of a schema that only explain; what means something has to be clean.

    Raises:
        ValueError: If it is not, or is nested too deeply.
    """
    if depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        names = {name: _harmless(name, depth, "name") for name in value}
        return {
            name: _harmless(one, depth - 1, name)
            for name, one in value.items()
            if names[name] not in LEFT_OUT
        }
    if isinstance(value, list):
        return [_harmless(one, depth - 1) for one in value]
    if not isinstance(value, str):
        return value
    if key in EXPLAINING:
        return one_line(value)
    if one_line(value) != value:
        raise ValueError(f"odd text {value[:40]!r}")
    return value


def one_line(text: str, limit: int = MAX_TEXT) -> str:
    """Return foreign text on one line, cut, without what nobody sees and what could end a fence."""
    seen = "".join(
        " " if char in "\n\t\r" else char
        for char in text[: limit * 20]
        if char in "\n\t\r" or unicodedata.category(char)[0] != "C"
    )
    line = " ".join(seen.replace("<", "[").replace(">", "]").split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def value_of(tool: str, result: Any) -> JsonValue:
    """Return a call's result: structured if it is, else its text.

    Raises:
        ToolFailure: If the server says that the call failed.
    """
    text = "\n".join(
        block.text if block.type == "text" else f"({block.type} left out)"
        for block in result.content
    )
    if result.is_error:
        raise ToolFailure(tool, one_line(text, 2_000) or "It failed, and says nothing more.")
    structured = result.structured_content
    if structured is not None and len(json.dumps(structured)) <= MAX_RESULT:
        whole = {"result"} == {*structured}
        return _readable(structured["result"] if whole else structured)
    text = clean(text)
    if len(text) > MAX_RESULT:
        return f"{text[:MAX_RESULT]}… (cut)"
    return text


def _readable(value: Any) -> JsonValue:
    if isinstance(value, dict):
        return {clean(str(key)): _readable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_readable(one) for one in value]
    return clean(value) if isinstance(value, str) else value
