"""Turns what providers and their clients raise into our errors, in one place."""

import json

import httpx
import openai

from ..errors import Mem2EvolveError, ModelRefused, ModelUnavailable

_QUOTE = 200
"""Characters of a server's reply that an error quotes."""


def translate(exc: Exception, model: str) -> Mem2EvolveError:
    """Return our error for what a call to `model` raised.

    Connection trouble, timeouts, rate limits, quota and 5xx are `ModelUnavailable` (transient); a
    refused key, model or request is `ModelRefused`.
    """
    if isinstance(exc, Mem2EvolveError):
        return exc
    if isinstance(exc, openai.APITimeoutError | httpx.TimeoutException | TimeoutError):
        return ModelUnavailable(
            f"Model {model!r} did not answer in time.", hint="Try again, or use a faster model."
        )
    if isinstance(exc, openai.APIConnectionError | httpx.TransportError):
        return ModelUnavailable(
            f"Model {model!r} cannot be reached: {_cause(exc)}.",
            hint="Check OPENAI_BASE_URL and that the server runs: `mem2evolve doctor`.",
        )
    if isinstance(exc, openai.APIStatusError):
        return _status(exc, model)
    if isinstance(
        exc, json.JSONDecodeError | openai.APIError | TypeError | AttributeError | KeyError
    ):
        return ModelRefused(
            f"The server of model {model!r} does not speak the OpenAI chat protocol: {_short(str(exc))}.",
            hint="Check that OPENAI_BASE_URL ends in the API's path, often /v1.",
        )
    return ModelRefused(
        f"Model {model!r} failed: {type(exc).__name__}: {_short(str(exc))}.",
        hint="See `mem2evolve doctor`.",
    )


def refused_parameter(exc: BaseException) -> str:
    """Return the request parameter that a 400 or 422 names as unsupported, or an empty string."""
    if not isinstance(exc, openai.BadRequestError | openai.UnprocessableEntityError):
        return ""
    text = f"{exc.param or ''} {exc.body}".lower()
    for name in (
        "response_format",
        "temperature",
        "stop",
        "max_completion_tokens",
        "max_tokens",
        "tool_choice",
        "tools",
    ):
        if name in text:
            return name
    return ""


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
