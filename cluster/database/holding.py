"""Log threads that hold the database's lock for long, with their stacks, while they still hold it.

On SQLite the lock is held from the beginning of a transaction that may write to its end; on PostgreSQL from the first
statement that has locked rows. The time that a thread waits for the lock does not count.
"""

import logging
import os
import sys
import traceback
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Thread, current_thread, get_ident
from time import monotonic, sleep, thread_time
from typing import Final

LONGEST_S: float = 1.0
"""A lock that is held for more seconds is logged, and again each time that the time has doubled."""
LOOK_EVERY_S: Final = 0.25

log = logging.getLogger(__name__)


@dataclass
class _Hold:
    """One lock and the thread that holds it."""

    thread: Thread = field(default_factory=current_thread)
    since: float = field(default_factory=monotonic)
    processor_s: float = field(default_factory=thread_time)
    """Processor time of the thread when it got the lock."""
    logged_s: float = 0.0
    """Time that it had been held when it was last logged."""


_holds: dict[Hashable, _Hold] = {}
_guard = Lock()
_watcher: Thread | None = None


_expecting: set[int] = set()
"""Numbers of the threads that say that they hold locks for long."""


@contextmanager
def expected() -> Iterator[None]:
    """Record no locks of this thread in the block: it holds them for long, and that is known."""
    _expecting.add(get_ident())
    try:
        yield
    finally:
        _expecting.discard(get_ident())


def begin(connection: Hashable) -> None:
    """Record that this thread has the lock from now on."""
    global _watcher
    if connection in _holds or get_ident() in _expecting:
        return
    with _guard:
        _holds.setdefault(connection, _Hold())
        if _watcher is None:
            _watcher = Thread(target=_watch, name="lock watch", daemon=True)
            _watcher.start()


def end(connection: Hashable) -> bool:
    """The transaction has ended; whether it held the lock."""
    with _guard:
        hold = _holds.pop(connection, None)
    if hold is not None and hold.logged_s:
        log.warning(
            "%s released the database's lock after %.1f s, %.1f s of it its own processor time",
            hold.thread.name,
            monotonic() - hold.since,
            thread_time() - hold.processor_s,
        )
    return hold is not None


def look() -> None:
    """Log threads that hold a lock for long, and their present stacks."""
    with _guard:
        holds = list(_holds.items())
    for connection, hold in holds:
        held_s = monotonic() - hold.since
        if not hold.thread.is_alive():  # its connection is gone, and with it the transaction
            end(connection)
        if held_s < max(LONGEST_S, 2 * hold.logged_s):
            continue
        frame = sys._current_frames().get(hold.thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        if _holds.get(connection) is hold:
            hold.logged_s = held_s
            log.warning("%s has held the database's lock for %.1f s:\n%s", hold.thread.name, held_s, stack)


def _watch() -> None:
    while True:
        sleep(LOOK_EVERY_S)
        look()


def _forget() -> None:
    """A process that was forked has neither the threads nor the transactions of the one it came from."""
    global _watcher, _guard
    _guard = Lock()
    _watcher = None
    _holds.clear()


os.register_at_fork(after_in_child=_forget)
