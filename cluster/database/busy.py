"""Errors of a database that is busy, full, read-only or out of reach, or at the schema of another version: the same
request may succeed a little later. And errors of a request that another request was faster than.
"""

import logging
import re
import sqlite3
from http import HTTPStatus
from typing import Any, Final

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError

SQLITE_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
PRIMARY: Final = 0xFF
"""Extended codes of SQLite have the primary code in their lowest byte."""

POSTGRES_CLASSES: Final = frozenset({"08", "40", "53", "55", "57", "58"})
"""Connections, rollbacks that may be retried, resources, locks, interventions and timeouts, input and output."""
POSTGRES_CODES: Final = frozenset({"25P03", "25006"})
"""A transaction that was idle for too long was ended, or may only read, as on a server that follows another."""
POSTGRES_ABSENT: Final = frozenset({"42P01", "42703"})
"""A table or a column that does not exist."""
_SQLITE_ABSENT: Final = re.compile(r"no such (table|column): |table \S+ has no column named ")
"""SQLite has one code for all wrong statements."""
_POSTGRES_OVERTAKEN: Final = frozenset({"23503", "23505"})
"""A row that is referred to does not exist, or is deleted while another one refers to it; a value that exists once."""
_SQLITE_OVERTAKEN: Final = frozenset(
    {sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}
)
_POSTGRES_DISK_FULL: Final = "53100"
_POSTGRES_NOT_NULL: Final = "23502"
_SQLITE_NOT_NULL: Final = re.compile(r"NOT NULL constraint failed: (\w+)\.(\w+)$")


def is_busy(error: BaseException) -> bool:
    """Return whether the same statement may succeed later; never true for a wrong statement."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return _code_of_sqlite(error) in SQLITE_CODES
    state: str | None = getattr(cause, "pgcode", None)
    if state is not None:
        return state[:2] in POSTGRES_CLASSES or state in POSTGRES_CODES
    # psycopg2 gives no code if there is no connection.
    return isinstance(error, OperationalError | InterfaceError) and cause is not None


def is_full(error: BaseException) -> bool:
    """Return whether a statement fails since the disk of the database is full."""
    if not isinstance(error, DatabaseError):
        return False
    is_of_postgres = getattr(error.__cause__, "pgcode", None) == _POSTGRES_DISK_FULL
    return is_of_postgres or _code_of_sqlite(error) == sqlite3.SQLITE_FULL


def is_overtaken(error: BaseException) -> bool:
    """Return whether a request fails since another one was faster, after this one had checked what it stores.

    The other one has deleted a row to which this one refers, has stored one that refers to what this one deletes, or
    has stored a value that may exist once. An account is locked before a row of it is stored, and may be gone by then.
    """
    if isinstance(error, get_user_model().DoesNotExist):
        return True
    if not isinstance(error, IntegrityError):
        return False
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code in _SQLITE_OVERTAKEN or getattr(error.__cause__, "pgcode", None) in _POSTGRES_OVERTAKEN


def is_damaged(error: BaseException) -> bool:
    """Return whether the file of SQLite is no database, or lacks some of its pages or has others in their place."""
    damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(error, DatabaseError) and _code_of_sqlite(error) in damaged


def _code_of_sqlite(error: BaseException) -> int | None:
    """Return the primary code of SQLite's error; None if it has none, or is of another database."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return None if code is None else code & PRIMARY


def is_of_other_schema(error: BaseException) -> bool:
    """Return whether a statement fails since the database is at the schema of another version.

    It names a table or column that is absent: a migration is not applied, or undone. Or a row has no value for a column
    that this version does not have, or may leave empty: a newer version has migrated the database.
    """
    if not isinstance(error, DatabaseError):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.OperationalError):
        return _SQLITE_ABSENT.match(str(cause)) is not None
    if isinstance(cause, sqlite3.IntegrityError):
        found = _SQLITE_NOT_NULL.match(str(cause))
        return found is not None and not _needs_value(*found.groups())
    code: Any = getattr(cause, "pgcode", None)
    if code == _POSTGRES_NOT_NULL:
        where: Any = getattr(cause, "diag", None)
        return not _needs_value(where.table_name, where.column_name)
    return code in POSTGRES_ABSENT


def cause_in_words(error: BaseException) -> str | None:
    """Return one line for a command that stops since the database is out of reach, damaged or at another schema; None
    of another error.
    """
    lines = str(error).splitlines() or [type(error).__name__]
    if is_damaged(error):
        return f"The file of the database is damaged: {lines[0]}. Restore a copy (docs/operators/backup.md)."
    if is_full(error):
        return f"The disk of the database is full: {lines[0]}"
    if is_busy(error):
        return f"The database is away or busy: {lines[0]}"
    if is_of_other_schema(error):
        return f"The database does not have the tables of this version: {lines[0]}. Run `manage.py migrate`."
    return None


def _needs_value(table: str, column: str) -> bool:
    """Return whether a row of this version has to have a value in this column."""
    fields = (
        field
        for model in apps.get_models(include_auto_created=True)
        if model._meta.db_table == table
        for field in model._meta.local_concrete_fields
    )
    return any(field.column == column and not field.null for field in fields)


class Briefly(logging.Filter):
    """Log in one line, as a warning without a traceback, that a client has to retry."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record."""
        if getattr(record, "status_code", None) == HTTPStatus.SERVICE_UNAVAILABLE:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.exc_info = None
        return True
