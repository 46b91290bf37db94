"""Limits of connections: how many there are, and how long a client may take to send a request or to read its answer.

uvicorn ends connections that were idle since their last answer (`timeout_keep_alive`). It waits without end for a
request that is sent slowly, or for an answer that is not read; and its own limit on connections refuses requests of
clients that are connected already. So its protocol is extended here. A request that has arrived may take any time to be
answered: event streams and waits for decisions have limits of their own.
"""

import json
import socket
from asyncio import Transport
from collections.abc import Iterable
from enum import Enum, auto
from ipaddress import ip_network
from typing import Any, Final

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from cluster.addresses import client_of, parsed
from web.metrics import CONNECTIONS_ENDED, add_one
from web.problems import CONTENT_TYPE, problem

HEAD_LIMIT_BYTES: Final = 65_536
"""Bytes of a head that is not complete after which it is refused."""
QUEUE_LIMIT: Final = 32
"""Largest number of requests of a connection that wait for the answer to an earlier one."""
RETRY_S: Final = 3
"""Seconds for Retry-After."""


class Phase(Enum):
    """The part of a request that a connection waits for."""

    IDLE = auto()
    """The last request is answered, and none has begun."""
    HEAD = auto()
    BODY = auto()
    ANSWER = auto()
    """The request has arrived."""


class Connection(HttpToolsProtocol):
    """A connection of uvicorn with limits.

    `phase` and `since`, the time of the event loop at which the phase began, are those of the latest request: a client
    may send one while the one before it is answered.
    """

    phase: Phase
    since: float
    caller: str | None
    """The address that shares a limit of connections; None for a proxy that is named, which connects for many."""
    _answered: RequestResponseCycle | None = None
    """The request that is being answered, or was last."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin, or refuse a connection beyond the limits."""
        super().connection_made(transport)
        self._head_bytes = 0
        self._is_full = False
        self.caller = _caller(self.client)
        self._enter(Phase.HEAD)
        _limit_unread(transport.get_extra_info("socket"))
        others: list[Connection] = [
            one
            for one in self.connections
            if isinstance(one, Connection) and one is not self and not one.transport.is_closing()
        ]
        shared = sum(one.caller == self.caller for one in others)
        if self.caller is not None and shared >= settings.CONNECTIONS_OF_ONE_ADDRESS:
            self._refuse("address", 429, f"This address has {shared} connections, as many as one may have.")
        elif len(others) >= settings.CONNECTIONS and not _make_room(others):
            self._refuse("all", 503, "The server has as many connections as it may have.")

    def connection_lost(self, exc: Exception | None) -> None:
        """End. The request that is being answered learns of it, too: uvicorn notifies only the latest one."""
        super().connection_lost(exc)
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; a head must not grow without end."""
        if self._is_full:
            return
        if self.phase in (Phase.IDLE, Phase.ANSWER):
            self._head_bytes = 0
            self._enter(Phase.HEAD)
        if self.phase is Phase.HEAD:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_full:
            self._enter(Phase.ANSWER)
        elif self.phase is Phase.HEAD and self._head_bytes > HEAD_LIMIT_BYTES:
            self._refuse("large head", 431, f"The head of a request may have {HEAD_LIMIT_BYTES} bytes.")

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._enter(Phase.HEAD)

    def on_headers_complete(self) -> None:
        """End the head; if too many requests wait, answer these, and neither this one nor what follows.

        After each answer uvicorn reads on, however many wait, so that they would fill the memory.
        """
        self._enter(Phase.BODY)
        if not self._is_full and len(self.pipeline) >= QUEUE_LIMIT:
            self._is_full = True
            self.cycle.keep_alive = False  # the last request that waits: the connection ends with its answer
            add_one(CONNECTIONS_ENDED, "queue")
        if not self._is_full:
            super().on_headers_complete()
            if not self.pipeline:
                self._answered = self.cycle

    def on_body(self, body: bytes) -> None:
        """Add to the body of the request."""
        if not self._is_full:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        super().on_message_complete()
        self._enter(Phase.ANSWER)
        if not self.is_answering:  # it was refused before its body had arrived, which has ended uvicorn's limit
            self._head_bytes = 0
            self._enter(Phase.HEAD)

    def on_response_complete(self) -> None:
        """End the answer; what has begun to arrive meanwhile has its whole time from now on."""
        if self.pipeline:
            self._answered, _ = self.pipeline[-1]
        super().on_response_complete()
        self._enter(self.phase if self.is_answering or self.phase is not Phase.ANSWER else Phase.IDLE)

    @property
    def is_answering(self) -> bool:
        """Whether a request that has arrived is not answered yet."""
        if self.phase is Phase.BODY:  # `cycle` is the request that arrives
            return bool(self.pipeline)
        return self.cycle is not None and not self.cycle.response_complete

    def end_if_late(self) -> None:
        """Answer 408 if the request has not arrived in time; close if none has begun or its answer has."""
        limits = {Phase.HEAD: settings.HEAD_S, Phase.BODY: settings.BODY_S}
        if self.transport.is_closing() or self.loop.time() < self.since + limits.get(self.phase, float("inf")):
            return
        if self.is_answering:
            self.cycle.keep_alive = False
            self._enter(self.phase)
        elif self.phase is Phase.HEAD and not self._head_bytes:
            self._close("head")
        elif self.phase is Phase.HEAD:
            self._refuse("head", 408, f"The head of the request did not arrive within {settings.HEAD_S} s.")
        else:
            self._refuse("body", 408, f"The body of the request did not arrive within {settings.BODY_S} s.")

    def make_room(self) -> None:
        """Close, so that another client can connect."""
        self._close("room")

    def _enter(self, phase: Phase) -> None:
        self.phase, self.since = phase, self.loop.time()

    def _close(self, cause: str) -> None:
        add_one(CONNECTIONS_ENDED, cause)
        self.transport.close()

    def _refuse(self, cause: str, status: int, detail: str) -> None:
        """Answer and close; only close where an answer has begun, which this one would garble."""
        is_begun = self.phase is Phase.BODY and self.cycle.response_started
        if not (is_begun or self.is_answering or self.transport.is_closing()):
            body = json.dumps(problem(status, detail)).encode()
            headers = [
                *self.server_state.default_headers,
                (b"content-type", CONTENT_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
                *([(b"retry-after", str(RETRY_S).encode())] if status in (429, 503) else []),
            ]
            lines = [name + b": " + value + b"\r\n" for name, value in headers]
            self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        self._close(cause)


def end_late(connections: Iterable[object]) -> None:
    """End the connections whose requests have not arrived in time."""
    for one in list(connections):
        if isinstance(one, Connection):
            one.end_if_late()


def _make_room(connections: Iterable[Connection]) -> bool:
    """Close the connection that has waited for a request for longest; return False if all are being answered.

    Otherwise clients that send nothing could hold every connection.
    """
    waiting = [one for one in connections if not one.is_answering]
    if waiting:
        min(waiting, key=lambda one: one.since).make_room()
    return bool(waiting)


def _caller(client: tuple[str, int] | None) -> str | None:
    address = parsed(client[0]) if client else None
    if address is None or any(address in ip_network(one) for one in settings.PROXIES):
        return None
    return client_of(address)


def _limit_unread(connection: Any) -> None:
    """Let the kernel end a connection whose other end takes nothing of what was sent."""
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * settings.BODY_S)
