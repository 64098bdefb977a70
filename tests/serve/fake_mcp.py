"""A small MCP server for tests, made with the official SDK. A file says how it behaves; it is read at each request.

`python fake_mcp.py CONTROL` speaks over standard input and output, `python fake_mcp.py CONTROL PORT` over HTTP.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

sys.path.insert(0, str(Path(__file__).parent))
from fake_mcp_spec import FORECAST

CONTROL = Path(sys.argv[1])


async def behaviour() -> dict[str, Any]:
    """Return what the file says; hang or die if it says so."""
    said: dict[str, Any] = {"tools": [FORECAST], **json.loads(CONTROL.read_text())}  # noqa: ASYNC240
    if said.get("hang"):
        await anyio.sleep(600)
    if said.get("die"):
        os._exit(3)
    return said


async def list_tools(_: Any, __: Any) -> ListToolsResult:
    """List the tools of the file."""
    tools = (await behaviour())["tools"]
    return ListToolsResult(
        tools=[
            Tool(name=one["name"], description=one["description"], input_schema=one["schema"])
            for one in tools
        ]
    )


async def call_tool(_: Any, params: Any) -> CallToolResult:
    """Answer with the arguments, or as the file says."""
    said = await behaviour()
    with CONTROL.with_suffix(".calls").open("a") as log:
        log.write(f"{params.name} {json.dumps(params.arguments)}\n")
    if said.get("die_at_call"):
        os._exit(3)
    if said.get("hang_at_call"):
        await anyio.sleep(600)
    text = said.get("answer", f"{params.arguments['town']}: 21 degrees")
    return CallToolResult(
        content=[TextContent(type="text", text=text)], is_error=said.get("error", False)
    )


async def main() -> None:
    """Serve."""
    server = Server("fake", on_list_tools=list_tools, on_call_tool=call_tool)
    if len(sys.argv) > 2:
        config = uvicorn.Config(server.streamable_http_app(), port=int(sys.argv[2]), log_level=40)
        await uvicorn.Server(config).serve()
        return
    sys.stderr.write("\x1b]0;owned\x07 hello\n")
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
