"""Statements that PostgreSQL plans once; `tests/faults/test_prepared_statements.py` has a real server."""

from typing import Any

import pytest

from cluster.database import prepared
from cluster.database.postgresql import statements

QUERY = "SELECT %s AS one, name FROM rows WHERE name LIKE 'a%%' AND size = %s LIMIT 3"


class Connection:
    """A connection for which statements are prepared."""


class Cursor:
    """What is asked of a cursor."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sent: list[str] = []
        self.fails = False

    def execute(self, sql: str) -> None:
        """Note a statement, or fail."""
        if self.fails:
            raise OSError
        self.sent.append(sql)


@pytest.fixture(autouse=True)
def _own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_numbers", {})
    statements.register(QUERY)


def named(on: Any) -> str:
    return statements.named(QUERY, on)


def test_a_query_is_prepared_once_for_each_connection() -> None:
    first, second = Connection(), Connection()
    for connection in (first, second):
        one, other = Cursor(connection), Cursor(connection)
        assert named(one) == named(other) == "EXECUTE asked_0 (%s, %s)"
        assert one.sent == [
            "PREPARE asked_0 AS SELECT $1 AS one, name FROM rows WHERE name LIKE 'a%' AND size = $2 LIMIT 3"
        ]
        assert other.sent == []


def test_it_is_prepared_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(statements, "monotonic", lambda: now[0])
    cursor = Cursor(Connection())
    for later in (0.0, statements.LONGEST_S - 1, 2.0):
        now[0] += later
        named(cursor)
    assert [sql.partition(" asked_0")[0] for sql in cursor.sent] == ["PREPARE", "DEALLOCATE"]
    assert cursor.sent[1].startswith("DEALLOCATE asked_0; PREPARE asked_0 AS SELECT $1")


def test_what_could_not_be_prepared_is_tried_again() -> None:
    connection = Connection()
    cursor = Cursor(connection)
    cursor.fails = True
    with pytest.raises(OSError):
        named(cursor)
    cursor.fails = False
    named(cursor)
    assert [sql.partition(" ")[0] for sql in cursor.sent] == ["PREPARE"]


def test_only_registered_queries_are_prepared() -> None:
    assert statements.is_registered(QUERY)
    assert not statements.is_registered(QUERY + " OFFSET 1")
    statements.register("SELECT 1")
    cursor: Any = Cursor(Connection())
    assert statements.named("SELECT 1", cursor) == "EXECUTE asked_1"


def test_constants_are_written_out_so_that_plans_know_them() -> None:
    found = prepared._with_constants("a = %s AND b LIKE 'c%%' AND d IN (%s, %s)", (7, "it's", "e"), arguments=["e"])
    assert found == ("a = 7 AND b LIKE 'c%%' AND d IN ('it''s', %s)", ["e"])
    assert prepared._with_constants("a = %s, %s", (7, True), arguments=[7]) == ("a = %s, %s", [7, True])
    assert prepared._with_constants("a = %s", ("\\",), arguments=[]) == ("a = %s", ["\\"])
