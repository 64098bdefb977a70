"""A small web site on loopback, and a sandbox that only looks."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.sandbox import Isolation, Limits, Outcome, Report


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """Answers by path; an unknown path is 404, and a path in `silent` never gets an answer."""

    port: int = 0
    pages: dict[str, bytes] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Base address, by number."""
        return f"http://127.0.0.1:{self.port}"

    def add(
        self,
        path: str,
        body: bytes | str = b"",
        kind: str = "text/html",
        *,
        status: int = 200,
        **headers: str,
    ) -> None:
        """Serve `body` at `path`; `content_encoding="gzip"` becomes a header."""
        data = body.encode() if isinstance(body, str) else body
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}", "connection: close"]
        lines += [f"content-type: {kind}"] if kind else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.pages[path] = "\r\n".join(lines).encode() + b"\r\n\r\n" + data

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *rest = head.strip().split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in rest)}
            method, path, _ = first.split(" ")
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append(Asked(method, path, headers, body))
            if path in self.silent:
                await reader.read()  # until the client gives up
            else:
                missing = b"HTTP/1.1 404 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                writer.write(self.pages.get(path.partition("?")[0], missing))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """An empty site on a free port of loopback."""
    made = Site()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no key of this machine takes part."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("TAVILY_API_KEY", "BRAVE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@dataclass
class LookingSandbox:
    """Runs nothing: keeps what it was asked and gives the scripted outcome."""

    outcome: Outcome = field(default_factory=lambda: Outcome(status="ok"))
    isolation: Isolation = "bubblewrap"
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def call(
        self,
        source: str,
        function: str,
        args: Mapping[str, Any],
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        files: Mapping[str, Path] | None = None,
        fresh: bool = False,
    ) -> Outcome:
        """See `Sandbox`."""
        json.dumps(dict(args))
        self.asked.append({"source": source, "function": function, "files": files, "fresh": fresh})
        return self.outcome

    async def probe(self) -> Report:
        """See `Sandbox`."""
        return Report(isolation=self.isolation)

    async def close(self) -> None:
        """See `Sandbox`."""


@pytest.fixture
def looking() -> type[LookingSandbox]:
    """The class, to be made with the outcome that a test needs."""
    return LookingSandbox
