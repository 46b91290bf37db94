"""`manage.py backup FILE`: copy the database of the embedded installation, also while it runs."""

import os
import sqlite3
from argparse import ArgumentParser
from contextlib import closing
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection


class Command(BaseCommand):
    """Write one consistent copy of the SQLite database, with all that was committed when it was begun."""

    help = "Copy the SQLite database to a new file, also while the server runs. For PostgreSQL use pg_dump."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The file, which must not be there yet."""
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        """Copy the database; raises CommandError where there is no SQLite, or the file exists or cannot be written."""
        target: Path = options["file"]
        if connection.vendor != "sqlite":
            raise CommandError(f"expected SQLite, got {connection.vendor}: use pg_dump (docs/operators/backup.md).")
        if target.exists():
            raise CommandError(f"file: expected a new file, got {target}, which exists.")
        source = Path(connection.settings_dict["NAME"])
        if not source.is_file():
            raise CommandError(f"expected a database at {source}, got no file: is SHADOWPRICE_VAR right?")
        part = target.with_name(f"{target.name}.part")
        part.unlink(missing_ok=True)
        try:
            part.touch(mode=0o600)  # as the database: it has digests of passwords, and all that bidders state
            with closing(sqlite3.connect(source)) as database:
                database.execute("SELECT 1 FROM django_migrations LIMIT 1")  # an empty file is no database to keep
                database.execute("VACUUM INTO ?", (str(part),))
            with part.open("rb") as written:
                os.fsync(written.fileno())
            part.rename(target)
        except (sqlite3.Error, OSError) as error:
            part.unlink(missing_ok=True)
            raise CommandError(f"expected a copy of {source} at {target}, got an error: {error}.") from error
        self.stdout.write(f"{target}: {target.stat().st_size:,} bytes")
