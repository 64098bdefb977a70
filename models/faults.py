"""Turns what providers and their clients raise into our errors, in one place."""

import re
from typing import Final

import httpx
import openai
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata

from ..errors import Mem2EvolveError, ModelRefused, ModelUnavailable

_QUOTE = 200
"""Characters of a server's reply that an error quotes."""
_REFUSABLE: Final = {
    "response_format|response_schema|json_schema": "response_format",
    "temperature": "temperature",
    "stop": "stop",
    "max_tokens|max_completion_tokens": "max_tokens",  # LangChain sends the one as the other
    "tool_choice": "tool_choice",
    "tools": "tools",
}
"""Words of a refusal, and the parameter that we sent."""


def translate(exc: Exception, model: str) -> Mem2EvolveError:
    """Return our error for what a call to `model` raised.

    Connection trouble, timeouts, rate limits, quota and 5xx are `ModelUnavailable` (transient); a
    refused key, model or request is `ModelRefused`.
    """
    while isinstance(exc, ExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, Mem2EvolveError):
        return exc
    if isinstance(exc, openai.APITimeoutError | httpx.TimeoutException | TimeoutError):
        return ModelUnavailable(
            f"Model {model!r} did not answer in time.",
            hint="Try again, use a faster model, or allow it more seconds (MEM2EVOLVE_MODEL_TIMEOUT).",
        )
    if isinstance(exc, openai.APIConnectionError | httpx.TransportError):
        return ModelUnavailable(
            f"Model {model!r} cannot be reached: {_cause(exc)}.",
            hint="Check OPENAI_BASE_URL and that the server runs: `mem2evolve doctor`.",
        )
    if isinstance(exc, openai.APIStatusError):
        return _status(exc, model)
    return _strange_reply(exc, model) or ModelRefused(
        f"Model {model!r} failed: {type(exc).__name__}: {_short(str(exc))}.",
        hint="See `mem2evolve doctor`.",
    )


def _strange_reply(exc: Exception, model: str) -> Mem2EvolveError | None:
    """Return our error for a reply with status 200 that is no completion."""
    if isinstance(exc, openai.ContentFilterFinishReasonError):
        return ModelRefused(
            f"The provider's content filter stopped the reply of model {model!r}.",
            hint="Say the task in other words, or use another model.",
        )
    if isinstance(exc, ValueError) and exc.args and isinstance(exc.args[0], dict):
        # An error instead of a completion, with status 200: how gateways pass on trouble behind them.
        said = exc.args[0]
        return ModelUnavailable(
            f"The server of model {model!r} passed on an error: {_short(str(said.get('message') or said))}.",
            hint="Try again later.",
        )
    tripped = isinstance(exc, TypeError | AttributeError | LookupError)
    if tripped or isinstance(exc, ValueError | openai.APIError):
        # What the client trips over in a reply of another form says nothing to the reader.
        cause = "its reply is no chat completion" if tripped else _short(str(exc))
        return ModelRefused(
            f"The server of model {model!r} does not speak the OpenAI chat protocol: {cause}.",
            hint="Check that OPENAI_BASE_URL ends in the API's path, often /v1.",
        )
    return None


def refused_parameter(exc: BaseException) -> str:
    """Return the request parameter that a 400 or 422 names as unsupported, or an empty string."""
    if not isinstance(exc, openai.BadRequestError | openai.UnprocessableEntityError):
        return ""
    text = f"{exc.param or ''} {exc.body}".lower()
    for words, name in _REFUSABLE.items():
        if re.search(rf"\b(?:{words})\b", text):
            return name
    return ""


def cut_reply(exc: BaseException) -> AIMessage | None:
    """Return the reply that the client raises on, when it was ended by the token limit in JSON-schema mode."""
    if not isinstance(exc, openai.LengthFinishReasonError):
        return None
    used = exc.completion.usage
    return AIMessage(
        exc.completion.choices[0].message.content or "",
        response_metadata={"finish_reason": "length"},
        usage_metadata=UsageMetadata(
            input_tokens=used.prompt_tokens,
            output_tokens=used.completion_tokens,
            total_tokens=used.total_tokens,
        )
        if used
        else None,
    )


def _status(exc: openai.APIStatusError, model: str) -> Mem2EvolveError:
    code, body = exc.status_code, _short(_message(exc))
    if code in (401, 403):
        return ModelRefused(
            f"The provider of model {model!r} refused the key ({code}): {body}.",
            hint="Set OPENAI_API_KEY to a valid key.",
        )
    if code == 404:  # noqa: PLR2004 - the status code is the clearest name
        return ModelRefused(
            f"Model {model!r} was not found (404): {body}.",
            hint="Check MEM2EVOLVE_MODEL and OPENAI_BASE_URL.",
        )
    if code == 429:  # noqa: PLR2004
        return ModelUnavailable(
            f"Model {model!r} is rate-limited or out of quota (429): {body}.",
            hint="Wait and try again, or check the account's quota.",
        )
    if code >= 500 or code in (408, 409):  # noqa: PLR2004
        return ModelUnavailable(
            f"The server of model {model!r} failed ({code}): {body}.", hint="Try again later."
        )
    return ModelRefused(
        f"Model {model!r} refused the request ({code}): {body}.", hint="See `mem2evolve doctor`."
    )


def _message(exc: openai.APIStatusError) -> str:
    body = exc.body
    if isinstance(body, dict):
        return str(body.get("message") or body)
    return str(body or exc.message)


def _cause(exc: BaseException) -> str:
    while exc.__cause__ is not None:
        exc = exc.__cause__
    return _short(str(exc) or type(exc).__name__)


def _short(text: str) -> str:
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= _QUOTE else text[:_QUOTE] + "…"
