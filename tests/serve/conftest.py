"""A home, the MCP server in a process of its own on it, and the official SDK as its client."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from mem2evolve.api import open_resources
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.records import Case, ToolRecord
from mem2evolve.settings import Settings

from ..graph.conftest import TODAY, new_home

MODES: Final = ("auto", "legacy")
"""How clients speak: as the protocol is since 2026-07, and with the handshake of before."""
PATIENCE_S: Final = 40.0
DOUBLE: Final = "def double(n: int) -> int:\n    return 2 * n\n"
SLEEPS: Final = "import time\n\n\ndef sleeps(n: int) -> int:\n    time.sleep(n)\n    return n\n"


def made(name: str, code: str, expected: Any = 2, **changed: Any) -> ToolRecord:
    """Return a tool of one whole number as a run before has kept it."""
    parts: dict[str, Any] = {
        "name": name,
        "description": f"Does {name}.",
        "input_schema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        },
        "output_schema": {"type": "integer"},
        "code": code,
        "function": name,
        "cases": (Case(args={"n": 1}, expected=expected, origin="person"),),
        "environment": TODAY,
        "status": "active",
    }
    return ToolRecord(**{**parts, **changed})


def another(name: str) -> ToolRecord:
    """Return a further tool, which doubles."""
    return made(name, DOUBLE.replace("double", name))


class Home:
    """A home that a process of ours owns, and servers on it.

    Attributes:
        env: The whole environment of the servers; change it as needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder.parent),
            "MEM2EVOLVE_HOME": str(folder),
            "MEM2EVOLVE_CACHE": str(folder.parent / "cache"),
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
            "OPENAI_API_KEY": "test",
            "NO_PROXY": "127.0.0.1",
        }
        self.resources = open_resources(Settings(home=folder))

    @property
    def memory(self) -> Memory:
        """Its memory, in this process."""
        return self.resources.memory

    def command(self, *words: str) -> list[str]:
        """Return the command line of a server."""
        return [sys.executable, "-m", "mem2evolve.cli", "mcp", "serve", *words]

    def stdio(self, *words: str, mode: str = "auto", **options: Any) -> Client:
        """Return a client that starts a server of its own."""
        program, *args = self.command(*words)
        server = StdioServerParameters(command=program, args=args, env=self.env)
        return Client(server, mode=mode, **options)

    @contextlib.contextmanager
    def popen(self, *words: str, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
        """Start a server whose streams are ours."""
        process = subprocess.Popen(  # noqa: S603 - our own program
            self.command(*words), env=self.env, stderr=subprocess.PIPE, **options
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()

    @contextlib.contextmanager
    def http(self, *words: str) -> Iterator["Served"]:
        """Start a server on a free port."""
        with self.popen("--http", "--port", "0", *words, stdout=subprocess.DEVNULL) as process:
            assert process.stderr is not None
            line = process.stderr.readline().decode()
            assert line.startswith("serving"), line + process.stderr.read().decode()
            where = next(word for word in line.split() if word.startswith("http"))
            yield Served(where.rstrip(";"), process)


class Served:
    """A server over HTTP."""

    def __init__(self, url: str, process: "subprocess.Popen[bytes]") -> None:
        self.url = url
        self.process = process

    @contextlib.asynccontextmanager
    async def client(
        self, mode: str = "auto", headers: dict[str, str] | None = None, **options: Any
    ) -> AsyncIterator[Client]:
        """Connect."""
        async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE_S) as wire:
            transport = streamable_http_client(self.url, http_client=wire)
            async with Client(transport, mode=mode, **options) as client:
                yield client

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Home]:
    """A home with a tool that doubles and one that sleeps."""
    with new_home() as folder:
        opened = Home(folder)
        await opened.memory.put(made("double", DOUBLE), made("sleeps", SLEEPS, expected=1))
        yield opened
        await opened.resources.close()


def boxes(below: int) -> list[int]:
    """Return the processes of boxes that a process has started, however far below it."""
    parents = dict(_processes())
    found = []
    for pid in parents:
        above = pid
        while above in parents and above != below:
            above = parents[above]
        if above == below and pid != below and b"bwrap" in _command(pid):
            found.append(pid)
    return found


def server_below(pid: int) -> int:
    """Return the MCP server that a process has started."""
    [found] = [
        one for one, parent in _processes() if parent == pid and b"mcp\0serve" in _command(one)
    ]
    return found


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _processes() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                yield (
                    int(folder.name),
                    int((folder / "stat").read_text().rpartition(")")[2].split()[1]),
                )


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def until(true: Any, what: str = "it") -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"{what} did not come about"
        await asyncio.sleep(0.02)


async def names(client: Client) -> list[str]:
    """Return the names of the tools that are listed."""
    return [tool.name for tool in (await client.list_tools()).tools]


def text(result: Any) -> str:
    """Return the text of a result."""
    return "\n".join(block.text for block in result.content)


def request(number: int, method: str, **params: Any) -> bytes:
    """Return a request as one line."""
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(body).encode() + b"\n"


HELLO: Final = (
    request(
        1,
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
    )
    + json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    + b"\n"
)
"""The handshake of a client that types its own lines."""

SLEEP: Final[dict[str, Any]] = {"name": "sleeps", "arguments": {"n": 9}}
"""A call that one can break off."""
TOKEN: Final[dict[str, Any]] = {"progressToken": 7}
CALLED: Final = "sleeps is called in its box"


async def sleeping(client: Client) -> "asyncio.Task[Any]":
    """Begin a call that sleeps, in a box that is there already; return it once the tool is called."""
    begun = asyncio.Event()

    async def progress(_: float, __: float | None, message: str | None) -> None:
        if message == CALLED:
            begun.set()

    await client.call_tool(
        "sleeps", {"n": 0}
    )  # the first call looks whether boxes hold, in one of its own
    call = asyncio.create_task(client.call_tool("sleeps", {"n": 9}, progress_callback=progress))
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    return call
