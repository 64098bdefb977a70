"""The scripted server, seen through the real client that the program uses."""

import json
from typing import Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ..openai_server import (
    OpenAIServer,
    Reply,
    reply_error,
    reply_json,
    reply_raw,
    reply_reset,
    reply_text,
    reply_tools,
)


def chat(server: OpenAIServer, **more: Any) -> ChatOpenAI:
    """Return the real client, which does not try again by itself."""
    options: dict[str, Any] = {"max_retries": 0, "timeout": 5, **more}
    return ChatOpenAI(
        base_url=server.base_url, api_key=SecretStr("test-key"), model="scripted", **options
    )


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


SCHEMA = {
    "title": "Plan",
    "type": "object",
    "properties": {"goal": {"type": "string"}},
    "required": ["goal"],
    "additionalProperties": False,
}


async def test_plain_text_comes_back_with_its_usage() -> None:
    """Replies come in the order of the script, and token counts reach the message."""
    with OpenAIServer([reply_text("one", prompt_tokens=3), reply_text("two")]) as server:
        model = chat(server)
        first = await model.ainvoke("hi")
        second = model.invoke("hi again")
        server.assert_spent()

    assert (first.content, second.content) == ("one", "two")
    assert first.usage_metadata is not None
    assert first.usage_metadata["input_tokens"] == 3


def test_requests_are_recorded() -> None:
    """A test can look at what was asked: messages, path and key."""
    with OpenAIServer([reply_text("ok")]) as server:
        chat(server).invoke("what?")

    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer test-key"
    assert request.json["messages"] == [{"role": "user", "content": "what?"}]


def test_json_schema_replies_are_parsed() -> None:
    """The schema arrives in `response_format`, and the JSON reply is parsed by the client."""
    with OpenAIServer([reply_json({"goal": "tea"})]) as server:
        model = chat(server).with_structured_output(SCHEMA, method="json_schema", strict=True)
        plan = model.invoke("plan")

    assert plan == {"goal": "tea"}
    assert server.requests[0].json["response_format"]["type"] == "json_schema"


def test_tool_calls_are_parsed() -> None:
    """Several calls in one reply keep their order, names and arguments."""
    with OpenAIServer(
        [reply_tools(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}))]
    ) as server:
        message = chat(server).bind_tools([add]).invoke("add")

    assert [call["args"] for call in message.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert server.requests[0].json["tools"][0]["function"]["name"] == "add"


async def test_streams_add_up_to_the_reply() -> None:
    """A streamed reply is the same reply in pieces, its usage included when asked for."""
    with OpenAIServer([reply_text("a longer answer, in pieces")]) as server:
        pieces = [piece async for piece in chat(server, stream_usage=True).astream("hi")]

    assert "".join(str(piece.content) for piece in pieces) == "a longer answer, in pieces"
    assert len([piece for piece in pieces if piece.content]) > 1
    usages = [piece.usage_metadata for piece in pieces if piece.usage_metadata]
    assert [usage["total_tokens"] for usage in usages] == [12]


def test_streamed_tool_calls_add_up() -> None:
    """Tool calls survive being streamed."""
    with OpenAIServer([reply_tools(("add", {"a": 1, "b": 2}))]) as server:
        whole: Any = None
        for piece in chat(server).bind_tools([add]).stream("add"):
            whole = piece if whole is None else whole + piece

    assert whole is not None
    assert whole.tool_calls[0]["args"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_errors_surface_as_their_own_type(status: int, kind: type[openai.APIStatusError]) -> None:
    """Status, body and headers of a scripted error reach the caller."""
    reply = reply_error(status, "no", code="scripted_code", retry_after=2)
    with OpenAIServer([reply]) as server, pytest.raises(kind) as caught:
        chat(server).invoke("hi")

    assert caught.value.code == "scripted_code"
    assert caught.value.response.headers["Retry-After"] == "2"


def test_a_rate_limit_can_be_waited_out() -> None:
    """The client obeys Retry-After and asks again: two requests, one answer."""
    with OpenAIServer([reply_error(429, retry_after=0), reply_text("now")]) as server:
        answer = chat(server, max_retries=1).invoke("hi")
        server.assert_spent()

    assert answer.content == "now"


def test_slow_answers_time_out() -> None:
    """A delay longer than the client's patience is a time-out, and does not delay the end."""
    with (
        OpenAIServer([reply_text("late", delay=60)]) as server,
        pytest.raises(openai.APITimeoutError),
    ):
        chat(server, timeout=0.2).invoke("hi")


def test_a_broken_connection_is_a_connection_error() -> None:
    """A reset looks to the client as it does in the wild."""
    with OpenAIServer([reply_reset()]) as server, pytest.raises(openai.APIConnectionError):
        chat(server).invoke("hi")


def test_bodies_that_are_no_json_are_passed_on() -> None:
    """A proxy's error page with status 200 is an error in the client, not an empty answer."""
    with (
        OpenAIServer([reply_raw(b"<html>busy</html>")]) as server,
        pytest.raises(ValueError, match="<html>busy"),
    ):
        chat(server).invoke("hi")


def test_a_function_can_be_the_script() -> None:
    """The reply may depend on the request."""

    def echo(asked: dict[str, Any]) -> Reply:
        return reply_text(asked["messages"][-1]["content"].upper())

    with OpenAIServer(echo) as server:
        assert chat(server).invoke("loud").content == "LOUD"


def test_asking_too_often_fails_the_test() -> None:
    """One call more than scripted is a 500 for the client and an assertion for the test."""
    server = OpenAIServer([])
    with (
        pytest.raises(AssertionError, match="Model call 1, but only 0 scripted"),
        server,
        pytest.raises(openai.InternalServerError, match="Last message: 'hi'"),
    ):
        chat(server).invoke("hi")


def test_unspent_replies_fail_the_test() -> None:
    """A reply nobody asked for is an assertion too."""
    with (
        OpenAIServer([reply_text("unused")]) as server,
        pytest.raises(AssertionError, match="0 of 1"),
    ):
        server.assert_spent()


def test_models_are_listed() -> None:
    """`/v1/models` names what the server was given."""
    with OpenAIServer(models=["a", "b"]) as server:
        listed = httpx.get(f"{server.base_url}/models").json()

    assert [entry["id"] for entry in listed["data"]] == ["a", "b"]
    assert json.dumps(listed)
