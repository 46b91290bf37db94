"""Connections to PostgreSQL that are kept for the next request; `tests/faults/test_busy_postgres.py` has real ones."""

import os
from collections.abc import Iterator
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, TRANSACTION_STATUS_INTRANS

from cluster.database.postgresql import kept

PARAMETERS = ("host", "127.0.0.1")


class Connection:
    """What is asked of a connection; the server says something where a byte is written."""

    def __init__(self, status: int = TRANSACTION_STATUS_IDLE) -> None:
        self.closed = 0
        self.info = SimpleNamespace(transaction_status=status)
        self._mine, self.server = os.pipe()

    def fileno(self) -> int:
        """The file from which answers are read."""
        return self._mine

    def close(self) -> None:
        """Close it."""
        self.closed = 1


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kept, "_closer", SimpleNamespace())
    yield
    kept._kept.clear()


def put(one: Any) -> bool:
    return kept.put(one, PARAMETERS)


def take(parameters: Any = PARAMETERS) -> Any:
    return kept.take(parameters)


def test_the_connection_that_was_used_last_is_taken_first_and_once() -> None:
    first, last = Connection(), Connection()
    assert put(first)
    assert put(last)
    assert [take(), take(), take()] == [last, first, None]


def test_a_connection_with_other_limits_is_left() -> None:
    one = Connection()
    put(one)
    assert take(("options", "-c lock_timeout=1")) is None
    assert take() is one


def test_few_are_kept() -> None:
    assert [put(Connection()) for _ in range(kept.MOST + 1)] == [True] * kept.MOST + [False]


def test_a_connection_that_is_closed_or_in_a_transaction_is_not_kept() -> None:
    closed = Connection()
    closed.close()
    assert not put(closed)
    assert not put(Connection(TRANSACTION_STATUS_INTRANS))
    assert take() is None


def test_a_connection_that_the_server_ended_is_closed_and_the_next_one_taken() -> None:
    good, ended, hung_up = Connection(), Connection(), Connection()
    for one in (good, ended, hung_up):
        put(one)
    os.write(ended.server, b"E")
    os.close(hung_up.server)
    assert take() is good
    assert (good.closed, ended.closed, hung_up.closed) == (0, 1, 1)


def test_a_connection_that_nobody_used_for_long_is_closed() -> None:
    old = Connection()
    put(old)
    kept.close_old(now=monotonic() + kept.LONGEST_S - 1)
    assert not old.closed
    kept.close_old(now=monotonic() + kept.LONGEST_S + 1)
    assert old.closed
    assert take() is None
