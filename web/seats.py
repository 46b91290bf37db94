"""Limit how many requests a process answers at once. Other requests wait without a thread or a connection.

A request that is answered has its own thread and database connection. Threads of Python share one interpreter. With
dozens of readers, a thread that holds the database's lock gets so little processor time that a transaction of 0.2 s
takes 10 s, and all other writers wait for it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import ContextVar
from typing import Final
from weakref import WeakValueDictionary

LONGEST_WAIT_S: Final = 10.0
"""Longest time that a request waits for a seat, seconds; after that, the client is asked to retry."""
MOST_KNOWN: Final = 10_000
"""Largest number of cookies and tokens whose users a process remembers."""


class Seats:
    """The seats for one type of request, for one event loop; one caller has at most half of them."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._of_one = max(1, count // 2)
        self._shares: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    async def take(self, caller: Hashable) -> Callable[[], None] | None:
        """Wait for a seat; return a function that releases it, or None if the wait took too long.

        Requests beyond the caller's share first wait for the caller's own requests, then with all others.
        """
        share = self._shares.setdefault(caller, asyncio.Semaphore(self._of_one))

        def give_back() -> None:
            self._free.release()
            share.release()

        if not (share.locked() or self._free.locked()):  # neither waits, so no time is limited
            await share.acquire()
            await self._free.acquire()
            return give_back
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT_S):
                await share.acquire()
                try:
                    await self._free.acquire()
                except BaseException:
                    share.release()
                    raise
                return give_back
        return None


class Callers:
    """The user of each cookie or token, remembered from answered requests, so that the database is not asked."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, int] = OrderedDict()

    def user_of(self, credential: str) -> int | None:
        """Return the user's key; None while it is not known: a cookie or token may be made up."""
        return self._users.get(credential)

    def learn(self, credential: str, user_id: int) -> None:
        """Remember the user of a credential; if there are too many, forget the one that was learned first."""
        self._users[credential] = user_id
        if len(self._users) > MOST_KNOWN:
            self._users.popitem(last=False)


class Visit:
    """One request, which has a seat while it is answered."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._give_back: Callable[[], None] | None = None
        _visit.set(self)

    async def sit(self, seats: Seats, caller: Hashable) -> bool:
        """Take a seat; return False if none became free in time."""
        self._give_back = await seats.take(caller)
        return self._give_back is not None

    def leave(self) -> None:
        """Release the seat, if the request still has one."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def leave_soon(self) -> None:
        """Release the seat; may be called from any thread."""
        self._loop.call_soon_threadsafe(self.leave)


_visit: ContextVar[Visit | None] = ContextVar("visit", default=None)


def leave() -> None:
    """Release the seat of this request, which from now on only waits and computes nothing."""
    visit = _visit.get()
    if visit is not None:
        visit.leave_soon()
