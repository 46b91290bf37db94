"""The write-ahead log of SQLite, which grows while a long transaction reads, such as that of an audit."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import settings

MB = 1_000_000


@pytest.mark.skipif("postgresql" in settings.DATABASES["default"]["ENGINE"], reason="the settings name PostgreSQL")
def test_the_log_is_cut_once_a_long_reader_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "db-wal"

    def connected() -> sqlite3.Connection:
        found = sqlite3.connect(tmp_path / "db", isolation_level=None)
        found.executescript(settings.DATABASES["default"]["OPTIONS"]["init_command"])
        return found

    with closing(connected()) as writer, closing(connected()) as reader:
        writer.execute("CREATE TABLE t (a BLOB)")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM t").fetchall()
        for _ in range(40):
            writer.execute("INSERT INTO t VALUES (randomblob(1000000))")
        assert log.stat().st_size > 40 * MB, "no part of it may be written over while the reader needs it"
        reader.execute("COMMIT")
        for _ in range(3):
            writer.execute("INSERT INTO t VALUES (1)")
        assert log.stat().st_size < 20 * MB
