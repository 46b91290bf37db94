"""A busy database is logged once when it begins and once when it is over, however tasks call each other."""

import psycopg2
import pytest
from django.db import OperationalError

from auctions.runtime import task_errors
from auctions.runtime.task_errors import errors_logged

WHAT = "deciding bids of market 1"


def away() -> OperationalError:
    error = OperationalError("connection refused")
    error.__cause__ = psycopg2.OperationalError()  # without a code, as there is no connection
    return error


def test_a_block_that_failed_within_one_of_the_same_name_is_not_over(
    db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_errors, "_waiting", set())
    for _ in range(3):
        with errors_logged(WHAT), errors_logged(WHAT):
            raise away()
    (line,) = caplog.messages
    assert line.startswith(f"{WHAT} waits, for the database is away or busy")
    with errors_logged(WHAT), errors_logged(WHAT):
        pass
    assert caplog.messages[1:] == [f"{WHAT} goes on"]
