"""Finds the chat model behind a model string, and keeps it for the life of an event loop."""

import asyncio
import math
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ..errors import ConfigError, ModelError
from ..settings import EMBEDDED_MODEL, Settings
from .chat import Chat
from .faults import translate
from .profiles import CAPABLE, SMALL, Profile

if TYPE_CHECKING:
    from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

TIMEOUT: Final = "MEM2EVOLVE_MODEL_TIMEOUT"
"""Seconds to wait for a reply, from the environment."""
TIMEOUT_S: Final = 120.0
"""A provider's reply; the embedded model gets `EMBEDDED_TIMEOUT_S`."""
EMBEDDED_TIMEOUT_S: Final = 900.0
LISTING_S: Final = 30.0
"""At the most, for a server's list of models."""
PROXIES: Final = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")
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
            model = await _openai(served, base_url, key="none", default_s=EMBEDDED_TIMEOUT_S)
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


def timeout_from_env(default_s: float) -> float:
    """Return how many seconds a reply may take.

    Raises:
        ConfigError: If MEM2EVOLVE_MODEL_TIMEOUT is not a number of seconds above zero.
    """
    text = os.environ.get(TIMEOUT)
    if not text:
        return default_s
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ConfigError(
            f"{TIMEOUT}={text!r} is not a number of seconds above zero.",
            hint=f"Unset it to wait {default_s:g} seconds.",
        )
    return seconds


async def _openai(name: str, base_url: str | None, *, key: str, default_s: float) -> ChatOpenAI:
    """Open a client; in a thread, since it reads certificates from the disk."""
    timeout_s = timeout_from_env(default_s)

    def open_client() -> ChatOpenAI:
        own, blocking = _clients(base_url, timeout_s)
        return ChatOpenAI(
            model=name,
            base_url=base_url,
            api_key=SecretStr(key),
            timeout=timeout_s,
            max_retries=RETRIES,
            stream_usage=True,
            http_async_client=own,
            http_client=blocking,
            http_socket_options=(),  # they are for clients that it makes itself, and it warns
        )

    return await asyncio.to_thread(open_client)


def _clients(
    base_url: str | None, timeout_s: float
) -> "tuple[DefaultAsyncHttpxClient, DefaultHttpxClient]":
    """Return clients for a server. Proxies are for the world outside, never for this machine.

    Raises:
        ConfigError: If the URL is none, or the proxy named in the environment cannot be used.
    """
    import openai  # noqa: PLC0415 - `--help` must not load it

    direct = base_url is not None and _host(base_url) in ("127.0.0.1", "localhost", "::1")
    try:
        return (
            openai.DefaultAsyncHttpxClient(timeout=timeout_s, trust_env=not direct),
            openai.DefaultHttpxClient(timeout=timeout_s, trust_env=not direct),
        )
    except (ImportError, ValueError) as exc:  # no SOCKS support; no proxy's URL
        named = [name for name in PROXIES if os.environ.get(name) or os.environ.get(name.lower())]
        raise ConfigError(
            f"The proxy that {' or '.join(named) or 'the environment'} names cannot be used: {exc}",
            hint="Unset it, name an http:// proxy, or list the server's host in NO_PROXY.",
        ) from exc


def _host(base_url: str) -> str:
    """Return the host of OPENAI_BASE_URL.

    Raises:
        ConfigError: If it is no http or https URL.
    """
    try:
        url = urlsplit(base_url)
        sound = url.scheme in ("http", "https") and url.port != 0
        host = url.hostname if sound else None
    except ValueError:  # a port or an address that is none
        host = None
    if not host:
        raise ConfigError(
            f"OPENAI_BASE_URL={base_url!r} is not the URL of a server.",
            hint="Write it like http://127.0.0.1:8000/v1, or unset it.",
        )
    return host


async def _openai_from_env(name: str) -> ChatOpenAI:
    base_url = os.environ.get("OPENAI_BASE_URL") or None
    if not name and base_url is None:
        raise ConfigError(
            "'openai:' names no model, and OPENAI_BASE_URL no server to ask for its only one.",
            hint="Write openai:NAME, as in openai:gpt-5, or set OPENAI_BASE_URL.",
        )
    key = os.environ.get("OPENAI_API_KEY") or ("none" if base_url else "")
    if not key:
        raise ConfigError(
            f"Model {f'openai:{name}'!r} needs a key.",
            hint="Set OPENAI_API_KEY, or unset MEM2EVOLVE_MODEL to use the embedded model.",
        )
    if not name:
        name = await _only_model(base_url or "", key)
    return await _openai(name, base_url, key=key, default_s=TIMEOUT_S)


async def _only_model(base_url: str, key: str) -> str:
    """Ask a compatible server which model it serves, when none is named."""
    import openai  # noqa: PLC0415 - `--help` must not load it

    timeout_s = min(LISTING_S, timeout_from_env(TIMEOUT_S))
    own, _ = await asyncio.to_thread(_clients, base_url, timeout_s)
    async with openai.AsyncOpenAI(
        base_url=base_url, api_key=key, timeout=timeout_s, http_client=own
    ) as client:
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
        cause = " ".join(str(exc).split())[:200].rstrip(".")
        if "infer model provider" in cause:  # the text goes on with a list of all providers
            provider, colon, _ = name.partition(":")
            cause = f"no provider {provider!r} is known" if colon else "it names no provider"
        raise ConfigError(
            f"{name!r} is not a model: {cause}.",
            hint="Write provider:model, as in openai:gpt-5, or `embedded`.",
        ) from exc
    except Exception as exc:
        raise ModelError(
            f"Model {name!r} cannot be opened: {str(exc).rstrip('.')}.",
            hint="Check its key and settings.",
        ) from exc
