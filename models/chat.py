"""The one door to a chat model: text, structured replies and actions, with usage counted."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel

from ..errors import ModelReplyError
from ..prompts.load import load_prompt
from .faults import cut_reply, refused_parameter, translate
from .profiles import LADDER, Profile, Structured
from .replies import Unusable, parse_json, whole, without_thoughts

T = TypeVar("T", bound=BaseModel)

MAX_REFUSALS: Final = 4
"""Request parameters that may be dropped, one after another, before a refusal stands."""
QUOTED: Final = 300
"""Characters of an unusable reply that the error shows."""


@dataclass(frozen=True)
class Usage:
    """What one or more calls cost."""

    calls: int = 0
    prompt: int = 0
    """Prompt tokens, cached ones included."""
    completion: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True)
class Sampling:
    """How to sample; dropped for models that refuse to be told."""

    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()


PLAIN: Final = Sampling()


class _RungRefused(Exception):
    """The server refuses the parameter by which JSON was asked for."""


class Chat:
    """One chat model.

    Attributes:
        name: The model string, for messages and records.
        profile: What it can do. Corrected in place of guessing again when the server refuses something.
    """

    def __init__(self, name: str, model: BaseChatModel, profile: Profile) -> None:
        self.name = name
        self.profile = profile
        self._model = model
        self._refused: set[str] = set()

    async def text(
        self, messages: Sequence[BaseMessage], sampling: Sampling = PLAIN
    ) -> tuple[str, Usage]:
        """Return the reply's text, without its thoughts.

        Raises:
            ModelError: If the model cannot be reached, refuses, or says nothing.
        """
        message, usage = await self._call(messages, sampling)
        text = without_thoughts(message.text)
        if not text:
            raise self._unusable("it is empty", message)
        return text, usage

    async def act(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[dict[str, Any]],
        sampling: Sampling = PLAIN,
    ) -> tuple[AIMessage, Usage]:
        """Return a reply that may hold tool calls. `tools` are OpenAI function schemas."""
        extra: dict[str, Any] = {"tools": list(tools)} if tools else {}
        message, usage = await self._call(messages, sampling, **extra)
        if tools and "tools" in self._refused:  # this reply was given without them
            self.profile = replace(self.profile, actions="json")
        return message, usage

    async def structured(
        self,
        messages: Sequence[BaseMessage],
        shape: type[T],
        sampling: Sampling = PLAIN,
        *,
        schema: dict[str, Any] | None = None,
    ) -> tuple[T, Usage]:
        """Return a reply of the given shape.

        Asks by the provider's JSON-schema mode, then by a tool call, then by prompt, and remembers which works.
        One repair is asked for when a reply does not fit.

        Args:
            messages: The request.
            shape: What the reply is parsed into.
            sampling: How to sample.
            schema: A JSON schema narrower than that of `shape`, to ask with.

        Raises:
            ModelReplyError: If the reply does not fit, also after the repair.
            ModelError: If the model cannot be reached or refuses.
        """
        asked = schema or shape.model_json_schema()
        message, usage = await self._ask(messages, asked, sampling)
        try:
            return parse_json(_payload(message), shape, cut=_was_cut(message)), usage
        except Unusable as exc:
            problem = str(exc)
        repair = load_prompt("repair").messages(problem=problem, schema=_compact(asked))
        again, more = await self._ask(
            [*messages, AIMessage(_payload(message) or "(nothing)"), *repair], asked, sampling
        )
        try:
            return parse_json(_payload(again), shape, cut=_was_cut(again)), usage + more
        except Unusable as exc:
            raise self._unusable(str(exc), again) from exc

    async def _ask(
        self, messages: Sequence[BaseMessage], schema: dict[str, Any], sampling: Sampling
    ) -> tuple[AIMessage, Usage]:
        """Ask for JSON, going down the ladder while the server refuses."""
        for way in LADDER[LADDER.index(self.profile.structured) :]:
            extra = _request(way, schema)
            if extra.keys() & self._refused:
                continue
            asked = [*messages, HumanMessage(_by_prompt(schema))] if way == "prompt" else messages
            try:
                message, usage = await self._call(asked, sampling, needed=True, **extra)
            except _RungRefused:
                continue  # without it, a reply would not be asked for as JSON
            self.profile = replace(self.profile, structured=way)
            return message, usage
        raise AssertionError("the last rung sends nothing that can be refused")

    async def _call(
        self,
        messages: Sequence[BaseMessage],
        sampling: Sampling,
        *,
        needed: bool = False,
        **extra: Any,
    ) -> tuple[AIMessage, Usage]:
        """Send one request; drop parameters that this server refuses, and remember them.

        Raises:
            ModelError: If the model cannot be reached or refuses.
            _RungRefused: If one of `extra` is refused and `needed`.
        """
        started = time.monotonic()
        for attempt in range(MAX_REFUSALS + 1):
            options = {
                key: value
                for key, value in (self._options(sampling) | extra).items()
                if key not in self._refused
            }
            try:
                reply = await self._model.bind(**options).ainvoke(list(messages))
            except Exception as exc:
                if (cut := cut_reply(exc)) is not None:
                    return cut, _usage(cut, time.monotonic() - started)
                name = refused_parameter(exc)
                if attempt == MAX_REFUSALS or name not in options:
                    raise translate(exc, self.name) from exc
                self._refused.add(name)
                if needed and name in extra:
                    raise _RungRefused(name) from exc
                continue
            if not isinstance(reply, AIMessage):
                raise self._unusable("it is no assistant message", AIMessage(str(reply)))
            return reply, _usage(reply, time.monotonic() - started)
        raise AssertionError("the last attempt returns or raises")

    def _options(self, sampling: Sampling) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if sampling.temperature is not None:
            options["temperature"] = sampling.temperature
        if self.profile.talks_on:
            if sampling.stop:
                options["stop"] = list(sampling.stop)
            if sampling.max_tokens is not None:
                options["max_tokens"] = sampling.max_tokens
        return options

    def _unusable(self, why: str, message: AIMessage) -> ModelReplyError:
        shown = _payload(message)
        shown = shown if len(shown) <= QUOTED else shown[:QUOTED] + "…"
        return ModelReplyError(
            f"The reply of model {self.name!r} cannot be used: {why}. It said: {shown!r}",
            hint="Try again, or use a more capable model (MEM2EVOLVE_MODEL).",
        )


def _request(way: Structured, schema: dict[str, Any]) -> dict[str, Any]:
    match way:
        case "json_schema":
            named = {"name": "reply", "schema": schema}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case "function_calling":
            function = {"name": "reply", "description": "Give the reply.", "parameters": schema}
            choice = {"type": "function", "function": {"name": "reply"}}
            return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
        case _:
            return {}


def _by_prompt(schema: dict[str, Any]) -> str:
    return f"Reply with one JSON value that fits this JSON schema, and nothing else:\n{_compact(schema)}"


def _compact(schema: dict[str, Any]) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def _payload(message: AIMessage) -> str:
    """Return the arguments of a reply's tool call, or its text."""
    if message.tool_calls:
        return whole(_compact(message.tool_calls[0]["args"]))
    return whole(message.text)


def _was_cut(message: AIMessage) -> bool:
    return message.response_metadata.get("finish_reason") == "length"


def _usage(message: AIMessage, seconds: float) -> Usage:
    used = message.usage_metadata
    if used is None:
        return Usage(1, 0, 0, seconds)
    return Usage(1, used["input_tokens"], used["output_tokens"], seconds)
