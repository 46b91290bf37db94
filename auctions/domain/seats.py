"""How many requests a process answers at once. One without a seat waits in line, without a thread or a connection.

Each request that is answered has a thread and a database connection of its own. Threads of Python share an interpreter:
with dozens of readers at work, a thread that holds the database's lock gets so little of it that a transaction of
0.2 s lasts ten, and everybody who wants to write waits for it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import ContextVar
from typing import Final
from weakref import WeakValueDictionary

LONGEST_WAIT_S: Final = 10.0
"""Whoever has no seat by then is asked to come again."""
MOST_KNOWN: Final = 10_000
"""Cookies and tokens whose users a process remembers."""


class Seats:
    """The seats of one kind of request, for one event loop; one caller has at most half of them."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._of_one = max(1, count // 2)
        self._shares: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    async def take(self, caller: Hashable) -> Callable[[], None] | None:
        """Wait in line for a seat, first among the caller's own requests; what gives it back, None if it took too long.

        Requests beyond the caller's share are not yet in the line of all.
        """
        share = self._shares.setdefault(caller, asyncio.Semaphore(self._of_one))
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT_S):
                await share.acquire()
                try:
                    await self._free.acquire()
                except BaseException:
                    share.release()
                    raise

                def give_back() -> None:
                    self._free.release()
                    share.release()

                return give_back
        return None


class Callers:
    """Which user a cookie or a token belongs to, as answered requests have shown: known without the database."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, int] = OrderedDict()

    def of(self, credential: str) -> Hashable:
        """The user's key; the cookie or token itself while its user is not known."""
        return self._users.get(credential, credential)

    def learn(self, credential: str, user_id: int) -> None:
        """Remember it; the one that was learned first is forgotten where there are too many."""
        self._users[credential] = user_id
        if len(self._users) > MOST_KNOWN:
            self._users.popitem(last=False)


class Visit:
    """One request on its way: it has a seat while it is answered."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._give_back: Callable[[], None] | None = None
        _visit.set(self)

    async def sit(self, seats: Seats, caller: Hashable) -> bool:
        """Take a seat; False if none was free for a long time."""
        self._give_back = await seats.take(caller)
        return self._give_back is not None

    def leave(self) -> None:
        """Give the seat back, if it still has one."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def leave_soon(self) -> None:
        """The same from any thread."""
        self._loop.call_soon_threadsafe(self.leave)


_visit: ContextVar[Visit | None] = ContextVar("visit", default=None)


def leave() -> None:
    """Give this request's seat back: it goes on to wait, and computes nothing any more."""
    visit = _visit.get()
    if visit is not None:
        visit.leave_soon()
