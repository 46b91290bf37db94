"""Connections that are kept for the next request or task of this process: a new one costs the server 6 ms.

Django's connections belong to threads, and there are more threads than connections are needed. When Django closes a
connection of a request or a task that is fit for further use, it is kept here instead, and the next thread with the
same limits takes it. A few are kept, for a few seconds. Commands such as `migrate` keep none.
"""

import os
import select
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Final

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, connection

MOST: Final = 12
"""Largest number of connections that a process keeps while nobody uses them: as many as bids are stored at once."""
LONGEST_S: Final = 5.0
"""Time after which a connection that nobody used is closed."""
LOOK_EVERY_S: Final = 1.0


@dataclass(frozen=True)
class _Kept:
    """A connection that nobody uses."""

    connection: connection
    parameters: Hashable
    """The parameters it was opened with."""
    since: float = field(default_factory=monotonic)


_kept: list[_Kept] = []
"""In the order in which they were put here."""
_guard = Lock()
_closer: Thread | None = None


def take(parameters: Hashable) -> connection | None:
    """Return the connection with these parameters that was used last, and is still open; None without one."""
    while (found := _last(parameters)) is not None:
        if not _has_ended(found):
            return found
        found.close()
    return None


def put(one: connection, parameters: Hashable) -> bool:
    """Keep a connection; False if it is not fit for further use, or if there are enough."""
    global _closer
    if one.closed or one.info.transaction_status != TRANSACTION_STATUS_IDLE:
        return False
    with _guard:
        if len(_kept) >= MOST:
            return False
        _kept.append(_Kept(one, parameters))
        if _closer is None:
            _closer = Thread(target=_close_from_time_to_time, name="kept connections", daemon=True)
            _closer.start()
    return True


def close_old(*, now: float) -> None:
    """Close connections that nobody used for long."""
    with _guard:
        old = [one for one in _kept if now > one.since + LONGEST_S]
        _kept[:] = [one for one in _kept if one not in old]
    for one in old:
        one.connection.close()


def _last(parameters: Hashable) -> connection | None:
    with _guard:
        for i in reversed(range(len(_kept))):
            if _kept[i].parameters == parameters:
                return _kept.pop(i).connection
    return None


def _has_ended(one: connection) -> bool:
    """Whether the server has closed a connection, or has said anything since: nothing is due on it."""
    if one.closed:
        return True
    with suppress(psycopg2.Error, OSError, ValueError):
        return bool(select.select([one], [], [], 0)[0])
    return True


def _close_from_time_to_time() -> None:
    while True:
        sleep(LOOK_EVERY_S)
        close_old(now=monotonic())


def _forget() -> None:
    """A process that was forked must not use the connections of the one it came from; psycopg2 leaves them open."""
    global _closer, _guard
    _guard = Lock()
    _closer = None
    _kept.clear()


os.register_at_fork(after_in_child=_forget)
