"""Queries that are built once, on PostgreSQL: the server plans them once for a connection, and finds the same rows."""

import pytest

from tests.faults.installation import shell

pytestmark = [pytest.mark.slow, pytest.mark.services]

ASKED = """
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, connections, transaction
from cluster.database import holding
from cluster.database.prepared import Prepared

def rows(name, least):
    return User.objects.filter(username__contains="%", username=name, pk__gt=least)

found, locked = Prepared(rows, str, int), Prepared(lambda pk: User.objects.select_for_update().filter(pk=pk), int)
users = [User.objects.create(username=name) for name in ("a%", "b%s", "c")]
for user in users[:2]:
    assert found(user.username, 0) == list(rows(user.username, 0)) == [user]
    assert found(user.username, user.pk) == []
assert found("c", 0) == []
for _ in range(3):
    with transaction.atomic():
        assert locked(users[0].pk) == [users[0]]
        assert id(connections["default"]) in holding._holds
        transaction.set_rollback(True)
fresh = Prepared(lambda pk: User.objects.filter(pk__lt=pk), int)
with transaction.atomic():
    for ask in (lambda: connection.cursor().execute("SELECT 1 / 0"), lambda: fresh(1)):
        try:
            ask()
        except DatabaseError:
            continue
        raise AssertionError("the transaction has failed")
    transaction.set_rollback(True)
assert fresh(0) == []
with connection.cursor() as cursor:
    cursor.execute("SELECT statement FROM pg_prepared_statements ORDER BY prepare_time")
    for (statement,) in cursor.fetchall():
        print(statement)
"""


def test_a_query_is_planned_once_and_finds_the_same_rows(env: dict[str, str]) -> None:
    of_names, of_locks, last = shell(ASKED, env).splitlines()
    assert of_names.startswith("PREPARE asked_")
    assert "= $" in of_names
    assert of_locks.endswith("FOR UPDATE")
    assert "< $1" in last
