"""A thread that holds the database's lock for long is logged with its stack; it waits for the database only."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread, get_ident
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction

from auctions.domain import waking
from cluster.database import holding, limits
from cluster.database.sqlite3.base import DatabaseWrapper
from cluster.database.waiting import WaitsInTransaction, never_in_transaction
from studies.background.processes import Process


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: Any) -> Iterator[DatabaseWrapper]:
    """A connection to a file of its own, with the options of settings."""
    usual = connections[DEFAULT_DB_ALIAS].settings_dict
    made = DatabaseWrapper({**usual, "NAME": str(tmp_path / "file")}, "elsewhere")
    made.inc_thread_sharing()
    with django_db_blocker.unblock(), closing(made):
        with made.cursor() as cursor:
            cursor.execute("CREATE TABLE t (a)")
        yield made


def begin(database: DatabaseWrapper) -> None:
    database.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)


def end(database: DatabaseWrapper) -> None:
    database.commit()
    database.set_autocommit(True)


def test_who_holds_the_lock_for_long_is_logged_with_its_stack(
    database: DatabaseWrapper, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "LONGEST_S", 0.2)
    is_held, is_seen = Event(), Event()

    def a_function_that_takes_its_time() -> None:
        begin(database)
        is_held.set()
        is_seen.wait(20)
        end(database)

    thread = Thread(target=a_function_that_takes_its_time, name="the holder")
    thread.start()
    is_held.wait(20)
    while not caplog.messages:
        is_seen.wait(0.05)
    is_seen.set()
    thread.join()
    assert caplog.messages[0].startswith("the holder has held the database's lock for ")
    assert "a_function_that_takes_its_time" in caplog.messages[0]
    assert caplog.messages[-1].startswith("the holder released the database's lock after ")


def test_a_thread_that_is_expected_to_hold_the_lock_is_not_logged(
    database: DatabaseWrapper, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "LONGEST_S", -1.0)
    with holding.expected():
        begin(database)
        holding.look()
        end(database)
    assert caplog.messages == []
    begin(database)
    holding.look()
    end(database)
    assert len(caplog.messages) == 2


def test_while_tables_are_changed_locks_are_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    monkeypatch.setattr(migrate.Command, "handle", lambda *_, **__: seen.append(set(holding._expecting)))
    call_command("migrate", verbosity=0)
    assert seen == [{get_ident()}]
    assert not holding._expecting


def test_a_short_transaction_is_not_logged(database: DatabaseWrapper, caplog: pytest.LogCaptureFixture) -> None:
    begin(database)
    holding.look()
    end(database)
    holding.look()
    assert caplog.messages == []


@pytest.mark.parametrize("how", ["commit", "rollback", "close"])
def test_the_lock_is_let_go_when_the_transaction_ends(how: str, database: DatabaseWrapper) -> None:
    begin(database)
    assert id(database) in holding._holds
    getattr(database, how)()
    assert id(database) not in holding._holds


def test_a_transaction_that_only_reads_holds_nothing(database: DatabaseWrapper) -> None:
    database.transaction_mode = "DEFERRED"
    begin(database)
    assert id(database) not in holding._holds
    end(database)


def test_what_a_thread_left_behind_is_forgotten(database: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "LONGEST_S", 0.0)
    thread = Thread(target=begin, args=(database,))
    thread.start()
    thread.join()
    holding.look()
    assert id(database) not in holding._holds
    database.rollback()


def test_stored_transactions_are_counted(database: DatabaseWrapper) -> None:
    begin(database)
    end(database)
    assert database.stored == 1
    begin(database)
    database.rollback()
    database.set_autocommit(True)
    assert database.stored == 1


def test_a_request_waits_for_the_lock_for_less_time_than_a_command(database: DatabaseWrapper) -> None:
    found: dict[str, Any] = {}

    def look(name: str) -> None:
        if name:
            limits.use(name)
        found[name] = database.get_connection_params()["timeout"]

    for name in ("request", "worker", ""):
        thread = Thread(target=look, args=(name,))
        thread.start()
        thread.join()
    assert found == {"request": 5.0, "worker": 20.0, "": 20}


def test_the_limits_of_postgres_are_options_of_its_session() -> None:
    options = limits.Limits(lock=5, statement=20, idle=0.5).options()
    assert options == "-c lock_timeout=5000 -c statement_timeout=20000 -c idle_in_transaction_session_timeout=500"
    assert limits.NO_LIMITS.options() == ""


@pytest.mark.parametrize(
    "wait",
    [
        lambda: waking.publish("task"),
        lambda: Process(["true"]),
        lambda: never_in_transaction("Anything"),
    ],
    ids=["a broker", "a process", "anything"],
)
def test_nothing_is_waited_for_within_a_transaction(db: None, wait: Any) -> None:
    with transaction.atomic(), pytest.raises(WaitsInTransaction):
        wait()


def test_outside_of_transactions_anything_may_be_waited_for(db: None) -> None:
    assert connection.in_atomic_block, "the transaction that a test runs in does not count"
    never_in_transaction("Anything")
