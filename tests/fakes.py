"""Test doubles. Each one fails loudly when the code asks for more than was scripted."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from string import Template
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, SkipValidation

from mem2evolve.prompts.load import PROMPT_DIR, load_prompt

from .openai_server import Reply, reply_json, reply_text

PARTS = frozenset({"truths"})
"""Prompt files that are put into others."""

Said = AIMessage | str
Speaker = Callable[[list[BaseMessage]], Said]


class ScriptedModel(BaseChatModel):
    """Replies from a list in order, or from a function of the messages, and remembers what it was asked.

    Asking once more than scripted is an `AssertionError`, never a silent repeat: an extra model call is
    a bug and a bill.
    """

    replies: SkipValidation[Sequence[Said] | Speaker]
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    options: list[dict[str, Any]] = Field(default_factory=list)
    """What each call was bound with: tools, response format, temperature."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **options: Any,
    ) -> ChatResult:
        turn = len(self.asked)
        self.asked.append(messages)
        self.options.append(options | ({"stop": stop} if stop else {}))
        if callable(self.replies):
            said = self.replies(messages)
        else:
            assert turn < len(self.replies), (
                f"Model call {turn + 1}, but only {len(self.replies)} scripted. "
                f"Last message: {messages[-1].content!r}"
            )
            said = self.replies[turn]
        message = AIMessage(said) if isinstance(said, str) else said
        return ChatResult(generations=[ChatGeneration(message=message)])

    def assert_spent(self) -> None:
        """Fail if a scripted reply was never asked for."""
        assert callable(self.replies) or len(self.asked) == len(self.replies)


Asked = dict[str, Any]
"""One chat request, as the server got it."""
Answer = Reply | str | dict[str, Any]
"""A string is sent as text, a mapping as JSON."""


class Cast:
    """A script for `OpenAIServer` with a part for each prompt: its replies in order, or a function.

    Requests that run side by side arrive in any order; those of one prompt do not. A prompt without a
    part, or asked more often than its part has lines, fails the test.
    """

    def __init__(self, **parts: Answer | Sequence[Answer] | Callable[[Asked], Answer]) -> None:
        self.asked: list[tuple[str, Asked]] = []
        self._parts: dict[str, Callable[[Asked], Answer]] = {}
        self._lines: dict[str, deque[Answer]] = {}
        for name, part in parts.items():
            assert name in _names(), f"There is no prompt {name!r}."
            if callable(part):
                self._parts[name] = part
            else:
                single = isinstance(part, Reply | str | dict)
                self._lines[name] = deque([part] if single else part)  # type: ignore[list-item]

    def __call__(self, asked: Asked) -> Reply:
        """Answer one request."""
        name = prompt_of(asked)
        self.asked.append((name, asked))
        if name in self._parts:
            answer = self._parts[name](asked)
        else:
            assert self._lines.get(name), f"No line is left for {name!r}: {said(asked)[-300:]!r}"
            answer = self._lines[name].popleft()
        if isinstance(answer, Reply):
            return answer
        return reply_text(answer) if isinstance(answer, str) else reply_json(answer)

    @property
    def order(self) -> list[str]:
        """The prompts in the order of their arrival."""
        return [name for name, _ in self.asked]

    def heard(self, name: str) -> list[str]:
        """What was asked with a prompt: the text of each request, roles left out."""
        return [said(asked) for other, asked in self.asked if other == name]

    def requests(self, name: str) -> list[Asked]:
        """The whole requests made with a prompt."""
        return [asked for other, asked in self.asked if other == name]

    def assert_spent(self) -> None:
        """Fail if a line was never asked for."""
        left = {name: len(lines) for name, lines in self._lines.items() if lines}
        assert not left, f"Never asked for: {left}; asked: {self.order}"


def said(asked: Asked) -> str:
    """Return the text of a request."""
    return "\n".join(str(message.get("content") or "") for message in asked["messages"])


def prompt_of(asked: Asked) -> str:
    """Return which prompt file a request was made with, by the words around its variables."""
    last = _squeeze(str(asked["messages"][-1].get("content")))
    if all(piece in last for piece in _pieces("repair")):
        return "repair"
    text = _squeeze(said(asked))
    fitting = [name for name in _names() if all(piece in text for piece in _pieces(name))]
    assert fitting, f"No prompt file has the words of this request: {text[:500]!r}"
    return max(fitting, key=lambda name: sum(map(len, _pieces(name))))


@cache
def _names() -> list[str]:
    return sorted({path.stem for path in PROMPT_DIR.glob("*.yaml")} - PARTS)


@cache
def _pieces(name: str) -> list[str]:
    prompt = load_prompt(name)
    cut = Template(f"{prompt.system}\n{prompt.text}").safe_substitute(
        dict.fromkeys(prompt.variables, "\0")
    )
    return [piece for part in cut.split("\0") if len(piece := _squeeze(part)) > 12]


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
