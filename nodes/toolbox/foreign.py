"""Tools of other MCP servers: the connections to them, and calls over them.

Connections live on a loop of their own, in a thread: runs come and go on several loops, and a server's process
should outlive one of them. Nothing is started before the first use. What servers say is foreign text.
"""

import asyncio
import contextlib
import importlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import JsonValue

from ...errors import ConfigError, ToolFailure
from ...servers import McpServer
from .foreign_text import Listed, listed, one_line, value_of

T = TypeVar("T")

MAX_TOOLS: Final = 200
"""Of one server; the rest is passed over."""
MAX_PAGES: Final = 20
DOWN: Final = "The MCP server did not answer"
"""Begins the reason of a call that failed by no fault of the tool: nothing is learned from it."""
CLOSE_S: Final = 10.0


class ServerDownError(Exception):
    """The server could not be started, does not answer, or has ended; says why."""


class Foreign:
    """The MCP servers of the settings. One for the life of a process."""

    def __init__(self, servers: Sequence[McpServer]) -> None:
        self.servers = {one.name: one for one in servers}
        self.usable: dict[str, bool] = {}
        """Ids of the records whose server answered when it was last asked for its list, in this process."""
        self._links = {one.name: _Link(one) for one in servers}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    async def list(self, server: str) -> list[Listed]:
        """Return what a server offers now.

        Raises:
            ServerDownError: If it does not answer in time.
        """
        return await self._there(self._links[server].ask(_list))

    async def call(self, server: str, tool: str, args: Mapping[str, Any]) -> JsonValue:
        """Call a tool, and return its result: structured if it is, else its text.

        Raises:
            ToolFailure: If it failed, or the server did not answer.
        """
        link = self._links.get(server)
        if link is None:
            raise ToolFailure(tool, f"{DOWN}: {server!r} is not in the settings any more.")

        async def work(client: Any) -> Any:
            return await client.call_tool(tool, dict(args))

        try:
            return value_of(tool, await self._there(link.ask(work)))
        except ServerDownError as exc:
            raise ToolFailure(tool, f"{DOWN}: {exc}") from exc

    async def close(self) -> None:
        """End the connections, and the servers that were started. Idempotent."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None:
            return
        ends = [asyncio.run_coroutine_threadsafe(one.close(), loop) for one in self._links.values()]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(
                asyncio.gather(*map(asyncio.wrap_future, ends), return_exceptions=True), CLOSE_S
            )
        loop.call_soon_threadsafe(loop.stop)

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        await asyncio.to_thread(_need_sdk)
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_turn, args=(self._loop,), name="mem2evolve-mcp", daemon=True
                ).start()
            loop = self._loop
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


class _Link:
    """The connection to one server, kept by a task that opens and closes it."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._keeper: asyncio.Task[None] | None = None
        self._opening: asyncio.Future[Any] | None = None
        self._closing: asyncio.Event | None = None

    async def ask(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do something with the client, in time; a connection that fails is closed.

        Raises:
            ServerDownError: If it could not be done.
        """
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - an extra, and slow to import

        try:
            async with asyncio.timeout(self._server.timeout):
                return await work(await self._client())
        except TimeoutError as exc:
            await self.close()
            raise ServerDownError(f"nothing came within {self._server.timeout:g} s") from exc
        except (MCPError, OSError, RuntimeError, ValueError, ExceptionGroup) as exc:
            await self.close()
            raise ServerDownError(one_line(_first(exc))) from exc

    async def close(self) -> None:
        """Close the connection; the next use opens it anew."""
        keeper, self._keeper = self._keeper, None
        if keeper is None or keeper.done():
            return
        if self._closing is not None:
            self._closing.set()
        done, _ = await asyncio.wait({keeper}, timeout=CLOSE_S / 3)
        if not done:
            keeper.cancel()
            await asyncio.wait({keeper}, timeout=CLOSE_S / 3)

    async def _client(self) -> Any:
        if self._keeper is None or self._keeper.done() or self._opening is None:
            self._closing = asyncio.Event()
            self._opening = asyncio.get_running_loop().create_future()
            self._keeper = asyncio.create_task(self._keep(self._opening, self._closing))
        return await asyncio.shield(self._opening)

    async def _keep(self, opening: "asyncio.Future[Any]", closing: asyncio.Event) -> None:
        try:
            async with self._connect() as client:
                opening.set_result(client)
                await closing.wait()
        except BaseException as exc:
            if not opening.done():
                opening.set_exception(ServerDownError(one_line(_first(exc))))
                opening.exception()  # it may be that nobody waits any more
            if not isinstance(exc, Exception):
                raise

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[Any]:
        import httpx2  # noqa: PLC0415 - as above
        from mcp import Client, StdioServerParameters  # noqa: PLC0415
        from mcp.client.stdio import stdio_client  # noqa: PLC0415
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        one = self._server
        if one.command:
            program = StdioServerParameters(
                command=one.command, args=list(one.args), env=dict(one.env) or None
            )
            # What it prints is not for a terminal.
            with open(os.devnull, "w", encoding="utf-8") as unread:  # noqa: ASYNC230, PTH123 - never waits
                async with Client(stdio_client(program, errlog=unread), cache=None) as client:
                    yield client
            return
        async with httpx2.AsyncClient(headers=dict(one.headers), timeout=one.timeout) as wire:
            transport = streamable_http_client(one.url, http_client=wire)
            async with Client(transport, cache=None) as client:
                yield client


async def _list(client: Any) -> list[Listed]:
    found: list[Listed] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += [one for tool in page.tools if (one := listed(tool)) is not None]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:MAX_TOOLS]


def _first(exc: BaseException) -> str:
    """Return the words of the first of a group of exceptions."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__


def _need_sdk() -> None:
    try:
        importlib.import_module("mcp.client.client")
        importlib.import_module("mcp.client.streamable_http")
    except ImportError as exc:
        raise ConfigError(
            "MCP servers are named in the settings, and the MCP SDK 2.x is not installed.",
            hint="Install it: pip install 'mem2evolve[mcp]'.",
        ) from exc
