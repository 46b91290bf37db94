"""The claim on a market: the worker that holds it decides the market's bids, and others pass the market by.

Without claims several workers that are woken for one market would wait for its row in turns, and each would bring its
book up to date again. Claims save that work. That no bid is decided twice rests on the lock of the market's row alone
(`auctions/domain/lock.py`), which every decision still takes.

On PostgreSQL a claim is an advisory lock of the session. If the process that holds it dies, its connection ends, and
the claim is free at once. SQLite is for the threads of one process, and a claim is in its memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final

from django.db import DatabaseError, InterfaceError, connection

SPACE: Final = 20_260
"""First key of the advisory locks of claims; the second one is the market's."""
LARGEST_KEY: Final = 2**31

_held: set[int] = set()
_guard = Lock()


def take(market_id: int) -> bool:
    """Take the claim on a market if nobody has it; return whether this thread has it now. Nobody is waited for."""
    if connection.vendor == "postgresql":
        return _ask("pg_try_advisory_lock", market_id)
    with _guard:
        is_free = market_id not in _held
        _held.add(market_id)
        return is_free


def release(market_id: int) -> None:
    """Release the claim on a market that this thread has."""
    if connection.vendor == "postgresql":
        with suppress(DatabaseError, InterfaceError):  # the connection has ended, and with it the lock
            _ask("pg_advisory_unlock", market_id)
        return
    with _guard:
        _held.discard(market_id)


@contextmanager
def claim(market_id: int) -> Iterator[bool]:
    """Hold the claim on a market while the block runs, if nobody has it; yield whether it is held."""
    is_held = take(market_id)
    try:
        yield is_held
    finally:
        if is_held:
            release(market_id)


def _ask(function: str, market_id: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s, %s)", [SPACE, market_id % LARGEST_KEY])
        return bool(cursor.fetchone()[0])
