"""To which addresses webhooks are sent."""

import socket
from ipaddress import ip_address
from typing import Any

import httpcore
import pytest
from django.conf import LazySettings

from auctions.webhooks.addresses import checked_url, may_connect, usable_addresses
from auctions.webhooks.sending import NO_ADDRESS, send
from scheduling.model.errors import InvalidField
from tests.auctions.webhooks.receiver import receiver

CLOSED = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::", "2001:db8::1",
    "fec0::1",
]  # fmt: skip


@pytest.mark.parametrize("address", CLOSED)
def test_what_is_not_public_is_not_reached(address: str) -> None:
    assert not may_connect(ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_what_is_public_is_reached_with_encryption_alone(address: str) -> None:
    assert may_connect(ip_address(address))
    assert not may_connect(ip_address(address), is_encrypted=False)


def test_an_operator_allows_networks(settings: LazySettings) -> None:
    settings.WEBHOOK_NETWORKS = ["10.1.0.0/16", "fd00::/8"]
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1"):
        assert may_connect(ip_address(address), is_encrypted=False)
    for address in ("10.2.0.1", "127.0.0.1"):
        assert not may_connect(ip_address(address))


@pytest.mark.parametrize(
    "url",
    ["", "example.org", "ftp://example.org/", "http://example.org/", "https://", "https://user:pass@example.org/",
     "https://example.org/#part", "https://example.org:port/", "https://example.org:0/", "https://exa mple.org/", "https://example.org\\@evil.org/",
     "https://exämple.org/", "https://[::1/", "javascript:alert(1)", "HTTPS://example.org/"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidField, match="expected an address such as"):
        checked_url(url)


@pytest.mark.parametrize("address", [*CLOSED, "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "fe80::1%25eth0"])
def test_a_number_that_is_not_public_is_refused(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(InvalidField, match="url: expected a host on a public network, got"):
        checked_url(f"https://{host}:8443/hook")


@pytest.mark.parametrize("host", ["1.1.1.1", "[2606:4700::1111]", "10.example.org", "localhost.org"])
def test_public_numbers_and_names_are_taken_without_a_look_up(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    look_up = socket.getaddrinfo

    def of_numbers(*given: Any, **more: Any) -> Any:
        assert more["flags"] & socket.AI_NUMERICHOST
        return look_up(*given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", of_numbers)
    assert checked_url(f"https://{host}/") == f"https://{host}/"


@pytest.mark.parametrize("host", ["localhost", "LocalHost.", "hook.localhost"])
@pytest.mark.parametrize("network", ["127.0.0.0/8", "::1/128"])
def test_a_name_of_this_machine_is_taken_only_where_its_network_is_allowed(
    settings: LazySettings, host: str, network: str
) -> None:
    with pytest.raises(InvalidField, match="url: expected a host on a public network, got"):
        checked_url(f"https://{host}:8443/hook")
    settings.WEBHOOK_NETWORKS = [network]
    assert checked_url(f"http://{host}:8080/") == f"http://{host}:8080/"


def test_a_number_of_an_allowed_network_is_taken(settings: LazySettings) -> None:
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/8", "::1/128"]
    for url in ("https://10.0.0.1/", "http://10.0.0.1:8080/", "http://[::1]/"):
        assert checked_url(url) == url
    for url in ("https://192.168.0.1/", "http://169.254.169.254/", "http://1.1.1.1/"):
        with pytest.raises(InvalidField, match="url: expected a host on a"):
            checked_url(url)


def test_http_is_for_allowed_networks(settings: LazySettings) -> None:
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/8"]
    assert checked_url("http://inner.example.org/hook") == "http://inner.example.org/hook"


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Let every look-up of a name give the next of these addresses; return the names that were looked up."""
    asked: list[str] = []
    rest = iter(answers)

    def look_up(host: str, port: int, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(rest), port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254"])
def test_a_name_of_an_inner_address_is_not_connected_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    with receiver() as there:
        port = there.url.rpartition(":")[2].partition("/")[0]
        resolving(monkeypatch, address)
        assert send(f"https://inner.example.org:{port}/", {}, b"{}").problem == NO_ADDRESS
        assert not there.received


def test_a_name_is_looked_up_once_and_what_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose next look-up gives an inner address (DNS rebinding) gains nothing."""
    connected = []

    def connect(_self: object, host: str, port: int, **_: object) -> httpcore.NetworkStream:
        connected.append((host, port))
        raise httpcore.ConnectError("refused")

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    asked = resolving(monkeypatch, "1.1.1.1", "127.0.0.1")
    assert send("https://rebinding.example.org/", {}, b"{}").problem == "no connection: refused or closed"
    assert (asked, connected) == (["rebinding.example.org"], [("1.1.1.1", 443)])


def test_an_inner_address_among_public_ones_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443)) for one in ("10.0.0.1", "1.1.1.1", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert list(usable_addresses("mixed.example.org", 443, is_encrypted=True)) == ["1.1.1.1"]


def test_a_name_that_does_not_exist_is_answered_like_an_inner_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    assert send("https://nowhere.example.org/", {}, b"{}").problem == NO_ADDRESS


def test_a_literal_inner_address_is_not_connected_to() -> None:
    with receiver() as there:
        assert send(there.url, {}, b"{}").problem == NO_ADDRESS
        assert send(there.url.replace("http:", "https:"), {}, b"{}").problem == NO_ADDRESS
        assert not there.received
