"""Finds the chat model behind a model string, and keeps it for the life of an event loop."""

import asyncio
import os
import weakref
from collections.abc import Callable
from typing import Final

from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ..errors import ConfigError, ModelError
from ..settings import EMBEDDED_MODEL, Settings
from .chat import Chat
from .faults import translate
from .profiles import CAPABLE, SMALL, Profile

TIMEOUT_S: Final = 120.0
"""A provider's reply; the embedded model gets `EMBEDDED_TIMEOUT_S`."""
EMBEDDED_TIMEOUT_S: Final = 900.0
RETRIES: Final = 2

Start = Callable[[], tuple[str, str]]
"""Starts the embedded model's server: returns base URL and model name. May block."""


class Models:
    """Chat models by model string.

    A client belongs to the event loop it first ran on, so models are kept per loop: a program may call
    `asyncio.run` more than once.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        start_embedded: Start | None = None,
        given: BaseChatModel | None = None,
    ) -> None:
        """Bind the settings.

        Args:
            settings: Names the default model.
            start_embedded: How to start the embedded model; by default without asking for a download.
            given: A model to use for every role instead, for embedders and tests.
        """
        self._settings = settings
        self._start = start_embedded or _start_embedded
        self._given = given
        self._kept: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Chat]] = (
            weakref.WeakKeyDictionary()
        )

    async def chat(self, name: str = "") -> Chat:
        """Return the model of that name, or the default one.

        Raises:
            ConfigError: If the string names no model.
            ModelError: If the embedded model cannot be started.
        """
        name = name or self._settings.model
        kept = self._kept.setdefault(asyncio.get_running_loop(), {})
        if name not in kept:
            kept[name] = await self._open(name)
        return kept[name]

    async def close(self) -> None:
        """Forget the models of this event loop."""
        self._kept.pop(asyncio.get_running_loop(), None)

    async def _open(self, name: str) -> Chat:
        if self._given is not None and name in ("", self._settings.model):
            return Chat(name, self._given, CAPABLE)
        if name == EMBEDDED_MODEL:
            base_url, served = await asyncio.to_thread(self._start)
            model = _openai(served, base_url=base_url, key="none", timeout_s=EMBEDDED_TIMEOUT_S)
            return Chat(name, model, SMALL)
        provider, colon, rest = name.partition(":")
        if colon and provider == "openai":
            return Chat(name, await _openai_from_env(rest), CAPABLE)
        return Chat(name, await asyncio.to_thread(_other, name), _profile(name))


def _profile(name: str) -> Profile:
    return SMALL if name.startswith(("ollama:", "llamacpp:")) else CAPABLE


def _start_embedded() -> tuple[str, str]:
    from .embedded import start  # noqa: PLC0415 - only where it is used

    return start()


def _openai(name: str, *, base_url: str | None, key: str, timeout_s: float) -> ChatOpenAI:
    import httpx  # noqa: PLC0415 - `--help` must not load it

    # Proxies are for the world outside, never for a server on this machine.
    local = base_url is not None and httpx.URL(base_url).host in ("127.0.0.1", "localhost", "::1")
    return ChatOpenAI(
        model=name,
        base_url=base_url,
        api_key=SecretStr(key),
        timeout=timeout_s,
        max_retries=RETRIES,
        stream_usage=True,
        http_async_client=httpx.AsyncClient(timeout=timeout_s, trust_env=not local),
        http_client=httpx.Client(timeout=timeout_s, trust_env=not local),
    )


async def _openai_from_env(name: str) -> ChatOpenAI:
    base_url = os.environ.get("OPENAI_BASE_URL") or None
    key = os.environ.get("OPENAI_API_KEY") or ("none" if base_url else "")
    if not key:
        raise ConfigError(
            f"Model {f'openai:{name}'!r} needs a key.",
            hint="Set OPENAI_API_KEY, or unset MEM2EVOLVE_MODEL to use the embedded model.",
        )
    if not name:
        name = await _only_model(base_url or "", key)
    return _openai(name, base_url=base_url, key=key, timeout_s=TIMEOUT_S)


async def _only_model(base_url: str, key: str) -> str:
    """Ask a compatible server which model it serves, when none is named."""
    import openai  # noqa: PLC0415 - `--help` must not load it

    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, timeout=30.0) as client:
        try:
            names = [model.id async for model in client.models.list()]
        except Exception as exc:
            raise translate(exc, f"openai at {base_url}") from exc
    if len(names) != 1:
        raise ConfigError(
            f"OPENAI_BASE_URL={base_url!r} serves {len(names)} models and none is named.",
            hint=f"Set MEM2EVOLVE_MODEL to openai:NAME, one of {', '.join(names[:8]) or '(none)'}.",
        )
    return names[0]


def _other(name: str) -> BaseChatModel:
    """Open another provider's model by LangChain's string."""
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - only where it is used

    try:
        return init_chat_model(name)
    except ImportError as exc:
        raise ConfigError(
            f"Model {name!r} needs a package: {exc}.", hint="Install the package it names."
        ) from exc
    except ValueError as exc:
        raise ConfigError(
            f"{name!r} is not a model: {' '.join(str(exc).split())[:200]}",
            hint="Write provider:model, as in openai:gpt-5, or `embedded`.",
        ) from exc
    except Exception as exc:
        raise ModelError(
            f"Model {name!r} cannot be opened: {exc}.", hint="Check its key and settings."
        ) from exc
