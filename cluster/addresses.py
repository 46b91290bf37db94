"""The address that a request comes from, for limits on callers who are not signed in."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Protocol

OF_ONE_CLIENT: int = 64
"""Bits of an IPv6 address that name a network: one client has all addresses in it."""


class HasMeta(Protocol):
    """A request of Django or of the REST framework."""

    @property
    def META(self) -> Any:  # noqa: N802 (Django's name)
        """Its headers and its connection."""


def address_of(request: HasMeta) -> str | None:
    """The client's IPv4 address, or its IPv6 network of 64 bits; None if there is none, as on a Unix socket.

    It is the other end of the connection. If a trusted proxy connects, the server puts the client's address there
    (`settings.PROXIES`); no header is read here.
    """
    try:
        found: IPv4Address | IPv6Address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return None
    if isinstance(found, IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    rest = 128 - OF_ONE_CLIENT
    return str(IPv6Address(int(found) >> rest << rest))
