"""MCP over streamable HTTP: who may come in, what is told, and what is left when a client goes."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from langgraph_sdk import get_client
from mcp.types import ToolListChangedNotification

from ..cli.conftest import Cli, cli
from ..graph.kelvin import TASK, TOOL
from ..graph.test_dev_server import dev_server, run_task
from .conftest import (
    CALLED,
    HELLO,
    MODES,
    PATIENCE_S,
    SLEEP,
    TOKEN,
    Home,
    alive,
    another,
    boxes,
    names,
    request,
    sleeping,
    text,
    until,
)

__all__ = ["cli"]

SECRET = "a-secret-of-a-test-0123456789"  # noqa: S105 - of a test
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
NEW = {"MCP-Protocol-Version": "2026-07-28"}


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_made_meanwhile_is_told_and_called(place: Home, mode: str) -> None:
    """Over HTTP too the list changes without a restart."""
    changed, listening = asyncio.Event(), asyncio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    async def listen(client: Any) -> None:
        async with client.listen(tools_list_changed=True) as events:
            listening.set()
            async for _ in events:
                changed.set()

    with place.http() as served:
        async with served.client(mode, message_handler=heard) as client:
            assert set(await names(client)) == {"solve_task", "double", "sleeps"}
            watch = asyncio.create_task(listen(client)) if mode == "auto" else None
            if watch:
                await asyncio.wait_for(listening.wait(), PATIENCE_S)
            await place.memory.put(another("trebled"))
            await asyncio.wait_for(changed.wait(), PATIENCE_S)
            assert "trebled" in await names(client)
            assert text(await client.call_tool("trebled", {"n": 4})) == "8"
            if watch:
                watch.cancel()
                await asyncio.wait({watch})
        assert served.stop() == 0


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_goes_in_the_middle_of_a_call_leaves_no_box(
    place: Home, mode: str
) -> None:
    """It drops its connection, without a word: the box is killed, and the server goes on."""
    with place.http("--no-solve") as served:
        headers = dict(ACCEPT)
        params: dict[str, Any] = {**SLEEP, "_meta": dict(TOKEN)}
        async with served.client() as client:
            await client.call_tool("sleeps", {"n": 0})
        running = boxes(served.process.pid)
        assert running
        async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE_S) as wire:
            if mode == "legacy":
                hello, ready = HELLO.splitlines()
                reply = await wire.post(served.url, content=hello, headers=headers)
                headers["Mcp-Session-Id"] = reply.headers["mcp-session-id"]
                await wire.post(served.url, content=ready, headers=headers)
            else:
                headers |= NEW | {"Mcp-Method": "tools/call", "Mcp-Name": "sleeps"}
                params["_meta"] |= {
                    "io.modelcontextprotocol/protocolVersion": NEW["MCP-Protocol-Version"],
                    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            body = request(2, "tools/call", **params)
            async with wire.stream("POST", served.url, content=body, headers=headers) as reply:
                lines = reply.aiter_lines()
                told = [line async for line in _until_called(lines)]
        assert CALLED in told[-1]
        await until(lambda: not any(map(alive, running)), "the end of the box")
        async with served.client() as client:
            assert text(await client.call_tool("double", {"n": 2})) == "4"


async def _until_called(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield what a server says, up to the word that the tool is called."""
    async for line in lines:
        yield line
        if CALLED in line:
            return


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_a_server_that_is_stopped_leaves_no_box(place: Home, how: int) -> None:
    """Even while a call runs and a client listens."""
    with place.http("--no-solve") as served:
        async with served.client("legacy") as client:
            call = await sleeping(client)
            running = boxes(served.process.pid)
            assert running
            code = await asyncio.to_thread(served.stop, how)
            await until(lambda: not any(map(alive, running)), "the end of the box")
            call.cancel()
            await asyncio.wait({call})
        assert served.process.stderr is not None
        said = served.process.stderr.read().decode()

    assert code == 0
    assert "Traceback" not in said, said


async def test_other_sites_and_other_names_are_refused(place: Home) -> None:
    """A page in a browser cannot reach the server, not by a name that it points here either."""
    with place.http("--no-solve") as served:
        async with httpx2.AsyncClient(trust_env=False) as wire:

            async def said(**headers: str) -> int:
                reply = await wire.post(
                    served.url, content=HELLO.splitlines()[0], headers=ACCEPT | headers
                )
                return reply.status_code

            assert await said() == 200
            assert await said(Host="evil.example:80") == 421
            assert await said(Origin="http://evil.example") == 403
            assert await said(Host="127.0.0.1.evil.example") == 421


async def test_a_token_is_asked_for_once_there_is_one(place: Home) -> None:
    """Nothing is told without it, on loopback either."""
    place.env["MEM2EVOLVE_MCP_TOKEN"] = SECRET
    with place.http("--no-solve") as served:
        async with httpx2.AsyncClient(trust_env=False) as wire:
            for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {SECRET}"}):
                reply = await wire.post(served.url, content=HELLO, headers=ACCEPT | wrong)
                assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
        async with served.client(headers={"Authorization": f"Bearer {SECRET}"}) as client:
            assert text(await client.call_tool("double", {"n": 2})) == "4"


async def test_another_address_with_a_token(place: Home) -> None:
    """Clients name it as it was allowed, or not at all."""
    place.env["MEM2EVOLVE_MCP_TOKEN"] = SECRET
    with place.http("--no-solve", "--host", "0.0.0.0", "--allow-host", "here.example") as served:  # noqa: S104
        headers = ACCEPT | {"Authorization": f"Bearer {SECRET}"}
        url = served.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        async with httpx2.AsyncClient(trust_env=False, headers=headers) as wire:
            hello = HELLO.splitlines()[0]
            allowed = await wire.post(url, content=hello, headers={"Host": "here.example"})
            other = await wire.post(url, content=hello, headers={"Host": "there.example"})

    assert (allowed.status_code, other.status_code) == (200, 421)


@pytest.mark.parametrize(
    ("token", "words"),
    [("", "MEM2EVOLVE_MCP_TOKEN"), ("short", "16 ASCII characters"), ("é" * 20, "16 ASCII")],
)
def test_an_open_door_is_refused(cli: Cli, token: str, words: str) -> None:
    """Before anything listens."""
    cli.env["MEM2EVOLVE_MCP_TOKEN"] = token

    cli("mcp", "serve", "--http", "--no-solve", "--host", "0.0.0.0").refused(words)  # noqa: S104


def test_a_taken_port_is_said(cli: Cli) -> None:
    """With what to do."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])

        cli("mcp", "serve", "--http", "--no-solve", "--port", port).refused(port, "--port")


def test_a_host_that_is_none_is_said(cli: Cli) -> None:
    """As a refusal, not as a fault."""
    cli.env["MEM2EVOLVE_MCP_TOKEN"] = SECRET

    cli("mcp", "serve", "--http", "--no-solve", "--host", "no such host").refused("--port")


async def test_a_tool_made_by_the_dev_server_is_called_while_it_runs(place: Home) -> None:
    """`langgraph dev` owns the home; MCP serves what it makes, made before and while it serves."""
    (folder := place.folder.parent / "dev").mkdir()
    with dev_server(folder) as dev:
        place.env["MEM2EVOLVE_HOME"] = str(dev.home)
        async with get_client(url=dev.url) as studio, place.stdio() as before:
            assert await names(before) == ["solve_task"]
            await run_task(studio, {"task": TASK})
            with place.http() as served:
                async with served.client() as client:
                    result = await client.call_tool(TOOL, {"celsius": 20})
            again = await before.call_tool(TOOL, {"celsius": 0})
        assert dev.starts == 1, dev.log

    assert (text(result), again.structured_content) == ("293.15", {"result": 273.15})


def test_without_the_sdk_it_says_what_to_install(cli: Cli) -> None:
    """The SDK is an extra."""
    blocked = cli.folder / "blocked"
    (blocked / "mcp").mkdir(parents=True)
    (blocked / "mcp" / "__init__.py").write_text("raise ImportError('not here')")
    cli.env["PYTHONPATH"] = str(blocked)

    cli("mcp", "serve").refused("not installed", "mem2evolve[mcp]")
