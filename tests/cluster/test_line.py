"""Threads get SQLite's write lock in the order in which they asked for it, and processes in turns."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections

from cluster.database import limits
from cluster.database.sqlite3.base import DatabaseWrapper
from cluster.database.sqlite3.line import ENDS, Turn
from tests.processes import wait_until

THREADS = 8


@pytest.fixture
def path(tmp_path: Path, django_db_blocker: Any) -> Iterator[str]:
    """A database file of its own."""
    path = str(tmp_path / "file")
    with django_db_blocker.unblock(), closing(connect(path)) as made, made.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a)")
    with django_db_blocker.unblock():
        yield path


def connect(path: str) -> DatabaseWrapper:
    """A connection with the options of settings, which threads may share."""
    made = DatabaseWrapper({**connections[DEFAULT_DB_ALIAS].settings_dict, "NAME": path}, "elsewhere")
    made.inc_thread_sharing()
    return made


def begin(database: DatabaseWrapper) -> None:
    database.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)


def end(database: DatabaseWrapper) -> None:
    database.commit()
    database.set_autocommit(True)


def test_who_asked_first_gets_the_lock_first(path: str) -> None:
    order: list[int] = []

    def write(number: int) -> None:
        with closing(connect(path)) as mine:
            begin(mine)
            order.append(number)
            end(mine)

    holder = connect(path)
    with closing(holder):
        begin(holder)
        threads = [Thread(target=write, args=(number,)) for number in range(THREADS)]
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lambda n=number: Turn.waiting(path) == n + 2, what=f"thread {number} in line")  # type: ignore[misc]
        end(holder)
        begin(holder)  # without a line, the one that has just released the lock would get it again
        order.append(THREADS)
        end(holder)
        for thread in threads:
            thread.join()
    assert order == list(range(THREADS + 1))
    assert Turn.waiting(path) == 0


def test_a_turn_is_waited_for_no_longer_than_the_lock(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(lock=0.2))
    holder, other = connect(path), connect(path)
    with closing(holder), closing(other):
        begin(holder)
        began = monotonic()
        with pytest.raises(OperationalError, match="locked"):
            begin(other)
        assert monotonic() - began >= 0.2
        assert Turn.waiting(path) == 1
        end(holder)
        begin(other)
        end(other)
    assert Turn.waiting(path) == 0


@pytest.mark.thorough
def test_the_line_and_the_lock_are_waited_for_together_no_longer_than_the_limit(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(lock=1.0))
    waited: list[float] = []

    def write() -> None:
        with closing(connect(path)) as mine:
            began = monotonic()
            with pytest.raises(OperationalError, match="locked"):
                begin(mine)
            waited.append(monotonic() - began)

    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute("BEGIN IMMEDIATE")  # in no line, as another process
        threads = [Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outside.execute("ROLLBACK")
    assert len(waited) == 4
    # SQLite counts in milliseconds, and its clock is not Python's.
    assert all(0.99 <= seconds < 1.8 for seconds in waited), waited


def test_who_has_waited_in_line_waits_for_later_locks_as_long_as_ever(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(lock=30.0))
    holder, other = connect(path), connect(path)
    with closing(holder), closing(other):
        begin(holder)
        thread = Thread(target=begin, args=(other,))
        thread.start()
        wait_until(lambda: Turn.waiting(path) == 2, what="a thread in line")
        end(holder)
        thread.join()
        end(other)
        (found,) = other.connection.execute("PRAGMA busy_timeout").fetchone()
        assert found == 30_000


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Lock a file as another process does: a file that is opened again is locked apart from this process's own."""
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


@pytest.mark.parametrize("end_of_name", ENDS)
def test_a_process_waits_while_another_one_has_its_turn_or_is_next(path: str, end_of_name: str) -> None:
    with closing(connect(path)) as mine:
        begin(mine)
        end(mine)
        thread = Thread(target=begin, args=(mine,))
        with locked(path + end_of_name):
            thread.start()
            thread.join(0.1)
            assert thread.is_alive(), "the lock of the database itself is free"
        thread.join()
        with pytest.raises(BlockingIOError), locked(path + ENDS[0]):
            pass
        end(mine)
        with locked(path + ENDS[0]), locked(path + ENDS[1]):  # both are free again
            pass


def test_a_process_that_keeps_its_turn_makes_the_database_busy_for_others(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(lock=0.1))
    with closing(connect(path)) as mine, closing(sqlite3.connect(path, isolation_level=None)) as outside:
        begin(mine)
        end(mine)
        with locked(path + ENDS[0]):
            outside.execute("BEGIN IMMEDIATE")
            with pytest.raises(OperationalError, match="locked"):
                begin(mine)
            outside.execute("ROLLBACK")
        begin(mine)
        end(mine)


def test_where_no_file_can_be_made_the_lock_alone_decides(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "open", fail)
    with closing(connect(path)) as mine:
        begin(mine)
        end(mine)
    assert Turn.waiting(path) == 0


def test_a_connection_that_is_closed_in_a_transaction_leaves_the_line(path: str) -> None:
    holder, other = connect(path), connect(path)
    begin(holder)
    holder.close()
    assert Turn.waiting(path) == 0
    with closing(other):
        begin(other)
        end(other)


def test_a_connection_keeps_few_pages_and_few_statements(path: str) -> None:
    """The defaults are 2 MB of pages and 128 statements of 20 kB each, for every request under way."""
    with closing(connect(path)) as made, made.cursor() as cursor:
        cursor.execute("PRAGMA cache_size")
        assert cursor.fetchone() == (-256,)
        assert made.get_connection_params()["cached_statements"] == 16
