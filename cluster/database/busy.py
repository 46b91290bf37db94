"""Errors of a database that is busy, full or out of reach, or at the schema of another version: the same request may
succeed a little later.
"""

import logging
import re
import sqlite3
from http import HTTPStatus
from typing import Final

from django.db import DatabaseError, InterfaceError, OperationalError

SQLITE_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
PRIMARY: Final = 0xFF
"""Extended codes of SQLite have the primary code in their lowest byte."""

POSTGRES_CLASSES: Final = frozenset({"08", "40", "53", "55", "57", "58"})
"""Connections, rollbacks that may be retried, resources, locks, interventions and timeouts, input and output."""
POSTGRES_CODES: Final = frozenset({"25P03"})
"""A transaction that was idle for too long was ended."""
POSTGRES_ABSENT: Final = frozenset({"42P01", "42703"})
"""A table or a column that does not exist."""
_SQLITE_ABSENT: Final = re.compile(r"no such (table|column): |table \S+ has no column named ")
"""SQLite has one code for all wrong statements."""


def is_busy(error: BaseException) -> bool:
    """Return whether the same statement may succeed later; never true for a wrong statement."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return code is not None and code & PRIMARY in SQLITE_CODES
    state: str | None = getattr(cause, "pgcode", None)
    if state is not None:
        return state[:2] in POSTGRES_CLASSES or state in POSTGRES_CODES
    # psycopg2 gives no code if there is no connection.
    return isinstance(error, OperationalError | InterfaceError) and cause is not None


def lacks_schema(error: BaseException) -> bool:
    """Return whether a statement names a table or column that is absent: a migration is not applied, or undone."""
    if not isinstance(error, DatabaseError):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.OperationalError):
        return _SQLITE_ABSENT.match(str(cause)) is not None
    return getattr(cause, "pgcode", None) in POSTGRES_ABSENT


class Briefly(logging.Filter):
    """Log in one line, as a warning without a traceback, that a client has to retry."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record."""
        if getattr(record, "status_code", None) == HTTPStatus.SERVICE_UNAVAILABLE:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.exc_info = None
        return True
