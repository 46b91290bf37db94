"""Computations of seconds that a request waits for: few at a time, so that the process answers other requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Final

from auctions.errors import NotReady

AT_ONCE: Final = 2
"""In one process."""
LONGEST_WAIT_S: Final = 5.0

_seats = BoundedSemaphore(AT_ONCE)


class Busy(NotReady):
    """Too many such computations run; the request may come again a few seconds later."""


@contextmanager
def seat() -> Iterator[None]:
    """Compute in the block, as one of few; raises Busy where none ends in time. No transaction may be open."""
    if not _seats.acquire(timeout=LONGEST_WAIT_S):
        raise Busy("The server is busy with other long computations; ask again in a few seconds.")
    try:
        yield
    finally:
        _seats.release()
