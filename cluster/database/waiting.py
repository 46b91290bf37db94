"""Waits that are not allowed.

A transaction must not wait for anything but the database, because it would delay all others with its lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


class WaitsInTransaction(RuntimeError):
    """A thread was about to wait while it had a transaction open."""


def never_in_transaction(what: str) -> None:
    """Check, before waiting for `what`, that no transaction is open: a broker, a process, a kernel, another thread.

    Raises
    ------
    WaitsInTransaction
        If this thread has a transaction open. Only the one that a test runs in may be open.
    """
    # As durable transactions of Django do, leave out those that a test case opened.
    if any(not getattr(block, "_from_testcase", False) for block in connection.atomic_blocks):
        raise WaitsInTransaction(f"{what} would be waited for within a transaction")


@contextmanager
def without_waiting() -> Iterator[None]:
    """Let a statement in the block fail at once (OperationalError) where SQLite would wait for its lock.

    PostgreSQL locks rows, and is left as it is. No transaction may begin in the block.
    """
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    with connection.waiting_for_lock(0.0):  # type: ignore[attr-defined]  # of `cluster.database.sqlite3`
        yield
