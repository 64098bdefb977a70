"""`langchain-mcp-adapters`, which needs mcp 1.x, as a client in an environment of its own."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import uv

from .conftest import Home

ADAPTERS = "langchain-mcp-adapters==0.3.2"
CLIENT = """
import asyncio, sys
from langchain_mcp_adapters.client import MultiServerMCPClient

async def main():
    client = MultiServerMCPClient({"m": {"transport": "streamable_http", "url": sys.argv[1]}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    print(*sorted(tools))
    print(await tools["double"].ainvoke({"n": 21}))

asyncio.run(main())
"""


def run(*command: str) -> str:
    """Run to the end; return what it printed."""
    env = {**os.environ, "NO_PROXY": "127.0.0.1"}
    return subprocess.run(  # noqa: S603 - our own command line
        command, env=env, capture_output=True, text=True, check=True, timeout=300
    ).stdout


@pytest.mark.online
async def test_adapters_of_another_environment_call_our_tools(place: Home, tmp_path: Path) -> None:
    """They list and call over HTTP, though they could not be installed beside our SDK."""
    python = str(tmp_path / "venv" / "bin" / "python")
    finder = uv.find_uv_bin()
    run(finder, "venv", "-q", "--python", sys.executable, str(tmp_path / "venv"))
    run(finder, "pip", "install", "-q", "--python", python, ADAPTERS)
    with place.http("--no-solve") as served:
        said = await asyncio.to_thread(run, python, "-c", CLIENT, served.url)

    assert said.splitlines()[0] == "double sleeps"
    assert "42" in said
