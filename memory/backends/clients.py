"""Connections to a Qdrant server, one for each event loop."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

from ...settings import without_secret
from .faults import translate_server

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

T = TypeVar("T")

TIMEOUT_SECONDS: Final = 30


class Clients:
    """Connects at the first call. The stores of one server may share it.

    Args:
        url: Of the server.
        api_key: If it asks for one.
        location: `:memory:` for a server in this process that dies with it, instead of `url`.
    """

    def __init__(
        self, *, url: str | None = None, api_key: str | None = None, location: str | None = None
    ) -> None:
        self._url, self._api_key, self._location = url, api_key, location
        # A client's connections belong to the event loop that opened them.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncQdrantClient] = (
            WeakKeyDictionary()
        )
        self._local: AsyncQdrantClient | None = None
        self._connecting = threading.Lock()

    @property
    def name(self) -> str:
        """Which server, for messages."""
        return without_secret(self._url) if self._url else str(self._location)

    @property
    def in_process(self) -> bool:
        """Whether it is no server but a store in this process."""
        return self._location is not None

    async def call(self, ask: "Callable[[AsyncQdrantClient], Awaitable[T]]") -> T:
        """Return what `ask` makes of this event loop's client; errors are this program's own."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = await asyncio.to_thread(self._connect, loop)
        try:
            return await ask(client)
        except Exception as exc:
            error = translate_server(exc, self.name)
            if error is exc:
                raise
            raise error from exc

    async def has(self, name: str) -> bool:
        """Whether there is a collection of that name."""
        return await self.call(lambda client: client.collection_exists(name))

    async def remove(self, name: str) -> None:
        """Remove a collection."""
        await self.call(lambda client: client.delete_collection(name))

    async def close(self) -> None:
        """Close this event loop's connections; those of loops that have ended died with them."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        self._clients.clear()
        if client is not None and client is not self._local:
            await client.close()

    def _connect(self, loop: asyncio.AbstractEventLoop) -> "AsyncQdrantClient":
        from qdrant_client import AsyncQdrantClient  # noqa: PLC0415 - heavy

        with self._connecting:
            client = self._clients.get(loop) or self._local
            if client is None and self._location is not None:
                client = self._local = AsyncQdrantClient(location=self._location)
            elif client is None:
                # The version check would be one more request, made by the constructor.
                client = AsyncQdrantClient(
                    url=self._url,
                    api_key=self._api_key,
                    timeout=TIMEOUT_SECONDS,
                    check_compatibility=False,
                )
            self._clients[loop] = client
            return client
