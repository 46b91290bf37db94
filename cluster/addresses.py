"""The address that a request comes from, for limits on callers who are not signed in; ports that commands are given."""

from argparse import ArgumentTypeError
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
    found = parsed(request.META.get("REMOTE_ADDR", ""))
    return None if found is None else client_of(found)


def parsed(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address, IPv4 also where it is written as IPv6; None if the text is not an address."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def client_of(address: IPv4Address | IPv6Address) -> str:
    """Return the IPv4 address, or the IPv6 network of 64 bits, that names a client."""
    if isinstance(address, IPv4Address):
        return str(address)
    rest = 128 - OF_ONE_CLIENT
    return str(IPv6Address(int(address) >> rest << rest))


def port(text: str) -> int:
    """Read the port of a command's option. A larger number would count modulo 65,536: another port would be served."""
    number = int(text) if text.isdecimal() else 0
    if not 0 < number < 65536:
        raise ArgumentTypeError(f"expected a port from 1 to 65535, got {text!r}")
    return number
