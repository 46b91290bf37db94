"""Requests that meet a database whose schema is not that of this version: a migration is missing, or was undone."""

import logging

import pytest
from django.db import connection
from django.test import Client

from auctions.models import Webhook
from tests.auctions.worlds import make_operator

TABLE = Webhook._meta.db_table
OTHERS = {
    "no table": f"ALTER TABLE {TABLE} RENAME TO earlier",
    "no column": f"ALTER TABLE {TABLE} RENAME COLUMN off_reason TO earlier",
}
WORDS = "The database is not at this version's schema yet; nothing was stored."


@pytest.mark.parametrize("statement", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize(
    ("address", "kind"), [("/api/v1/webhooks", "application/problem+json"), ("/account/webhooks/", "text/html")]
)
def test_the_client_is_asked_to_come_again_and_the_error_is_logged(
    db: None, caplog: pytest.LogCaptureFixture, statement: str, address: str, kind: str
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(make_operator())
    assert client.get(address).status_code == 200
    with connection.cursor() as cursor:
        cursor.execute(statement)
    answer = client.get(address)
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert answer["Content-Type"].startswith(kind)
    said = answer.json()["detail"] if "json" in kind else answer.text.replace("&#x27;", "'")
    assert WORDS in said
    assert TABLE not in answer.text
    (logged,) = (record for record in caplog.records if record.name == "web.problems")
    assert (logged.levelno, bool(logged.exc_info)) == (logging.ERROR, True)
