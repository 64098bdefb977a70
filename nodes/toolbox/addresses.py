"""Which addresses a page may be read from: public ones, and nothing of this machine's network."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from ...errors import ToolFailure
from ...sandbox.addresses import is_public
from .web import WebUnavailable

AddressCheck: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Takes host and port; returns the addresses to connect to, or raises `ToolFailure`."""

TOOL: Final = "read_webpage"


async def public_addresses(host: str, port: int) -> list[str]:
    """Resolve a host, and return its addresses if all of them are public.

    Raises:
        WebUnavailable: If the name cannot be resolved.
        ToolFailure: If it is no host name, or has an address that is not public.
    """
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as exc:
        # Without a network some systems say "no such name" too, so it must not count as a mistake.
        reason = f"{host!r:.200} was not found: either it does not exist, or the web cannot be "
        raise WebUnavailable(TOOL, reason + "reached from here. Go on without it.") from exc
    except (OSError, UnicodeError, ValueError) as exc:
        raise ToolFailure(TOOL, f"{host!r:.200} is not a host name.") from exc
    addresses = list(dict.fromkeys(str(where[0]) for *_, where in found))
    if not addresses or not all(map(is_public, addresses)):
        raise ToolFailure(
            TOOL,
            f"{host!r:.200} is not on the public web but in a private network; only public pages "
            "can be read.",
        )
    return addresses
