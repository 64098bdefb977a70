"""Fetching for a tool that has permission: from hosts on its list, by this program, text only."""

import itertools
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urljoin, urlsplit

from .addresses import is_public, resolve

if TYPE_CHECKING:
    import httpx

TIMEOUT_S: Final = 10.0
"""For one fetch, with its redirects."""
IDLE_S: Final = 3_600.0
"""Longer than any call."""
MAX_BYTES: Final = 1 << 20
MAX_FETCHES: Final = 8
"""In one call of a tool."""
MAX_REDIRECTS: Final = 5
MAX_URL_BYTES: Final = 4_000
LENGTH_BYTES: Final = 8
PORTS: Final = {"http": 80, "https": 443}
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
OK: Final = range(200, 300)
HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "mem2evolve (a tool's fetch)"}

AddressCheck = Callable[[str, int], list[str]]


class _RefusedError(Exception):
    """Told to the tool."""


def public_addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host if all are public, else none. Blocks.

    Raises:
        OSError: If it cannot be resolved.
        ValueError: If it is no host name.
    """
    found = resolve(host, port)
    return found if all(map(is_public, found)) else []


@dataclass(frozen=True, kw_only=True)
class Fetcher:
    """What one tool may fetch."""

    hosts: tuple[str, ...]
    """Each as `HOST`, for the usual ports, or `HOST:PORT`; lower case."""
    check: AddressCheck = public_addresses
    """Returns the addresses that may be connected to."""
    timeout_s: float = TIMEOUT_S

    def attend(self, channel: socket.socket) -> None:
        """Answer what one call asks over its socket, on a thread of its own, until it is shut down."""
        own = channel.dup()
        own.settimeout(IDLE_S)  # never to `None`: both share one flag, and ours is set
        threading.Thread(
            target=self._serve, args=(own,), name="mem2evolve-fetch", daemon=True
        ).start()

    def _serve(self, channel: socket.socket) -> None:
        with channel:
            for turn in itertools.count():
                try:
                    size = int.from_bytes(_read(channel, LENGTH_BYTES), "big")
                    if size > MAX_URL_BYTES:
                        channel.shutdown(socket.SHUT_RDWR)
                        return
                    url = _read(channel, size).decode("utf-8", "replace")
                    body = json.dumps(self.answer(url, turn)).encode()
                    channel.sendall(len(body).to_bytes(LENGTH_BYTES, "big") + body)
                except OSError:  # the call is over
                    return

    def answer(self, url: str, turn: int = 0) -> dict[str, str]:
        """Return `{"text", "error"}`, one of them empty; `turn` fetches came before. Blocks."""
        import httpx  # noqa: PLC0415 - most tools fetch nothing

        if turn >= MAX_FETCHES:
            return {"text": "", "error": f"A call may fetch {MAX_FETCHES} times."}
        try:
            return {"text": self._get(url), "error": ""}
        except _RefusedError as exc:
            error = str(exc)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as exc:
            error = f"{url!r:.200} gave no answer ({type(exc).__name__})."
        return {"text": "", "error": error}

    def _get(self, url: str) -> str:
        import httpx  # noqa: PLC0415

        deadline = time.monotonic() + self.timeout_s
        # Without the environment's proxies: the connection is to the address that was checked.
        client = httpx.Client(
            verify=ssl.create_default_context(), trust_env=False, timeout=self.timeout_s
        )
        with client:
            for _ in range(MAX_REDIRECTS + 1):
                request = self._request(client, url)
                response = client.send(request, stream=True)
                try:
                    if response.status_code not in REDIRECTS:
                        return _text(response, url, deadline)
                    url = urljoin(url, response.headers.get("location", ""))
                finally:
                    response.close()
                client.cookies.clear()  # they are kept by address, and that is not the site
                if time.monotonic() > deadline:
                    raise _late(url)
        raise _RefusedError(f"{url!r:.200} redirects more than {MAX_REDIRECTS} times.")

    def _request(self, client: "httpx.Client", url: str) -> "httpx.Request":
        parts, host, port = self._parts(url)
        addresses = self.check(host, port)
        if not addresses:
            raise _RefusedError(f"{host!r:.200} is not on the public web but in a private network.")
        target = client.build_request("GET", url).url
        return client.build_request(
            "GET",
            target.copy_with(host=addresses[0]),
            headers={**HEADERS, "Host": target.netloc.decode("ascii")},
            extensions={"sni_hostname": target.raw_host.decode("ascii")}
            if parts.scheme == "https"
            else {},
        )

    def _parts(self, url: str) -> tuple[SplitResult, str, int]:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        if parts.scheme not in PORTS or not host or "@" in parts.netloc:
            raise _RefusedError(f"{url!r:.200} is not a plain http or https address.")
        usual = PORTS[parts.scheme]
        port = parts.port or usual
        wanted = {f"{host}:{port}"} | ({host} if port == usual else set())
        if not wanted & {*self.hosts}:
            allowed = ", ".join(self.hosts)
            raise _RefusedError(f"{host!r:.200} is not among what may be fetched from: {allowed}.")
        return parts, host, port


def _text(response: "httpx.Response", url: str, deadline: float) -> str:
    if response.status_code not in OK:
        raise _RefusedError(f"{url!r:.200} answered HTTP {response.status_code}.")
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise _RefusedError(f"{url!r:.200} came packed, though this was not asked for.")
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            raise _RefusedError(f"{url!r:.200} is larger than {MAX_BYTES >> 20} MiB.")
        if time.monotonic() > deadline:
            raise _late(url)
    try:
        return body.decode(response.charset_encoding or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _late(url: str) -> _RefusedError:
    return _RefusedError(f"{url!r:.200} took too long.")


def _read(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = channel.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError
        data += chunk
    return bytes(data)
