"""Limit how many computations of several seconds run at once, so that the process can answer other requests."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Condition
from typing import Final

from auctions.domain.errors import NotReady

LONGEST_WAIT_S: Final = 5.0


class Busy(NotReady):
    """Too many such computations run; the client may retry a few seconds later."""


class Turns:
    """One type of computation in this process: limits on how many run at once, in total and for one caller."""

    def __init__(self, at_once: int, *, of_one: int, waiting: int) -> None:
        """Let `at_once` computations run, `of_one` for the same caller; at most `waiting` requests of a caller wait."""
        self.at_once = at_once
        self.of_one = of_one
        self.waiting = waiting
        self._changed = Condition()
        self._running: Counter[Hashable] = Counter()
        self._waiting: Counter[Hashable] = Counter()

    @contextmanager
    def turn(self, caller: Hashable) -> Iterator[None]:
        """Run a computation in the block; no transaction may be open.

        Raises
        ------
        Busy
            If the limit is still reached after the longest wait; at once if enough requests of this caller wait.
        """
        self._begin(caller)
        try:
            yield
        finally:
            with self._changed:
                _take_one(self._running, caller)
                self._changed.notify_all()

    def _begin(self, caller: Hashable) -> None:
        with self._changed:
            if not self._is_free(caller):
                if self._waiting[caller] >= self.waiting:
                    raise Busy("Several of your requests wait already; ask again in a few seconds.")
                self._waiting[caller] += 1
                try:
                    if not self._changed.wait_for(lambda: self._is_free(caller), LONGEST_WAIT_S):
                        raise Busy("The server is busy with other long computations; ask again in a few seconds.")
                finally:
                    _take_one(self._waiting, caller)
            self._running[caller] += 1

    def _is_free(self, caller: Hashable) -> bool:
        return self._running.total() < self.at_once and self._running[caller] < self.of_one


def _take_one(counts: Counter[Hashable], caller: Hashable) -> None:
    counts[caller] -= 1
    if not counts[caller]:
        del counts[caller]  # callers come and go


COMPUTATIONS: Final = Turns(2, of_one=1, waiting=2)
"""Limits for readings; the caller is a user."""
PASSWORDS: Final = Turns(2, of_one=1, waiting=4)
"""Limits for password checks, which take a third of a processor second each; the caller is an address."""
