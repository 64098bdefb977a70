"""How a tool of the bank looks to an MCP client, and how its results do. Nothing here reads or runs anything."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jsonschema
from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import JsonValue
from referencing import Registry
from referencing.exceptions import Unresolvable

from ...memory.records import ToolRecord, stable_id
from ...nodes.permitted import permissions_of, reaches_out
from ...nodes.toolbox._shared import clean
from ...sandbox.header import FILES, NETWORK
from ...settings import Settings

SOLVE_TASK: Final = "solve_task"
"""Name of the tool that runs the whole agent; no tool of the bank gets it."""
MAX_NAME: Final = 64
MAX_FAULTS: Final = 5
"""Faults of one call's arguments that are told."""
WRAPPED: Final = "result"
"""Where a result stands that is no object: MCP wants one at the root."""
NO_FILES: Final = (
    "(It can read the files of a task; a call over MCP brings none. Use solve_task with files.)"
)
_NOT_IN_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NO_OTHERS: Final[Any] = Registry()
"""A schema may refer to nothing outside itself: nothing is fetched for it."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A tool as it is offered."""

    record: ToolRecord
    tool: Tool
    wrapped: bool
    """Whether results stand under `result`."""


def entries_of(records: Iterable[ToolRecord], settings: Settings) -> dict[str, Entry]:
    """Return what is offered, by the name that clients use; of a name's versions the newest."""
    newest = {one.name: one for one in sorted(records, key=lambda one: one.version)}
    found: dict[str, Entry] = {}
    # Those whose names stay come first, so that no changed name takes theirs.
    for record in sorted(newest.values(), key=lambda one: (_fit(one.name) != one.name, one.name)):
        name = _fit(record.name)
        if name != record.name or name in found or name == SOLVE_TASK:
            name = f"{name[: MAX_NAME - 9]}_{stable_id('mcp', record.name)[:8]}"
        found[name] = _entry(name, record, settings)
    return found


def _fit(name: str) -> str:
    return _NOT_IN_NAME.sub("_", name)[:MAX_NAME]


def _entry(name: str, record: ToolRecord, settings: Settings) -> Entry:
    output, wrapped = output_of(record.output_schema)
    may = permissions_of(record, settings)
    boxed = settings.sandbox == "bubblewrap"
    about = record.documentation or record.description
    text = f"{about}\n{NO_FILES}" if FILES in may else about
    title = " ".join(record.name.replace("_", " ").split()).capitalize()
    tool = Tool(
        name=name,
        title=clean(title),
        description=clean(text),
        input_schema={"type": "object", **record.input_schema},
        output_schema=output,
        annotations=ToolAnnotations(
            title=clean(title),
            read_only_hint=boxed,  # in a box there is nothing to change; it may fetch and read
            destructive_hint=not boxed,
            idempotent_hint=boxed and not reaches_out(record),
            open_world_hint=not boxed or any(one.startswith(NETWORK) for one in may),
        ),
    )
    return Entry(record=record, tool=tool, wrapped=wrapped)


def output_of(schema: Mapping[str, JsonValue]) -> tuple[dict[str, Any], bool]:
    """Return a schema with an object at its root, and whether results have to be wrapped for it."""
    if schema.get("type") == "object":
        return dict(schema), False
    return {
        "type": "object",
        "description": f"What the tool returned, under {WRAPPED!r}.",
        "properties": {WRAPPED: dict(schema)},
        "required": [WRAPPED],
        "additionalProperties": False,
    }, True


def faults_of(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Say in what a value does not fit a schema; empty when it does, or when the schema says nothing usable."""
    try:
        found = jsonschema.Draft202012Validator(dict(schema), registry=_NO_OTHERS).iter_errors(
            value
        )
        return [_fault(one) for one in found][:MAX_FAULTS]
    except (jsonschema.exceptions.UnknownType, Unresolvable, re.error, TypeError, RecursionError):
        return []


def _fault(error: Any) -> str:
    where = error.json_path.removeprefix("$").removeprefix(".")
    return f"{where}: {error.message}"[:300] if where else str(error.message)[:300]


def result_of(entry: Entry, value: JsonValue) -> CallToolResult:
    """Return a value as MCP carries it: as text, and structured as the output schema says."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    structured = {WRAPPED: value} if entry.wrapped else value
    if not isinstance(structured, dict) or faults_of(entry.tool.output_schema or {}, structured):
        return failed(f"It returned a value of another type than it declares: {text[:2000]}")
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured
    )


def failed(text: str) -> CallToolResult:
    """Return the result of a call that failed: the client's model is to read why."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
