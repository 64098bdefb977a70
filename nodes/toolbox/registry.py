"""The tools that a sub-task is offered, and how the graph's tool node finds and runs them by name."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from pydantic import JsonValue

from ...errors import Mem2EvolveError, ToolFailure
from ...memory.records import StatusChange, ToolRecord
from ...sandbox import Outcome
from ..desk import Resources
from ..permitted import box_of
from .builtin import BUILTINS, Bench
from .foreign import DOWN

MAX_OBSERVATION: Final = 8_000
"""Characters of a tool's result that a model sees."""

BENCH: ContextVar[Bench] = ContextVar("mem2evolve_bench")
"""What the tools of the running sub-task may use."""

Offer = dict[str, Any]
"""A tool as a sub-task's state holds it: id, name, origin, OpenAI `function`, and a generated or MCP tool's record."""


class Registry:
    """Finds a tool by its offer, and keeps what it built for the life of the process."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._host = {tool.name: tool for tool in resources.tools}
        self._builtins = {tool.name: tool for tool in BUILTINS}
        self._built: dict[str, BaseTool] = {}

    def find(self, offer: Offer) -> BaseTool:
        """Return the tool behind an offer."""
        if offer["origin"] == "host":
            return self._host[offer["name"]]
        if offer["id"] not in self._built:
            self._built[offer["id"]] = self._build(offer)
        return self._built[offer["id"]]

    def _build(self, offer: Offer) -> BaseTool:
        name = offer["name"]
        if offer["origin"] == "builtin":
            builtin = self._builtins[name]

            async def use(**args: Any) -> JsonValue:
                return await builtin.run(args, BENCH.get())

            return _tool(name, builtin.description, builtin.input_schema, use)
        if offer["origin"] == "mcp":
            return self._foreign(offer)
        record = ToolRecord(**offer["record"])
        if record.id != offer["id"]:  # the id holds the SHA-256 of what was checked
            raise ToolFailure(name, "Its code is not the code that was checked, so it is not run.")

        async def call(**args: Any) -> JsonValue:
            return await run_record(record, args, self._resources)

        return _tool(name, record.description, record.input_schema, call)

    def _foreign(self, offer: Offer) -> BaseTool:
        record = ToolRecord(**offer["record"])
        server, _, tool = record.function.partition("/")

        async def call(**args: Any) -> JsonValue:
            if self._resources.foreign is None:
                raise ToolFailure(record.name, f"{DOWN}: the settings name no MCP server.")
            return await self._resources.foreign.call(server, tool, args)

        return _tool(record.name, record.documentation, record.input_schema, call)


def tool_node(registry: Registry) -> ToolNode:
    """Return a tool node that holds no tool: each call is looked up among what the sub-task was offered."""

    async def look_up(
        request: ToolCallRequest,
        execute: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        name = request.tool_call["name"]
        offer = next((offer for offer in request.state["offers"] if offer["name"] == name), None)
        if offer is None:
            known = ", ".join(offer["name"] for offer in request.state["offers"]) or "none"
            return ToolMessage(
                f"There is no tool {name!r}. Tools: {known}.",
                tool_call_id=request.tool_call["id"],
                name=name,
                status="error",
            )
        try:
            return await execute(request.override(tool=registry.find(offer)))
        except ToolFailure as exc:
            return ToolMessage(
                explain(exc), tool_call_id=request.tool_call["id"], name=name, status="error"
            )

    return ToolNode([], awrap_tool_call=look_up, handle_tool_errors=explain)


def explain(exc: Exception) -> str:
    """Return what the model is told of an exception; our own errors that stop a run go on."""
    if isinstance(exc, Mem2EvolveError):
        raise exc
    if isinstance(exc, ToolFailure):
        return exc.reason
    return f"{type(exc).__name__}: {str(exc)[:1000]}"


async def run_record(
    record: ToolRecord, args: Mapping[str, Any], resources: Resources
) -> JsonValue:
    """Call a generated tool in the sandbox.

    Raises:
        ToolFailure: If the arguments do not fit or the call did not return a value.
        SandboxUnavailable: If the box cannot be started.
    """
    properties: Any = record.input_schema.get("properties", {})
    required: Any = record.input_schema.get("required", [])
    missing = [name for name in required if name not in args]
    unknown = [name for name in args if name not in properties]
    if missing or unknown:
        takes = ", ".join(properties)
        raise ToolFailure(record.name, f"It takes {takes}; missing: {missing}, unknown: {unknown}.")
    try:
        bench = BENCH.get(None)
        box = box_of(resources, record, bench.files if bench else None)
        outcome = await box.call(record.code, record.function, args)
    except ValueError as exc:
        raise ToolFailure(record.name, f"The arguments cannot be passed: {exc}") from exc
    return value_of(record.name, outcome)


def value_of(name: str, outcome: Outcome) -> JsonValue:
    """Return the value of a call.

    Raises:
        ToolFailure: If it did not return one.
    """
    match outcome.status:
        case "ok":
            return outcome.value
        case "raised":
            raise ToolFailure(name, f"{outcome.error_type}: {outcome.error}")
        case "timeout":
            raise ToolFailure(name, "It ran too long and was stopped.")
        case _:
            raise ToolFailure(name, outcome.error or outcome.status)


def offer_of(record: ToolRecord) -> Offer:
    """Return how a model is shown a tool."""
    function = {
        "name": record.name,
        "description": record.documentation or record.description,
        "parameters": record.input_schema,
    }
    own = record.model_dump(mode="json") if record.origin in ("generated", "mcp") else None
    return {
        "id": record.id,
        "name": record.name,
        "origin": record.origin,
        "function": function,
        "record": own,
    }


def signature_line(offer: Offer) -> str:
    """Return a tool as one line for models without native tool calls."""
    properties: Mapping[str, Any] = offer["function"]["parameters"].get("properties", {})
    required = offer["function"]["parameters"].get("required", list(properties))
    parts = [
        f"{name}{'' if name in required else '?'}: {schema.get('type', 'any')}"
        + (f" ({schema['description']})" if schema.get("description") else "")
        for name, schema in properties.items()
    ]
    return f"- {offer['name']}({', '.join(parts)}): {offer['function']['description']}"


async def keep_builtins(resources: Resources, namespace: str) -> None:
    """Keep the built-in tools and the host's as records of the Tool Bank, recruited like any other."""
    records = builtin_records(namespace) + host_records(resources.tools, namespace)
    known = {record.id for record in records if await resources.memory.get("tool", record.id)}
    fresh = [record for record in records if record.id not in known]
    if fresh:
        await resources.memory.put(*fresh)


def builtin_records(namespace: str) -> list[ToolRecord]:
    """Return the records of the built-in tools."""
    return [
        _ready(tool.name, tool.description, tool.input_schema, "builtin", namespace)
        for tool in BUILTINS
    ]


def host_records(tools: Sequence[BaseTool], namespace: str) -> list[ToolRecord]:
    """Return the records of the host's own tools."""
    return [
        _ready(
            tool.name, " ".join(tool.description.split())[:400], _schema_of(tool), "host", namespace
        )
        for tool in tools
    ]


def _schema_of(tool: BaseTool) -> dict[str, Any]:
    schema: Any = tool.tool_call_schema
    return dict(schema) if isinstance(schema, dict) else dict(schema.model_json_schema())


def _ready(
    name: str, description: str, schema: dict[str, Any], origin: Any, namespace: str
) -> ToolRecord:
    return ToolRecord(
        name=name,
        description=description,
        input_schema=schema,
        origin=origin,
        namespace=namespace,
        status="active",
        history=(StatusChange(status="active", reason=f"{origin} tool"),),
    )


def _tool(
    name: str, description: str, schema: dict[str, Any], use: Callable[..., Awaitable[JsonValue]]
) -> BaseTool:
    async def shown(**args: Any) -> str:
        value = await use(**args)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(text) > MAX_OBSERVATION:
            text = f"{text[:MAX_OBSERVATION]}… (cut, {len(text):,} characters in all)"
        return text

    return StructuredTool(name=name, description=description, args_schema=schema, coroutine=shown)
