"""Which network addresses belong to the open internet, and not to this machine's surroundings."""

import ipaddress
import socket
from typing import Final

# Each holds an IPv4 address inside, which could be a private one.
TUNNELS: Final = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
)


def is_public(address: str) -> bool:
    """Tell whether an address belongs to the open internet."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        elif any(found in tunnel for tunnel in TUNNELS):
            return False
    return found.is_global and not (found.is_multicast or found.is_reserved)


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host. Blocks.

    Raises:
        OSError: If it has none.
        ValueError: If it is no host name.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))
