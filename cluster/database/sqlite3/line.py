"""The line of threads that want SQLite's one write lock: whoever came first is next.

SQLite lets a waiting connection try again at intervals, and whoever tries just after a release gets the lock: with a
dozen threads that write, an unlucky one waits until its time is up. Within a process each waits here for its turn.
Other processes are in no line, so a turn is no promise: SQLite still has the last word.
"""

import os
from collections import defaultdict, deque
from contextlib import suppress
from threading import Event, Lock


class Turn:
    """A place in the line of one database file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._has_come = Event()

    def wait(self, timeout_s: float) -> bool:
        """Join the line, and wait for the turn, or for this long at most; whether anybody was before it."""
        with _guard:
            line = _lines[self._path]
            line.append(self)
            is_first = line[0] is self
        if not is_first:
            self._has_come.wait(timeout_s)
        return not is_first

    @staticmethod
    def waiting(path: str) -> int:
        """How many are in line for a file, the one that holds the lock included."""
        with _guard:
            return len(_lines[path])

    def end(self) -> None:
        """Leave the line; the next one's turn comes if it was this one's."""
        with _guard, suppress(ValueError):
            line = _lines[self._path]
            line.remove(self)
            if line:
                line[0]._has_come.set()


_lines: defaultdict[str, deque[Turn]] = defaultdict(deque)
_guard = Lock()


def _forget() -> None:
    """A process that was forked has not the threads of the one it came from."""
    global _guard
    _guard = Lock()
    _lines.clear()


os.register_at_fork(after_in_child=_forget)
