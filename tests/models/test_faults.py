"""What servers and clients raise, turned into our errors. `test_chat.py` has the same over the wire."""

import json
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mem2evolve.errors import ConfigError, Mem2EvolveError, ModelRefused, ModelUnavailable
from mem2evolve.models.faults import cut_reply, refused_parameter, translate

REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


def refused(body: Any, status: int = 400, param: str | None = None) -> openai.APIStatusError:
    """Return what the client raises for a refusal with this body."""
    kind = openai.BadRequestError if status == 400 else openai.UnprocessableEntityError
    raised = kind("refused", response=httpx.Response(status, request=REQUEST), body=body)
    raised.param = param
    return raised


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"message": "response_format: type json_schema is unavailable here"}, "response_format"),
        ("field 'response_format.type': allowed are 'json_schema' and 'text'", "response_format"),
        ([{"error": {"message": "generation_config.response_schema.x: bad"}}], "response_format"),
        ({"message": "this model does not support json_schema"}, "response_format"),
        ({"message": "library/quill:1b does not support tools"}, "tools"),
        ({"message": "tool_choice must be auto"}, "tool_choice"),
        ({"message": "'temperature': 0.2 is unsupported, only 1 is allowed"}, "temperature"),
        ({"message": "Unsupported parameter: 'stop'"}, "stop"),
        ({"message": "'max_tokens' is unsupported; send 'max_completion_tokens'"}, "max_tokens"),
        ({"detail": [{"loc": ["body", "max_completion_tokens"]}]}, "max_tokens"),
        ({"message": "the server has been stopped"}, ""),
        ({"message": "no"}, ""),
        (None, ""),
    ],
)
def test_a_refused_parameter_is_recognised(body: Any, name: str) -> None:
    """Under the name by which we sent it, in each wording seen in the wild."""
    assert refused_parameter(refused(body)) == name
    assert refused_parameter(refused(body, 422)) == name


def test_the_parameter_may_stand_apart() -> None:
    """OpenAI names it in a field of its own."""
    assert refused_parameter(refused({"message": "Unsupported value"}, param="temperature"))


def test_only_refusals_drop_parameters() -> None:
    """Trouble that mentions a parameter is still trouble."""
    assert refused_parameter(ValueError("temperature")) == ""
    limited = openai.RateLimitError(
        "tools", response=httpx.Response(429, request=REQUEST), body={"message": "tools"}
    )
    assert refused_parameter(limited) == ""


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (TimeoutError(), ModelUnavailable, "in time"),
        (httpx.ReadTimeout("slow"), ModelUnavailable, "in time"),
        (openai.APITimeoutError(REQUEST), ModelUnavailable, "in time"),
        (httpx.ConnectError("refused"), ModelUnavailable, "cannot be reached: refused."),
        (json.JSONDecodeError("Expecting value", "<", 0), ModelRefused, "OpenAI chat protocol"),
        (IndexError("list index out of range"), ModelRefused, "OpenAI chat protocol"),
        (ValueError({"message": "upstream", "code": 502}), ModelUnavailable, "upstream"),
        (RuntimeError("odd"), ModelRefused, "RuntimeError: odd."),
    ],
)
def test_each_fault_has_its_class(
    raised: Exception, kind: type[Mem2EvolveError], words: str
) -> None:
    """Passing trouble is transient, so that nothing is learned from it; the rest is not."""
    error = translate(raised, "openai:x")
    assert type(error) is kind
    assert error.transient is (kind is ModelUnavailable)
    assert words in str(error)
    assert "'openai:x'" in str(error)


def test_our_own_errors_pass() -> None:
    """What is translated already stays as it is."""
    own = ConfigError("no", hint="yes")
    assert translate(own, "m") is own


KINDS = st.sampled_from([RuntimeError, ValueError, httpx.ConnectError, KeyError, OSError])


@settings(deadline=None, max_examples=60)
@given(KINDS, st.text())
def test_every_message_is_one_short_line(kind: type[Exception], text: str) -> None:
    """Whatever a server says, the terminal shows one line and a hint."""
    error = translate(kind(text), "openai:x")
    assert len(str(error).splitlines()) == 1
    assert len(str(error)) < 400
    assert len(error.hint.splitlines()) == 1


def test_the_deepest_cause_is_named() -> None:
    """That the connection failed does not say whether the name, the port or the proxy is wrong."""
    raised = openai.APIConnectionError(request=REQUEST)
    raised.__cause__ = httpx.ConnectError("all attempts failed")
    raised.__cause__.__cause__ = OSError("[Errno 111] Connection refused")
    assert "Connection refused" in str(translate(raised, "m"))


def test_only_a_cut_reply_is_a_reply() -> None:
    """Other errors hold nothing to read."""
    assert cut_reply(ValueError("no")) is None
