"""A read-only transaction that sees the database at one instant."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction


@contextmanager
def read_transaction() -> Iterator[None]:
    """Let all queries of the block see what was committed when the first of them began; a write raises.

    No lock is taken: writers do not wait for readers, nor readers for writers.

    Raises
    ------
    RuntimeError
        If a transaction is open already, for it may have changed rows. Only the one that a test runs in may be open.
    """
    with ExitStack() as stack:
        if connection.vendor == "sqlite":
            stack.enter_context(_queries_only())
            with _deferred():
                stack.enter_context(transaction.atomic(durable=True))
        else:
            is_inner = connection.in_atomic_block
            stack.enter_context(transaction.atomic(durable=True))
            if not is_inner:
                _execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _deferred() -> Iterator[None]:
    """Transactions on SQLite that begin in the block take no lock; in WAL mode the first query fixes what they see."""
    connection.ensure_connection()  # which sets the mode that settings name
    wrapper: Any = connections[DEFAULT_DB_ALIAS]
    usual, wrapper.transaction_mode = wrapper.transaction_mode, "DEFERRED"
    try:
        yield
    finally:
        wrapper.transaction_mode = usual


@contextmanager
def _queries_only() -> Iterator[None]:
    """SQLite refuses to write in the block."""
    _execute("PRAGMA query_only = ON")
    try:
        yield
    finally:
        _execute("PRAGMA query_only = OFF")


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
