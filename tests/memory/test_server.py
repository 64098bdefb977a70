"""The server back-end: what it says when the server is not there, or says no."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mem2evolve.errors import StoreError, StoreUnavailable
from mem2evolve.memory.backends.server import ServerStore

KEY = "00000000-0000-0000-0000-000000000001"


class Answers(BaseHTTPRequestHandler):
    """Answers every request with the server's `status`."""

    def do_GET(self) -> None:
        """Answer."""
        body = b'{"status": {"error": "no"}, "time": 0.0}'
        if self.server.status == 299:  # type: ignore[attr-defined]
            body = self.server.body  # type: ignore[attr-defined]
            self.server.status = 200  # type: ignore[attr-defined]
        elif self.server.status == 200:  # type: ignore[attr-defined]
            body = b'{"result": {"exists": false}, "status": "ok", "time": 0.0}'
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """A server on loopback whose `status` the test sets."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("status", "kind", "says", "hint"),
    [
        (401, StoreError, "refuses the key", "QDRANT_API_KEY"),
        (403, StoreError, "refuses the key", "QDRANT_API_KEY"),
        (404, StoreError, "refuses the request", "QDRANT_URL"),
        (429, StoreUnavailable, "does not answer", "QDRANT_URL"),
        (503, StoreUnavailable, "does not answer", "QDRANT_URL"),
    ],
)
async def test_refusals_are_told_apart(
    server: ThreadingHTTPServer, status: int, kind: type[StoreError], says: str, hint: str
) -> None:
    """A refused key is the operator's to mend; a server in trouble may come back."""
    server.status = status  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{server.server_port}"
    store = ServerStore(url=url)
    with pytest.raises(StoreError, match=says) as error:
        await store.get("tools", [KEY])
    assert type(error.value) is kind
    assert url in str(error.value)
    assert "\n" not in str(error.value)
    assert hint in error.value.hint
    await store.close()


@pytest.mark.parametrize(
    "body", [b"\xff\x00<html>", b'{"result": null, "status": "ok", "time": 0.0}']
)
async def test_another_kind_of_server(server: ThreadingHTTPServer, body: bytes) -> None:
    """Its address is named, without the password in it, and what should be there."""
    server.status, server.body = 299, body  # type: ignore[attr-defined]
    store = ServerStore(url=f"http://user:secret@127.0.0.1:{server.server_port}")
    with pytest.raises(StoreError, match="is no Qdrant server") as error:
        await store.count("tools")
    assert "secret" not in str(error.value)
    assert "6333" in error.value.hint
    await store.close()


async def test_nobody_there() -> None:
    """An address where nothing listens is a passing trouble, with a hint."""
    store = ServerStore(url="http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match="does not answer") as error:
        await store.count("tools")
    assert "unset QDRANT_URL" in error.value.hint
    await store.close()


def test_it_serves_several_event_loops(server: ThreadingHTTPServer) -> None:
    """Connections belong to a loop, so each has its own."""
    server.status = 200  # type: ignore[attr-defined]
    store = ServerStore(url=f"http://127.0.0.1:{server.server_port}")

    async def use() -> None:
        assert await store.get("tools", [KEY]) == []
        await store.close()

    for _ in range(3):
        asyncio.run(use())
