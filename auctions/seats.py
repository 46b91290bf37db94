"""How many requests a process answers at once. One without a seat waits in line, without a thread or a connection.

Each request that is answered has a thread and a database connection of its own. Threads of Python share an interpreter:
with dozens of readers at work, a thread that holds the database's lock gets so little of it that a transaction of
0.2 s lasts ten, and everybody who wants to write waits for it.
"""

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from typing import Final

LONGEST_WAIT_S: Final = 10.0
"""Whoever has no seat by then is asked to come again."""


class Seats:
    """The seats of one kind of request, for one event loop."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def take(self) -> bool:
        """Wait in line for a seat; False if that took too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT_S):
                return await self._free.acquire()
        return False

    def give_back(self) -> None:
        """Let the next in line have it."""
        self._free.release()


class Visit:
    """One request on its way: it has a seat while it is answered."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._seats: Seats | None = None
        _visit.set(self)

    async def sit(self, seats: Seats) -> bool:
        """Take a seat; False if none was free for a long time."""
        if not await seats.take():
            return False
        self._seats = seats
        return True

    def leave(self) -> None:
        """Give the seat back, if it still has one."""
        seats, self._seats = self._seats, None
        if seats is not None:
            seats.give_back()

    def leave_soon(self) -> None:
        """The same from any thread."""
        self._loop.call_soon_threadsafe(self.leave)


_visit: ContextVar[Visit | None] = ContextVar("visit", default=None)


def leave() -> None:
    """Give this request's seat back: it goes on to wait, and computes nothing any more."""
    visit = _visit.get()
    if visit is not None:
        visit.leave_soon()
