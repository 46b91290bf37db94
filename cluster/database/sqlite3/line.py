"""A first-come, first-served queue of threads that want SQLite's one write lock.

A connection that waits in SQLite tries again at intervals, and the one that tries just after a release gets the lock.
With a dozen writing threads, an unlucky one waits until its time limit. So threads of a process wait here in order.
Other processes are not in this queue, so a thread whose turn has come may still have to wait in SQLite.
"""

import os
from collections import defaultdict, deque
from contextlib import suppress
from threading import Event, Lock


class Turn:
    """A place in the queue of one database file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._has_come = Event()

    def wait(self, timeout_s: float) -> bool:
        """Join the queue and wait for the turn, at most for this time; return whether any thread was before it."""
        with _guard:
            line = _lines[self._path]
            line.append(self)
            is_first = line[0] is self
        if not is_first:
            self._has_come.wait(timeout_s)
        return not is_first

    @staticmethod
    def waiting(path: str) -> int:
        """Return the number of threads in the queue of a file, including the one that holds the lock."""
        with _guard:
            return len(_lines[path])

    def end(self) -> None:
        """Leave the queue; if it was this thread's turn, it is now the next one's."""
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
