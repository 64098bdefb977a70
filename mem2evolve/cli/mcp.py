"""`mem2evolve mcp`: the kept tools for any MCP client."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import click

from ..errors import ConfigError
from ._approval import Answers
from ._common import wait
from ._text import typed

if TYPE_CHECKING:
    from ..graph.context import Context
    from ..nodes.desk import Resources
    from ..serve.mcp_server.server import Front
    from ..serve.mcp_server.solving import Solver

PORT: Final = 8765


class _Nobody(Answers):
    """Leaves every question open, also on a terminal: the client is told how a person answers."""

    async def answer(self, question: dict[str, Any]) -> Any:  # noqa: ARG002 - whatever is asked
        """Give no answer now."""
        return None


@click.group()
def mcp() -> None:
    """The kept tools for MCP clients."""


@mcp.command()
@click.option(
    "--http", is_flag=True, help="Serve streamable HTTP instead of standard input and output."
)
@click.option("--host", default="127.0.0.1", help="Another address needs MEM2EVOLVE_MCP_TOKEN.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, help=f"{PORT} by default; 0 takes any."
)
@click.option(
    "--allow-host", "hosts", multiple=True, help="A further name that clients use for this machine."
)
@click.option("--namespace", default="default", help="Whose tools are offered.")
@click.option("--no-solve", is_flag=True, help="Leave the tool solve_task out.")
@click.option("--model", help="Of solve_task, as in openai:gpt-5 (MEM2EVOLVE_MODEL).")
@click.option("--no-web", is_flag=True, help="solve_task searches nothing on the web.")
@click.option(
    "--ask",
    type=click.Choice(["never", "risky", "always"]),
    default="risky",
    help="When solve_task waits for a person before a tool is kept.",
)
@click.option(
    "--files",
    "folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder whose files may be given to solve_task; none without it.",
)
def serve(**options: Any) -> None:
    """Serve the kept tools, and solve_task, to MCP clients.

    Standard output carries the protocol only; what there is to say goes to standard error. Ctrl-C stops it.
    """
    if wait(_serve(options)):
        return
    sys.stderr.flush()
    os._exit(0)  # the client reads nothing any more, and a write to it would never end


async def _serve(options: dict[str, Any]) -> bool:
    """Serve until told to stop; return whether all has ended."""
    _need_sdk()
    from ..api import open_resources  # noqa: PLC0415 - `--help` stays quick
    from ..graph.context import Context  # noqa: PLC0415
    from ..serve.mcp_server.server import Front  # noqa: PLC0415
    from ..settings import Settings  # noqa: PLC0415

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s"
    )
    context = Context(
        namespace=typed(options["namespace"]), web=not options["no_web"], approve=options["ask"]
    )
    stop = _stopped_by_signals()
    # A server that reloads would start anew at each file: `mem2evolve tools sync` writes them.
    resources = open_resources(Settings.from_env(model=options["model"]), write_files=False)
    try:
        async with _solver(resources, context, options) as solver:
            return await _carry(Front(resources, context.namespace, solver), options, stop)
    finally:
        await resources.close()


async def _carry(front: "Front", options: dict[str, Any], stop: asyncio.Event) -> bool:
    from ..serve.mcp_server.http import PATH, TOKEN, Door, serve_http  # noqa: PLC0415 - as above
    from ..serve.mcp_server.stdio import serve_stdio  # noqa: PLC0415

    if not options["http"]:
        async with front.watching() as count:
            click.echo(f"serving {count} tools on standard input and output", err=True)
            return await serve_stdio(front, stop)
    door = Door(
        host=options["host"],
        port=options["port"],
        token=os.environ.get(TOKEN, ""),
        hosts=tuple(options["hosts"]),
    )
    with door.listen() as sock:
        async with front.watching() as count:
            shown = f"[{door.host}]" if ":" in door.host else door.host
            where = f"http://{shown}:{sock.getsockname()[1]}{PATH}"
            guarded = " with the token" if door.token else ""
            click.echo(f"serving {count} tools at {where}{guarded}; Ctrl-C stops", err=True)
            await serve_http(front, door, sock, stop)
    return True


@asynccontextmanager
async def _solver(
    resources: "Resources", context: "Context", options: dict[str, Any]
) -> "AsyncIterator[Solver | None]":
    """Open what runs of `solve_task` are kept in."""
    if options["no_solve"]:
        yield None
        return
    from ..nodes.retrieve_experience import check_files, check_task  # noqa: PLC0415 - as above
    from ..serve.mcp_server.solving import Solver, Tell  # noqa: PLC0415
    from ._checkpoints import Unfinished  # noqa: PLC0415
    from ._drive import End, open_driver  # noqa: PLC0415

    async with open_driver(resources, _Nobody(), lambda _: None) as driver:

        async def solve(task: str, files: Sequence[str], tell: Tell) -> End:
            check_files(list(files))
            run = Unfinished(
                run_id=str(uuid4()),
                given={"task": check_task(task), "files": list(files)},
                context=asdict(context),
                model=resources.settings.model,
            )
            return await replace(driver, tell=tell).start(run, context)

        yield Solver(solve, options["folders"])


def _need_sdk() -> None:
    try:
        import mcp as sdk  # noqa: PLC0415
    except ImportError:
        sdk = None  # type: ignore[assignment]
    if not hasattr(sdk, "Client"):  # of 2.x
        raise ConfigError(
            "The MCP SDK 2.x is not installed."
            if sdk is None
            else "The MCP SDK here is older than 2.x.",
            hint="Install it: pip install 'mem2evolve[mcp]'. Beside packages that need mcp 1.x, use an environment "
            "of its own.",
        )


def _stopped_by_signals() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop
