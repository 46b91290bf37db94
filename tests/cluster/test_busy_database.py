"""Temporary errors of a database, and reading rows without an open cursor."""

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psycopg2
import pytest
from django.db import IntegrityError, InterfaceError, OperationalError, ProgrammingError, connection
from django.test.utils import CaptureQueriesContext
from psycopg2 import errorcodes, errors

from cluster.database.busy import cause_in_words, is_busy, is_full, is_of_other_schema
from cluster.database.paging import in_pages
from cluster.models import Cluster
from tests.auctions.worlds import make_cluster
from tests.forks import libraries
from tests.processes import python_env


def raised(kind: type[Exception], cause: Exception | None) -> Exception:
    error = kind("as Django reports it")
    error.__cause__ = cause
    return error


def test_a_locked_sqlite_file_is_busy_and_a_missing_table_is_a_mistake(tmp_path: Path) -> None:
    def error_of(database: sqlite3.Connection, statement: str) -> Exception:
        with pytest.raises(sqlite3.OperationalError) as caught:
            database.execute(statement)
        return raised(OperationalError, caught.value)

    path = tmp_path / "file"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as one,
        closing(sqlite3.connect(path, timeout=0)) as other,
    ):
        one.execute("CREATE TABLE t (a)")
        assert not is_busy(error_of(one, "SELECT * FROM absent"))
        one.execute("BEGIN IMMEDIATE")
        assert is_busy(error_of(other, "BEGIN IMMEDIATE"))


def test_a_full_disk_and_a_file_that_cannot_be_opened_are_busy(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "file")) as database:
        database.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.OperationalError, match="full") as full:
            database.executescript("CREATE TABLE t (a); CREATE TABLE u (a);")
    assert is_busy(raised(OperationalError, full.value))
    assert is_full(raised(OperationalError, full.value))
    assert str(cause_in_words(raised(OperationalError, full.value))).startswith("The disk of the database is full: ")
    with pytest.raises(sqlite3.OperationalError, match="unable to open") as gone:
        sqlite3.connect(tmp_path / "nowhere" / "file")
    assert is_busy(raised(OperationalError, gone.value))
    assert not is_full(raised(OperationalError, gone.value))


def test_a_file_that_may_only_be_read_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t (a)")
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database,
        pytest.raises(sqlite3.OperationalError, match="readonly") as caught,
    ):
        database.execute("INSERT INTO t VALUES (1)")
    assert is_busy(raised(OperationalError, caught.value))


@pytest.mark.parametrize(
    "code",
    [
        errorcodes.LOCK_NOT_AVAILABLE,
        errorcodes.QUERY_CANCELED,
        errorcodes.TOO_MANY_CONNECTIONS,
        errorcodes.DISK_FULL,
        errorcodes.ADMIN_SHUTDOWN,
        errorcodes.DEADLOCK_DETECTED,
        errorcodes.READ_ONLY_SQL_TRANSACTION,
    ],
)
def test_timeouts_and_limits_of_postgres_are_busy(code: str) -> None:
    cause = errors.lookup(code)
    error = raised(OperationalError, type("Told", (cause,), {"pgcode": code})())
    assert is_busy(error)
    assert is_full(error) == (code == errorcodes.DISK_FULL)


def test_a_connection_that_is_refused_or_lost_is_busy() -> None:
    with pytest.raises(psycopg2.OperationalError) as refused:
        psycopg2.connect("postgres://127.0.0.1:1/none")
    assert is_busy(raised(OperationalError, refused.value))
    assert is_busy(raised(InterfaceError, psycopg2.InterfaceError("connection already closed")))


def test_mistakes_are_not_busy() -> None:
    column = type("Told", (errors.UndefinedColumn,), {"pgcode": errorcodes.UNDEFINED_COLUMN})()
    assert not is_busy(raised(ProgrammingError, column))
    assert not is_busy(raised(InterfaceError, sqlite3.InterfaceError("bad parameter")))
    assert not is_busy(ValueError("database is locked"))


@pytest.mark.parametrize(
    ("code", "lacks"),
    [(errorcodes.UNDEFINED_TABLE, True), (errorcodes.UNDEFINED_COLUMN, True), (errorcodes.SYNTAX_ERROR, False)],
)
def test_postgres_names_a_schema_of_another_version_by_its_codes(code: str, lacks: bool) -> None:
    cause = type("Told", (errors.lookup(code),), {"pgcode": code})()
    assert is_of_other_schema(raised(ProgrammingError, cause)) == lacks


@pytest.mark.parametrize(
    ("statement", "lacks"),
    [
        ("SELECT * FROM absent", True),
        ("SELECT b FROM t", True),
        ("INSERT INTO t (b) VALUES (1)", True),
        ("INSERT INTO absent VALUES (1)", True),
        ("SELECT FROM t", False),
        ("SELECT none(1)", False),
    ],
)
def test_sqlite_names_a_schema_of_another_version_in_words(statement: str, lacks: bool) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (a)")
        with pytest.raises(sqlite3.OperationalError) as caught:
            database.execute(statement)
    assert is_of_other_schema(raised(OperationalError, caught.value)) == lacks


@pytest.mark.parametrize(
    ("table", "column", "is_newer"),
    [
        ("cluster_cluster", "of_a_newer_version", True),
        ("of_a_newer_version", "id", True),
        ("auctions_market", "standing_rule", True),  # null in this version
        ("cluster_cluster", "name", False),
    ],
)
def test_a_row_without_a_value_that_a_newer_version_needs_names_its_schema(
    table: str, column: str, is_newer: bool
) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE {table} (a, {column} NOT NULL)")
        with pytest.raises(sqlite3.IntegrityError) as caught:
            database.execute(f"INSERT INTO {table} (a) VALUES (1)")
    assert is_of_other_schema(raised(IntegrityError, caught.value)) == is_newer
    diag = SimpleNamespace(table_name=table, column_name=column)
    cause = type("Reported", (errors.NotNullViolation,), {"pgcode": errorcodes.NOT_NULL_VIOLATION, "diag": diag})()
    assert is_of_other_schema(raised(IntegrityError, cause)) == is_newer


def test_other_errors_say_nothing_of_the_schema() -> None:
    assert not is_of_other_schema(raised(IntegrityError, sqlite3.IntegrityError("UNIQUE constraint failed: t.a")))
    assert not is_of_other_schema(raised(OperationalError, sqlite3.OperationalError("database is locked")))
    assert not is_of_other_schema(raised(OperationalError, psycopg2.OperationalError("no such table: t")))
    assert not is_of_other_schema(ValueError("no such table: t"))


@pytest.mark.parametrize(("size", "queries"), [(1, 6), (2, 3), (3, 2), (5, 2), (6, 1)])
def test_pages_hold_every_row_once_and_in_order_and_one_that_is_not_full_is_the_last(
    db: None, size: int, queries: int
) -> None:
    for name in "bdace":
        make_cluster(name)
    with CaptureQueriesContext(connection) as asked:
        names = [cluster.name for cluster in in_pages(Cluster.objects.order_by("-pk"), by="name", size=size)]
    assert names == list("abcde")
    assert len(asked) == queries


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (None, "The database does not have the tables of this version: no such table: auctions_market. Run "),
        ("postgres://nobody:secret@127.0.0.1:1/none", "The database is away or busy: connection to server at "),
    ],
)
def test_a_command_names_the_cause_in_one_line(url: str | None, words: str, tmp_path: Path) -> None:
    env = python_env(tmp_path, **({} if url is None else {"DATABASE_URL": url}))
    done = libraries().complete(["python", "manage.py", "audit"], env=env, seconds=60)
    assert done.returncode == 1
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_a_command_shows_the_whole_traceback_when_it_is_asked_for(tmp_path: Path) -> None:
    command = ["python", "manage.py", "audit", "--traceback"]
    done = libraries().complete(command, env=python_env(tmp_path), seconds=60)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
