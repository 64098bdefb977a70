"""MCP over streamable HTTP: on loopback, or elsewhere with a token."""

import asyncio
import contextlib
import hmac
import ipaddress
import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import ConfigError
from .server import Front

PATH: Final = "/mcp"
TOKEN: Final = "MEM2EVOLVE_MCP_TOKEN"  # noqa: S105 - the name of the variable
MIN_TOKEN: Final = 16
MAX_SESSIONS: Final = 200
END_S: Final = 2
"""For open streams to end; then they are cut."""
LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, kw_only=True)
class Door:
    """Where clients come in, and who may.

    Attributes:
        hosts: Further names by which clients reach this address.
    """

    host: str
    port: int
    token: str = ""
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an open door to other machines."""
        if self.token and (len(self.token) < MIN_TOKEN or not self.token.isascii()):
            raise ConfigError(
                f"{TOKEN} is not a token: it needs {MIN_TOKEN} ASCII characters or more.",
                hint='Make one: python3 -c "import secrets; print(secrets.token_urlsafe(32))".',
            )
        if not self.token and not _loopback(self.host):
            raise ConfigError(
                f"{self.host!r} can be reached from other machines, and there is no token.",
                hint=f"Set {TOKEN} to a secret that clients send as `Authorization: Bearer …`, "
                "or leave --host out.",
            )

    def listen(self) -> socket.socket:
        """Return a socket that listens there.

        Raises:
            ConfigError: If the address cannot be had.
        """
        try:
            family, kind, _, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            sock = socket.socket(family, kind)
        except OSError as exc:
            raise self._refusal(exc) from exc
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(128)
        except OSError as exc:
            sock.close()
            raise self._refusal(exc) from exc
        return sock

    def _refusal(self, exc: OSError) -> ConfigError:
        return ConfigError(
            f"Port {self.port} of {self.host} cannot be had: {exc.strerror or exc}.",
            hint="Stop what listens there, or give another with --port (0 takes any that is free).",
        )


async def serve_http(front: Front, door: Door, sock: socket.socket, stop: asyncio.Event) -> None:
    """Serve clients until `stop` is set."""
    config = uvicorn.Config(
        _app(front, door, sock.getsockname()[1]),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=END_S,
    )
    server = _Uvicorn(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    for name in ("uvicorn.error", "mcp"):  # streams that are cut at the end are no faults
        logging.getLogger(name).setLevel(logging.CRITICAL)
    server.should_exit = True
    await serving


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the command, which has more to close."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Catch none."""
        yield


def _app(front: Front, door: Door, port: int) -> ASGIApp:
    names = [*LOCAL, door.host if ":" not in door.host else f"[{door.host}]", *door.hosts]
    app = front.server.streamable_http_app(
        streamable_http_path=PATH,
        max_sessions=MAX_SESSIONS,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=_with_ports(names, port),
            allowed_origins=[
                f"{scheme}://{one}"
                for scheme in ("http", "https")
                for one in _with_ports(names, port)
            ],
        ),
    )
    return _Guard(app, door.token) if door.token else app


def _with_ports(names: Sequence[str], port: int) -> list[str]:
    """Names as they stand in a Host header: with our port, or alone behind a proxy on the usual one."""
    return [text for name in dict.fromkeys(names) for text in (f"{name}:{port}", name)]


class _Guard:
    """Lets a request in whose Bearer token is ours."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._right = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            said = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(said) != 1 or not hmac.compare_digest(said[0], self._right):
                refusal = PlainTextResponse(
                    "A token is needed: Authorization: Bearer …\n",
                    status_code=401,
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
