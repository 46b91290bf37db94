"""Points of a simulated process at which it may be killed or its database may fail, and those faults."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, OperationalError, connections


class Point(StrEnum):
    """A place in the run of a process."""

    BEGIN = "before a transaction"
    STATEMENT = "before a statement"
    WRITTEN = "after a statement"
    COMMIT = "before a commit"
    COMMITTED = "after a commit"


class Fault(StrEnum):
    """What may happen to a process at a point."""

    KILLED = "process killed"
    BUSY = "database busy"
    ANSWER_LOST = "connection lost in a commit that succeeded"


FAULTS: Final[tuple[tuple[Fault, Point, int], ...]] = (
    (Fault.KILLED, Point.STATEMENT, 60),
    (Fault.KILLED, Point.WRITTEN, 60),
    (Fault.KILLED, Point.COMMIT, 3),
    (Fault.KILLED, Point.COMMITTED, 3),
    (Fault.BUSY, Point.STATEMENT, 60),
    (Fault.BUSY, Point.COMMIT, 3),
    (Fault.ANSWER_LOST, Point.COMMITTED, 3),
)
"""Faults, each with its point and the number of such points that a process passes before it at most."""


class Killed(BaseException):
    """The simulated process ends here; no `except Exception` catches it."""


class Injected(OperationalError):
    """An error of the database that the simulation made up."""


@dataclass
class Threat:
    """A fault that happens to a process after it has passed `left` more points of a kind."""

    fault: Fault
    point: Point
    left: int
    happened: bool = False

    def __str__(self) -> str:
        return f"{self.fault} {self.point}"

    def reach(self, point: Point) -> None:
        """Count a point; raise Killed or Injected if the fault happens there."""
        if self.happened or point is not self.point:
            return
        if self.left:
            self.left -= 1
            return
        self.happened = True
        if self.fault is Fault.KILLED:
            raise Killed
        raise Injected("the database is busy") from _busy()


def _busy() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


@contextmanager
def watched(reach: Callable[[Point], None]) -> Iterator[None]:
    """Call `reach` at every point of this thread's connection in the block; it may raise Killed or Injected."""
    connection: Any = connections[DEFAULT_DB_ALIAS]
    connection.ensure_connection()
    begin, commit = connection._start_transaction_under_autocommit, connection._commit

    begins = False

    def execute(call: Callable[..., Any], sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if begins:
            return call(sql, parameters, many, context)
        reach(Point.STATEMENT)
        result = call(sql, parameters, many, context)
        reach(Point.WRITTEN)
        return result

    def begin_watched() -> None:
        nonlocal begins
        reach(Point.BEGIN)
        begins = True
        try:
            begin()
        finally:
            begins = False

    def commit_watched() -> None:
        try:
            reach(Point.COMMIT)
        except Killed:
            # Django ends a transaction only after an error of the database; Python would commit the rest.
            connection.connection.rollback()
            raise
        commit()
        reach(Point.COMMITTED)

    connection._start_transaction_under_autocommit, connection._commit = begin_watched, commit_watched
    try:
        with connection.execute_wrapper(execute):
            yield
    finally:
        connection._start_transaction_under_autocommit, connection._commit = begin, commit


def clean_up(*, is_killed: bool) -> None:
    """Leave the connection as a new process finds it, or as one that goes on after an error of its database."""
    connection: Any = connections[DEFAULT_DB_ALIAS]
    connection.connection.execute("PRAGMA query_only = OFF")
    if is_killed:
        connection.run_on_commit = []
        connection.run_commit_hooks_on_set_autocommit_on = False
