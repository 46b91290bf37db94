"""A queue for SQLite's one write lock: first come, first served within a process, and in turns between processes.

A connection that waits in SQLite tries again at growing intervals, of a tenth of a second at last, and the one that
tries just after a release gets the lock. With a dozen writing threads, or beside a process that writes without a pause,
an unlucky one waits until its time limit. So threads of a process wait here in order. The first of them also locks a
file beside the database, which it tries to do every millisecond. A second file holds the place of the process that is
next: one that has just released the first file must wait behind it. If a process dies, the system unlocks its files.

Programs that do not use this module are not in the queue, so a thread whose turn has come may still have to wait in
SQLite.
"""

import fcntl
import os
from collections import defaultdict, deque
from contextlib import suppress
from threading import Event, Lock
from time import monotonic, sleep
from typing import Final

from cluster.database.sqlite3.private import OURS

EVERY_S: Final = 0.001
"""Between two attempts to lock a file."""
ENDS: Final = ("-turn", "-next")
"""Ends of the names of both files."""


class Turn:
    """A place in the queue of one database file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._has_come = Event()

    def wait(self, timeout_s: float) -> bool:
        """Join the queue and wait for the turn, at most for this time; return whether anybody was before it."""
        deadline = monotonic() + timeout_s
        with _guard:
            line = _lines[self._path]
            line.append(self)
            is_first = line[0] is self
        waited = not is_first
        if is_first or self._has_come.wait(timeout_s):
            with suppress(OSError):  # the disk is full: SQLite reports it better
                waited |= _gate(self._path).lock(deadline)
        return waited

    @staticmethod
    def waiting(path: str) -> int:
        """Return the number of threads in the queue of a file, including the one that holds the lock."""
        with _guard:
            return len(_lines[path])

    def end(self) -> None:
        """Leave the queue; if it was this thread's turn, it is now the next one's."""
        with _guard, suppress(ValueError):
            line = _lines[self._path]
            if line and line[0] is self and self._path in _gates:
                _gates[self._path].unlock()
            line.remove(self)
            if line:
                line[0]._has_come.set()


class _Gate:
    """The files by which processes take turns; used by one thread of this process at a time."""

    def __init__(self, path: str) -> None:
        self._turn, self._next = (os.open(path + end, os.O_RDONLY | os.O_CREAT, OURS) for end in ENDS)

    def lock(self, deadline: float) -> bool:
        """Wait for the turn of this process, at most until the deadline; return whether another process was before."""
        waited = _lock(self._next, deadline)
        waited |= _lock(self._turn, deadline)
        fcntl.flock(self._next, fcntl.LOCK_UN)
        return waited

    def unlock(self) -> None:
        """End the turn of this process."""
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files of a gate that another process goes on to use."""
        os.close(self._turn)
        os.close(self._next)


def _lock(file: int, deadline: float) -> bool:
    """Lock a file at the latest at the deadline, if it can be locked until then; return whether it had to wait."""
    waited = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= deadline:
                return True
            waited = True
            sleep(EVERY_S)
        else:
            return waited


_lines: defaultdict[str, deque[Turn]] = defaultdict(deque)
_gates: dict[str, _Gate] = {}
_guard = Lock()


def _gate(path: str) -> _Gate:
    if path not in _gates:
        _gates[path] = _Gate(path)
    return _gates[path]


def _forget() -> None:
    """A process that was forked has not the threads of the one it came from, and takes turns with it."""
    global _guard
    _guard = Lock()
    _lines.clear()
    for gate in _gates.values():
        gate.close()
    _gates.clear()


os.register_at_fork(after_in_child=_forget)
