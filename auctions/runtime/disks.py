"""Disks that are nearly full: those of this host, and whether the database's server can write where it keeps its files.

A worker may have directories that the web process does not see, such as that of archives: its signs of life say so.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, transaction

from cluster.database.busy import is_busy

OUT_OF_SPACE: Final = frozenset({"53100", "53400"})
"""Errors of PostgreSQL: the disk is full, and a limit of its configuration (`temp_file_limit`) is reached."""
ROWS: Final = 20_000
"""Rows for which PostgreSQL needs about half a megabyte, more than a query may have in memory here."""


def full() -> list[str]:
    """Return the directories of this host, by name, whose disks have less than `LEAST_FREE_MB` left."""
    least = settings.LEAST_FREE_MB * 1e6
    named = {
        "data": settings.VAR_DIR,
        "execution": settings.EXECUTION_DIR,
        "archives": settings.ARCHIVE_DIR,
        "metrics": settings.METRICS_DIR,
        "database": _of_database(),
    }
    # That of PostgreSQL may be below one that this user cannot enter.
    there = {name: one for name, one in named.items() if one is not None and os.path.exists(one)}
    return [name for name, one in there.items() if shutil.disk_usage(one).free < least]


def database_cannot_write() -> bool:
    """Return whether PostgreSQL, on whatever host, fails to write a temporary file among its data.

    PostgreSQL does not say how much space is left. On a full disk it still writes rows where existing files have room,
    so this query needs a new file, of which nothing stays.

    Raises
    ------
    DatabaseError
        If the query fails for another reason.
    """
    if connection.vendor != "postgresql":
        return False
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL work_mem = '64kB'")
            cursor.execute("SELECT count(*) FROM generate_series(1, %s)", [ROWS])
    except DatabaseError as error:
        if getattr(error.__cause__, "pgcode", None) in OUT_OF_SPACE:
            return True
        raise
    return False


def database_is_read_only() -> bool:
    """Return whether the database takes no writes: SQLite's file may not be written, or PostgreSQL follows another."""
    if connection.vendor == "sqlite":
        file = Path(str(connection.settings_dict["NAME"]))
        return file.exists() and not os.access(file, os.W_OK)  # it may be in memory
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_read_only")
        return bool(cursor.fetchone()[0] == "on")


def _of_database() -> Path | None:
    """Return the directory of the database; None if it is not on this host, or may not be known."""
    if connection.vendor == "sqlite":
        file = Path(str(connection.settings_dict["NAME"]))
        return file.parent if file.exists() else None  # it may be in memory
    try:
        with connection.cursor() as cursor:
            # The row is there for roles that may read all settings alone.
            cursor.execute(
                "SELECT setting FROM pg_settings WHERE name = 'data_directory' AND (inet_server_addr() IS NULL"
                " OR inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1')"
            )
            row = cursor.fetchone()
    except (DatabaseError, InterfaceError) as error:
        if not is_busy(error):
            raise
        return None  # another check says that the database does not answer
    return Path(row[0]) if row else None
