"""One attempt to send a message: no redirect is followed, the answer's body is not read, and there is a time limit."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any, Final

import httpcore

from auctions.webhooks.addresses import usable_addresses

TIME_LIMIT_S: Final = 10.0
"""Time from the look-up of the host's name to the status of the answer."""
CONNECT_S: Final = 4.0
"""Longest time for one address of a host."""
MOST_ADDRESSES: Final = 3
AGENT: Final = "Shadowprice-Webhooks/1"
NO_ADDRESS: Final = "the host has no address that is allowed"
"""The same words for a name that does not exist: a user must not learn the names of an inner network."""


@dataclass(frozen=True)
class Outcome:
    """Result of an attempt: the status of the answer, or why there was none."""

    answer: int | None = None
    problem: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the receiver has taken the message."""
        return self.answer is not None and 200 <= self.answer < 300


def send(url: str, headers: dict[str, str], body: bytes) -> Outcome:
    """Send a message; what the receiver or the network does is a result, never an exception."""
    sent = [("Content-Type", "application/json"), ("User-Agent", AGENT), *headers.items()]
    backend = _PublicNetwork(is_encrypted=url.startswith("https:"))
    try:
        with (
            httpcore.ConnectionPool(ssl_context=_tls(), network_backend=backend, max_connections=1) as pool,
            pool.stream("POST", url, headers=sent, content=body) as response,
        ):
            return _outcome(response.status)
    except _NoAddress:
        return Outcome(problem=NO_ADDRESS)
    except (httpcore.TimeoutException, TimeoutError):
        return Outcome(problem=f"no answer within {TIME_LIMIT_S:.0f} s")
    except httpcore.NetworkError as error:
        return Outcome(problem=f"no connection: {_words(error)}")
    except httpcore.ProtocolError:
        return Outcome(problem="the answer is not HTTP")


def _outcome(status: int) -> Outcome:
    if Outcome(status).is_success:
        return Outcome(status)
    if 300 <= status < 400:
        return Outcome(status, "redirects are not followed")
    return Outcome(status, f"expected a status of 200 to 299, got {status}")


def _words(error: Exception) -> str:
    """Return what is wrong in a few words."""
    cause = error.__context__
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__context__
    return f"certificate: {cause.verify_message}" if cause is not None else "refused or closed"


@cache
def _tls() -> ssl.SSLContext:
    """Certificates are checked against those of the system, or of the file that SSL_CERT_FILE names."""
    return ssl.create_default_context()


class _NoAddress(Exception):
    """The host has no address to which a webhook may connect."""


class _PublicNetwork(httpcore.NetworkBackend):
    """Connects to addresses that are allowed, those that it has checked itself, until the time limit."""

    def __init__(self, *, is_encrypted: bool) -> None:
        self._inner = httpcore.SyncBackend()
        self._is_encrypted = is_encrypted
        self._ends = monotonic() + TIME_LIMIT_S

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address that answers; raises `_NoAddress` if none is allowed."""
        failed: Exception = _NoAddress()
        addresses = list(usable_addresses(host, port, is_encrypted=self._is_encrypted))
        for address in addresses[:MOST_ADDRESSES]:
            try:
                stream = self._inner.connect_tcp(address, port, timeout=min(CONNECT_S, _left(self._ends)))
            except (httpcore.NetworkError, httpcore.TimeoutException) as error:
                failed = error
            else:
                return _Limited(stream, self._ends)
        raise failed


class _Limited(httpcore.NetworkStream):
    """A connection whose every step ends at the same time, so that a slow receiver cannot prolong it."""

    def __init__(self, inner: httpcore.NetworkStream, ends: float) -> None:
        self._inner, self._ends = inner, ends

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what is there; raises ReadError if the receiver closed the connection before its answer was complete."""
        found = self._inner.read(max_bytes, _left(self._ends))
        if not found:
            raise httpcore.ReadError("closed")
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of it."""
        self._inner.write(buffer, _left(self._ends))

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Encrypt it; the certificate must be for the host's name."""
        return _Limited(self._inner.start_tls(ssl_context, server_hostname, _left(self._ends)), self._ends)

    def get_extra_info(self, info: str) -> Any:
        """Return what the connection knows."""
        return self._inner.get_extra_info(info)


def _left(ends: float) -> float:
    """Return the time that is left; raises TimeoutException without any."""
    left = ends - monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout(f"{TIME_LIMIT_S:.0f} s are over")
    return left
