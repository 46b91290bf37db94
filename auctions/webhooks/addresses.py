"""The network addresses to which webhooks may connect: public ones, and those of networks that the operator allows."""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown

Address = IPv4Address | IPv6Address

_UNICAST: Final = ip_network("2000::/3")
"""Global unicast addresses of IPv6; translated and embedded addresses of IPv4 are outside, except these two."""
_PROTOCOLS: Final = ip_network("192.0.0.0/24")
"""Addresses for protocols. Some versions of Python call a few of them global."""
_TUNNELS: Final = (ip_network("2002::/16"), ip_network("2001::/32"))

_LOOPBACK: Final = (ip_address("127.0.0.1"), ip_address("::1"))


def checked_url(url: str) -> str:
    """Return the address of a webhook.

    Raises
    ------
    InvalidField
        If it is no `https` address without user, password and fragment, or has port 0, or its host is a number that
        webhooks do not reach, or a name of this machine. `http` is for allowed networks only. Another name is looked up
        when a message is sent.
    """
    schemes = ("https", "http") if settings.WEBHOOK_NETWORKS else ("https",)
    expected = f"expected an address such as https://example.org/hook, got {shown(url)}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidField("url", expected) from None
    is_plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    has_scheme = url.startswith(tuple(f"{one}://" for one in schemes))  # in small letters, as senders read it
    if not is_plain or not has_scheme or not host or port == 0 or "@" in parts.netloc or "#" in url:
        raise InvalidField("url", expected)
    stated, is_encrypted = _stated(host), url.startswith("https:")
    if stated and not any(may_connect(address, is_encrypted=is_encrypted) for address in stated):
        network = "a public network" if is_encrypted else "a network to which http is allowed"
        raise InvalidField("url", f"expected a host on {network}, got {shown(host)}")
    return url


def _stated(host: str) -> tuple[Address, ...]:
    """Return the addresses that a host states without a look-up: as a number, in any form that a look-up takes, or as a
    name of this machine (RFC 6761); none for another name.
    """
    if f".{host.lower().removesuffix('.')}".endswith(".localhost"):
        return _LOOPBACK
    try:
        found = socket.getaddrinfo(host.partition("%")[0], None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ()
    return (ip_address(str(found[0][4][0])),)


def usable_addresses(host: str, port: int, *, is_encrypted: bool) -> Iterator[str]:
    """Yield the addresses of a host to which a webhook may connect; the host's name is looked up once.

    Connect to these addresses, not to the name: another look-up may give others.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # a name that does not exist, or that is invalid
        return
    for address in dict.fromkeys(str(row[4][0]).partition("%")[0] for row in found):
        if may_connect(ip_address(address), is_encrypted=is_encrypted):
            yield address


def may_connect(address: Address, *, is_encrypted: bool = True) -> bool:
    """Return whether webhooks may be sent to an address; without encryption only in networks that are allowed."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in ip_network(network) for network in settings.WEBHOOK_NETWORKS):
        return True
    return is_encrypted and _is_public(address)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and (
        address not in _UNICAST or any(address in network for network in _TUNNELS)
    ):
        return False
    return address.is_global and not address.is_multicast and address not in _PROTOCOLS
