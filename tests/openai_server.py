"""A chat server for tests that speaks OpenAI's protocol on loopback and says what it is told.

    with OpenAIServer([reply_text("hello"), reply_error(429, retry_after=0)]) as server:
        model = ChatOpenAI(base_url=server.base_url, api_key="test", model="scripted")
        ...
        server.assert_spent()

A script is a list of replies, given in order, or a function from the request's JSON to a reply.
Asked more often than scripted, it answers 500 and `assert_spent` (and leaving the `with`) fails.
"""

import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

MODEL: Final = "scripted"
_CREATED: Final = 1_700_000_000


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer. Make it with the `reply_…` functions."""

    content: str | None = None
    tool_calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    finish_reason: str = "stop"
    prompt_tokens: int = 7
    completion_tokens: int = 5
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Sent as it is, instead of a completion."""
    delay: float = 0.0
    """Seconds before anything is sent."""
    reset: bool = False
    """Break the connection instead of answering."""


Script = Sequence[Reply] | Callable[[dict[str, Any]], Reply]


def reply_text(content: str, *, finish_reason: str = "stop", **more: Any) -> Reply:
    """Answer with text; `more` are fields of `Reply` (`delay`, token counts)."""
    return Reply(content=content, finish_reason=finish_reason, **more)


def reply_json(value: object, **more: Any) -> Reply:
    """Answer with a JSON value as text, as the JSON schema mode does."""
    return Reply(content=json.dumps(value), **more)


def reply_tools(
    *calls: tuple[str, Mapping[str, Any]], content: str | None = None, **more: Any
) -> Reply:
    """Answer with tool calls, each a name and its arguments."""
    return Reply(content=content, tool_calls=calls, finish_reason="tool_calls", **more)


def reply_error(
    status: int,
    message: str = "scripted error",
    *,
    code: str | None = None,
    retry_after: float | None = None,
    delay: float = 0.0,
) -> Reply:
    """Answer with an error status, its body as OpenAI writes it."""
    error = {"message": message, "type": "scripted", "param": None, "code": code}
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    body = json.dumps({"error": error}).encode()
    return Reply(status=status, body=body, headers=headers, delay=delay)


def reply_raw(body: bytes, *, status: int = 200, content_type: str = "text/html") -> Reply:
    """Answer with any bytes, as a proxy's error page would."""
    return Reply(status=status, body=body, headers={"Content-Type": content_type})


def reply_reset() -> Reply:
    """Break the connection without an answer."""
    return Reply(reset=True)


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    json: dict[str, Any]


class OpenAIServer:
    """The server, as a context manager. Chat requests are in `requests`, in order of arrival."""

    def __init__(self, script: Script = (), *, models: Sequence[str] = (MODEL,)) -> None:
        self.requests: list[Request] = []
        self.overrun: list[str] = []
        self._script = script
        self._models = models
        self._given = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._http = _Http(self)
        # A short poll: `shutdown` waits for it, in every test.
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        """Return the base URL, with `/v1`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()  # ends delays
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        if kind is None:
            assert not self.overrun, self.overrun[0]

    def assert_spent(self) -> None:
        """Fail if a scripted reply was never asked for, or more were asked for."""
        assert not self.overrun, self.overrun[0]
        if not callable(self._script):
            assert self._given == len(self._script), (
                f"{self._given} of {len(self._script)} scripted replies were asked for."
            )

    def next_reply(self, request: Request) -> Reply:
        """Record a chat request and return the reply to it."""
        with self._lock:
            self.requests.append(request)
            turn, self._given = self._given, self._given + 1
        if callable(self._script):
            try:
                return self._script(request.json)
            except Exception as exc:  # noqa: BLE001 - a test's own function; it fails the test
                return self._fail(f"The script raised {exc!r}.")
        if turn < len(self._script):
            return self._script[turn]
        last = (request.json.get("messages") or [{}])[-1]
        return self._fail(
            f"Model call {turn + 1}, but only {len(self._script)} scripted. "
            f"Last message: {last.get('content')!r}"
        )

    def _fail(self, message: str) -> Reply:
        self.overrun.append(message)
        return reply_error(500, message)

    def wait(self, seconds: float) -> None:
        """Delay an answer, but not the server's end."""
        self._closing.wait(seconds)

    def model_list(self) -> dict[str, Any]:
        """Return the body of `/v1/models`."""
        data = [
            {"id": name, "object": "model", "created": _CREATED, "owned_by": "tests"}
            for name in self._models
        ]
        return {"object": "list", "data": data}


class _Http(ThreadingHTTPServer):
    daemon_threads = False  # joined by server_close, so that no socket outlives the test
    request_queue_size = 64

    def __init__(self, owner: OpenAIServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet: clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    # One request a connection: a kept one would hold its thread until the client closes it.
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            self._send(200, json.dumps(self.server.owner.model_list()).encode(), {})
        else:
            self._send(404, b'{"error": {"message": "no such page"}}', {})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.split("?")[0] != "/v1/chat/completions":
            self._send(404, b'{"error": {"message": "only chat completions are scripted"}}', {})
            return
        asked = json.loads(raw)
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.owner.next_reply(Request(self.path, headers, asked))
        if reply.delay:
            self.server.owner.wait(reply.delay)
        if reply.reset:
            # Lingering for 0 s makes `close` send a reset instead of an orderly end.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
        elif reply.body is not None:
            self._send(reply.status, reply.body, reply.headers)
        elif asked.get("stream"):
            self._send_stream(asked, reply)
        else:
            body = json.dumps(completion(asked, reply)).encode()
            self._send(reply.status, body, reply.headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_stream(self, asked: dict[str, Any], reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for chunk in chunks(asked, reply):
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Stay quiet."""


def completion(asked: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    """Return a whole chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.tool_calls:
        message["tool_calls"] = _calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    return {**_head(asked, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def chunks(asked: Mapping[str, Any], reply: Reply) -> list[dict[str, Any]]:
    """Return the same completion as stream chunks: a few characters each, usage last if wanted."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    text = reply.content or ""
    deltas += [{"content": text[at : at + 4]} for at in range(0, len(text), 4)]
    for index, call in enumerate(_calls(reply)):
        function = call["function"]
        opened = {**call, "index": index, "function": {**function, "arguments": ""}}
        filled = {"index": index, "function": {"arguments": function["arguments"]}}
        deltas += [{"tool_calls": [opened]}, {"tool_calls": [filled]}]
    head = _head(asked, "chat.completion.chunk")
    sent: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    last = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
    sent.append({**head, "choices": [last]})
    if (asked.get("stream_options") or {}).get("include_usage"):
        sent.append({**head, "choices": [], "usage": _usage(reply)})
    return sent


def _head(asked: Mapping[str, Any], kind: str) -> dict[str, Any]:
    model = asked.get("model", MODEL)
    return {"id": "chatcmpl-test", "object": kind, "created": _CREATED, "model": model}


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(reply.tool_calls)
    ]


def _usage(reply: Reply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }
