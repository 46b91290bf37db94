"""Wait within a request until a worker has settled a row (`Prefer: wait`)."""

from collections import Counter
from collections.abc import Container
from threading import Lock
from time import monotonic
from typing import Final, Protocol

from cluster.database.waiting import never_in_transaction
from web import seats, shutdown

FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.1
MOST_WAITERS: Final = 32
"""Largest number of requests that wait at once in one process; each holds a thread and a database connection."""

MOST_OF_ONE_USER: Final = MOST_WAITERS // 2

_waiters = Counter[int]()
"""Number of requests of each user that wait, by the user's key."""
_guard = Lock()


class Changing(Protocol):
    """A row whose state other processes write."""

    state: str

    def refresh_from_db(self, *, fields: list[str] | None = None) -> None:
        """Read it again, or some of its columns."""
        ...


def wait_until_settled(row: Changing, seconds: int, *, waiting: Container[str], user: int) -> bool:
    """Poll until its state is not in `waiting` or time is up; False if too many wait already, as `Prefer` allows.

    `user` is the key of the user whose request waits. Meanwhile no transaction is open, no lock is held, and the seat
    is released. The wait ends early if the server is to stop.
    """
    never_in_transaction("A decision")
    with _guard:
        if _waiters.total() >= MOST_WAITERS or _waiters[user] >= MOST_OF_ONE_USER:
            return False
        _waiters[user] += 1
    seats.leave()
    try:
        _look(row, seconds, waiting)
    finally:
        with _guard:
            _waiters[user] -= 1
            if not _waiters[user]:
                del _waiters[user]
    return True


def _look(row: Changing, seconds: int, waiting: Container[str]) -> None:
    deadline, pause = monotonic() + seconds, FIRST_PAUSE_S
    while row.state in waiting and (left := deadline - monotonic()) > 0:
        if shutdown.pause(min(pause, left)):
            break
        pause = min(2 * pause, LONGEST_PAUSE_S)
        row.refresh_from_db(fields=["state"])
    row.refresh_from_db()
