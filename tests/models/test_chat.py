"""`Chat` over the wire: the real client against a server that misbehaves as told."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from mem2evolve.errors import ModelRefused, ModelReplyError, ModelUnavailable
from mem2evolve.models.chat import Chat, Sampling, Usage
from mem2evolve.models.profiles import CAPABLE, SMALL, Profile

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

ASKED: Final = [HumanMessage("Which pet?")]
REX: Final = {"name": "Rex", "legs": 4}


class Pet(BaseModel):
    """What is asked for."""

    name: str
    legs: int


@contextmanager
def serving(
    *replies: Reply, script: Callable[[dict[str, Any]], Reply] | None = None
) -> Iterator[OpenAIServer]:
    """A server whose whole script must be asked for."""
    with OpenAIServer(script or list(replies)) as server:
        yield server
        server.assert_spent()


def chat(server: OpenAIServer, profile: Profile = CAPABLE, **more: Any) -> Chat:
    """The model behind the server, through the real client, which does not try again by itself."""
    options: dict[str, Any] = {"max_retries": 0, "timeout": 10, **more}
    model = ChatOpenAI(
        base_url=server.base_url, api_key=SecretStr("test"), model="scripted", **options
    )
    return Chat("openai:scripted", model, profile)


def refuses(*names: str, then: Reply) -> Callable[[dict[str, Any]], Reply]:
    """A server that knows nothing of these parameters, and names the first one that it meets."""

    def reply(asked: dict[str, Any]) -> Reply:
        met = [name for name in names if name in asked]
        return reply_error(400, f"Unsupported parameter: '{met[0]}'.") if met else then

    return reply


def ways(server: OpenAIServer) -> list[str]:
    """By what each request asked for JSON."""
    keys = ("response_format", "tools")
    return [
        next((key for key in keys if key in request.json), "prompt") for request in server.requests
    ]


async def test_the_schema_goes_to_the_server() -> None:
    """The provider's own JSON mode is asked first, with our schema; one call is one call."""
    with serving(reply_json(REX, prompt_tokens=11, completion_tokens=3)) as server:
        pet, usage = await chat(server).structured(ASKED, Pet)

    assert pet == Pet(**REX)
    assert (usage.calls, usage.prompt, usage.completion) == (1, 11, 3)
    assert usage.seconds > 0
    sent = server.requests[0].json["response_format"]["json_schema"]
    assert sent == {"name": "reply", "schema": Pet.model_json_schema()}


async def test_a_narrower_schema_is_asked_with() -> None:
    """A caller's schema takes the place of the shape's."""
    narrow = {"type": "object", "properties": {"name": {"const": "Rex"}}}
    with serving(reply_json(REX)) as server:
        await chat(server).structured(ASKED, Pet, schema=narrow)

    assert server.requests[0].json["response_format"]["json_schema"]["schema"] == narrow


async def test_without_json_mode_a_tool_call_is_asked_for() -> None:
    """The refusal costs one request without a reply, and is not met again."""
    script = refuses("response_format", then=reply_tools(("reply", REX)))
    with serving(script=script) as server:
        model = chat(server)
        first, usage = await model.structured(ASKED, Pet)
        second, _ = await model.structured(ASKED, Pet)

    assert first == second == Pet(**REX)
    assert ways(server) == ["response_format", "tools", "tools"]
    assert server.requests[1].json["tool_choice"]["function"]["name"] == "reply"
    assert usage.calls == 1
    assert model.profile.structured == "function_calling"


async def test_without_tools_the_prompt_asks() -> None:
    """The last rung sends nothing that can be refused: the schema stands in the prompt."""
    script = refuses("response_format", "tools", then=reply_json(REX))
    with serving(script=script) as server:
        model = chat(server)
        for _ in range(2):
            assert (await model.structured(ASKED, Pet))[0] == Pet(**REX)

    assert ways(server) == ["response_format", "tools", "prompt", "prompt"]
    said = server.requests[-1].json["messages"][-1]["content"]
    assert json.dumps(Pet.model_json_schema(), separators=(",", ":")) in said
    assert model.profile.structured == "prompt"


async def test_a_refused_tool_choice_ends_at_the_prompt() -> None:
    """Without it a tool call is no more than a hope."""
    script = refuses("response_format", "tool_choice", then=reply_json(REX))
    with serving(script=script) as server:
        await chat(server).structured(ASKED, Pet)

    assert ways(server) == ["response_format", "tools", "prompt"]


async def test_a_profile_may_start_further_down() -> None:
    """What is known of a model is not tried out again."""
    with serving(reply_json(REX)) as server:
        await chat(server, Profile(structured="prompt")).structured(ASKED, Pet)

    assert ways(server) == ["prompt"]


@pytest.mark.parametrize(
    "reply",
    [
        reply_text(f"```json\n{json.dumps(REX)}\n```"),
        reply_text(f"Sure! {json.dumps(REX)} Anything else?"),
        reply_text(f'<think>{{"name": "Tom", "legs": 3}}?</think>\n{json.dumps(REX)}'),
        reply_tools(("reply", REX)),
        reply_tools(("reply", REX), content="Here it is."),
        reply_json({**REX, "legs": "4"}),
        reply_json(REX, finish_reason="length"),
    ],
    ids=["fence", "prose", "thoughts", "tool call", "call and words", "text for a number", "at limit"],
)  # fmt: skip
async def test_wrapped_replies_are_read(reply: Reply) -> None:
    """The habits of models cost no second call."""
    with serving(reply) as server:
        assert (await chat(server).structured(ASKED, Pet))[0] == Pet(**REX)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (reply_text(""), "it holds no JSON object"),
        (reply_text("I cannot."), "it holds no JSON object"),
        (reply_json({"name": "Rex"}), "legs: Field required"),
        (reply_json(Pet.model_json_schema()), "it repeats the schema"),
        (reply_text('{"name": "Re', finish_reason="length"), "it was cut off at the token limit"),
        (reply_text("\ud800"), "it holds no JSON object"),
    ],
    ids=["empty", "refusal", "field missing", "schema echo", "cut off", "half a surrogate"],
)
async def test_one_repair_says_what_was_wrong(reply: Reply, problem: str) -> None:
    """The model sees its reply, what is wrong with it and the schema; both calls are counted."""
    with serving(reply, reply_json(REX)) as server:
        pet, usage = await chat(server).structured(ASKED, Pet)

    assert pet == Pet(**REX)
    assert (usage.calls, usage.prompt, usage.completion) == (2, 14, 10)
    own, repair = server.requests[1].json["messages"][-2:]
    assert own["role"] == "assistant"
    assert problem in repair["content"]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (reply_text("no\nway"), "it holds no JSON object"),
        (reply_text('{"name": "Re', finish_reason="length"), "cut off at the token limit"),
        (reply_json(Pet.model_json_schema()), "it repeats the schema"),
    ],
)
async def test_after_the_repair_the_reply_is_quoted(reply: Reply, why: str) -> None:
    """The error names the model, the reason and what came back, on one line."""
    with serving(reply, reply) as server, pytest.raises(ModelReplyError, match=why) as caught:
        await chat(server).structured(ASKED, Pet)

    assert "'openai:scripted'" in str(caught.value)
    assert repr(reply.content)[1:12] in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not caught.value.transient


async def test_a_long_reply_is_quoted_in_part() -> None:
    """A page of nonsense does not fill the terminal."""
    with (
        serving(reply_text("x" * 5000), reply_text("x" * 5000)) as server,
        pytest.raises(ModelReplyError) as caught,
    ):
        await chat(server).structured(ASKED, Pet)

    assert len(str(caught.value)) < 600


async def test_refused_parameters_are_dropped_and_remembered() -> None:
    """One refused request for each, once; the rest is still sent."""
    script = refuses("temperature", "stop", then=reply_text("Rex"))
    sampling = Sampling(temperature=0.7, stop=("\n",), max_tokens=50)
    with serving(script=script) as server:
        model = chat(server, SMALL)
        for _ in range(2):
            text, usage = await model.text(ASKED, sampling)
            assert (text, usage.calls) == ("Rex", 1)

    sent = [request.json.keys() & {"temperature", "stop"} for request in server.requests]
    assert sent == [{"temperature", "stop"}, {"stop"}, set(), set()]
    assert server.requests[-1].json["max_completion_tokens"] == 50


async def test_a_refused_token_limit_is_dropped() -> None:
    """Whatever name the server knows it by."""
    script = refuses("max_completion_tokens", then=reply_text("Rex"))
    with serving(script=script) as server:
        text, _ = await chat(server, SMALL).text(ASKED, Sampling(max_tokens=50))

    assert text == "Rex"


async def test_a_server_that_refuses_what_was_not_sent() -> None:
    """There is nothing to drop, so the refusal stands, after one request."""
    with (
        serving(reply_error(400, "temperature is unsupported")) as server,
        pytest.raises(ModelRefused, match="temperature is unsupported"),
    ):
        await chat(server).text(ASKED)


async def test_capable_models_end_by_themselves() -> None:
    """They may think within a limit, so they get a temperature, but no stop sequence and no limit."""
    with serving(reply_text("Rex")) as server:
        await chat(server).text(ASKED, Sampling(temperature=0.0, stop=("x",), max_tokens=5))

    sent = server.requests[0].json
    assert sent["temperature"] == 0.0
    assert not sent.keys() & {"stop", "max_tokens", "max_completion_tokens"}


async def test_native_calls_come_back_as_calls() -> None:
    """The functions go to the server, and the call to the caller."""
    function = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    with serving(reply_tools(("look", {"at": 1}))) as server:
        message, usage = await chat(server).act(ASKED, [function])

    assert isinstance(message, AIMessage)
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("look", {"at": 1})]
    assert server.requests[0].json["tools"][0]["function"]["name"] == "look"
    assert usage.calls == 1


async def test_a_model_without_tools_acts_by_json() -> None:
    """The refusal corrects the profile, so that the caller does not take the reply for an answer."""
    function = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    with serving(script=refuses("tools", then=reply_text("4"))) as server:
        model = chat(server)
        await model.act(ASKED, [function])

    assert model.profile.actions == "json"


async def test_thoughts_are_no_part_of_a_text() -> None:
    """And a reply of nothing but thoughts is empty."""
    with serving(reply_text("<think>hm</think> Rex"), reply_text("<think>hm</think>")) as server:
        model = chat(server)
        assert (await model.text(ASKED))[0] == "Rex"
        with pytest.raises(ModelReplyError, match="it is empty"):
            await model.text(ASKED)


FAULTS: Final[Sequence[tuple[str, Reply, type[Exception], str]]] = [
    ("key", reply_error(401, "bad\nkey"), ModelRefused, "refused the key (401): bad key."),
    ("region", reply_error(403, "region"), ModelRefused, "(403): region."),
    ("model", reply_error(404, "no such model"), ModelRefused, "not found (404): no such model."),
    ("request", reply_error(400, "no"), ModelRefused, "refused the request (400): no."),
    ("large", reply_error(413, "too large"), ModelRefused, "(413): too large."),
    ("limit", reply_error(429, "slow down"), ModelUnavailable, "(429): slow down."),
    ("fault", reply_error(500, "oops"), ModelUnavailable, "failed (500): oops."),
    ("gateway", reply_raw(b"<html>\n<b>no</b>", status=502), ModelUnavailable, "(502): <html> <b>no"),
    ("slow", reply_text("late", delay=3.0), ModelUnavailable, "did not answer in time."),
    ("reset", reply_reset(), ModelUnavailable, "cannot be reached"),
    ("page", reply_raw(b"<html>Welcome</html>"), ModelRefused, "does not speak the OpenAI chat protocol"),
    ("other json", reply_raw(b'{"a": 1}', content_type="application/json"), ModelRefused, "chat protocol"),
    ("list", reply_raw(b"[1]", content_type="application/json"), ModelRefused, "chat protocol"),
    ("half", reply_raw(b'{"a', content_type="application/json"), ModelRefused, "chat protocol"),
    ("no choice", reply_raw(b'{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}',
                            content_type="application/json"), ModelRefused, "chat protocol"),
    ("passed on", reply_raw(b'{"error": {"message": "upstream", "code": 502}}', content_type="application/json"),
     ModelUnavailable, "passed on an error: upstream."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "kind", "words"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
async def test_faults_of_the_server(
    reply: Reply, kind: type[ModelRefused | ModelUnavailable], words: str
) -> None:
    """Each is one request, one class, and one line with the model's name and the server's words."""
    with serving(reply) as server, pytest.raises(kind) as caught:
        await chat(server, timeout=0.3 if reply.delay else 10).text(ASKED)

    assert type(caught.value) is kind
    assert caught.value.transient is (kind is ModelUnavailable)
    assert words in str(caught.value)
    assert "'openai:scripted'" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.hint


async def test_nobody_listens() -> None:
    """A port without a server is passing trouble, and the hint says what to look at."""
    with OpenAIServer() as server:
        pass
    with pytest.raises(ModelUnavailable, match="cannot be reached") as caught:
        await chat(server).text(ASKED)

    assert "OPENAI_BASE_URL" in caught.value.hint


async def test_a_content_filter_is_a_refusal() -> None:
    """It is named as what it is, and not repaired."""
    with (
        serving(reply_text("", finish_reason="content_filter")) as server,
        pytest.raises(ModelRefused, match="content filter"),
    ):
        await chat(server).structured(ASKED, Pet)


def test_usage_adds_up() -> None:
    """Every field is summed."""
    assert Usage(1, 2, 3, 0.5) + Usage(1, 20, 30, 0.25) == Usage(2, 22, 33, 0.75)
