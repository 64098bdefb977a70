"""The MCP server itself, whatever carries it: lists, calls, and tells when the list has changed."""

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
)

from ...errors import InputError, Mem2EvolveError, ToolFailure
from ...nodes.desk import Resources
from ...nodes.toolbox.registry import run_record
from .attend import Progress, attend
from .bank import Bank
from .catalogue import SOLVE_TASK, Entry, failed, faults_of, result_of
from .solving import Solver

NOTIFY_S: Final = 2.0
"""A client that reads nothing holds up the others no longer than this."""
INSTRUCTIONS: Final = (
    "These tools were made and tested by an agent, and run in a sandbox. Descriptions were written by models. "
    "The list changes when the agent keeps a tool."
)

_log = logging.getLogger(__name__)
_Context = ServerRequestContext[Any, Any]


class _Server(Server[Any]):
    """Says at every handshake that the list of tools may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the SDK's options, with `tools.listChanged`."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class Front:
    """What MCP clients see of a home.

    Args:
        resources: Memory and sandbox; the caller closes them.
        namespace: Whose tools are offered.
        solver: Behind `solve_task`; it is left out without one.
    """

    def __init__(self, resources: Resources, namespace: str, solver: Solver | None = None) -> None:
        self._resources = resources
        self._bank = Bank(resources, namespace)
        self._solver = solver
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self._clients: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.server = _Server(
            "mem2evolve",
            version=version("mem2evolve"),
            title="Mem²Evolve",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=self._listening,
        )
        self.server.add_notification_handler(
            "notifications/initialized", NotificationParams, self._met
        )

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[int]:
        """Watch the bank meanwhile; yields how many of its tools are offered now.

        Raises:
            StoreError: If the memory cannot be read.
        """
        await self._bank.mark()
        watch = asyncio.create_task(self._bank.watch(self._changed))
        try:
            yield len(await self._bank.entries())
        finally:
            watch.cancel()
            await asyncio.wait({watch})
            self._listening.close()
            await self._bank.close()

    async def _met(self, ctx: _Context, _: NotificationParams) -> None:
        # Clients of before 2026-07 hear of changes on their connection, which the SDK shows nowhere else.
        self._clients.add(ctx.session._connection)  # noqa: SLF001

    async def _changed(self) -> None:
        await self._bus.publish(ToolsListChanged())
        for client in tuple(self._clients):
            with anyio.move_on_after(NOTIFY_S):
                await client.send_tool_list_changed()

    async def _list(self, _: _Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        try:
            entries = await self._bank.entries()
        except Mem2EvolveError as exc:
            raise MCPError(INTERNAL_ERROR, f"{exc} {exc.hint}") from exc
        own = [self._solver.tool] if self._solver else []
        return ListToolsResult(tools=[*own, *(one.tool for one in entries.values())])

    async def _call(self, ctx: _Context, params: CallToolRequestParams) -> CallToolResult:
        name, args = params.name, params.arguments or {}
        try:
            if self._solver is not None and name == SOLVE_TASK:
                return await self._solver.call(ctx, args)
            entry = await self._bank.find(name)
            if entry is not None:
                return await self._use(ctx, entry, args)
        except (Mem2EvolveError, InputError) as exc:
            return failed(f"{exc} {exc.hint}")
        raise MCPError(
            INVALID_PARAMS, f"There is no tool {name!r} now. tools/list names those there are."
        )

    async def _use(self, ctx: _Context, entry: Entry, args: dict[str, Any]) -> CallToolResult:
        if faults := faults_of(entry.tool.input_schema, args):
            return failed(f"The arguments do not fit: {'; '.join(faults)}")
        progress = Progress()
        progress.tell(f"{entry.record.name} is called in its box")
        try:
            value = await attend(ctx, run_record(entry.record, args, self._resources), progress)
        except ToolFailure as exc:
            return failed(exc.reason)
        return result_of(entry, value)
