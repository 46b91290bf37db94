"""Requests that meet a database whose schema is not that of this version, but of an older or a newer one."""

import logging
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test import Client
from rest_framework.test import APIClient

from auctions.api.webhooks import EXAMPLE as WEBHOOK
from auctions.models import Bid, Webhook
from studies.experiments.api.examples import EXPERIMENTS
from studies.models import Experiment, Plan
from studies.split_learning.api.examples import TINY
from tests.auctions.worlds import body as body_of_bid
from tests.auctions.worlds import make_market, make_operator

TABLE = Webhook._meta.db_table
OTHERS = {
    "no table": f"ALTER TABLE {TABLE} RENAME TO earlier",
    "no column": f"ALTER TABLE {TABLE} RENAME COLUMN off_reason TO earlier",
}
WORDS = "The database is not at this version's schema; nothing was stored."


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


def _add_needed_column(model: type[Model]) -> None:
    """Give a table a column without a default that each row must have, as a newer version may."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute("SELECT sql FROM sqlite_master WHERE name = %s", [table])
        (statement,) = cursor.fetchone()
        head, columns = statement.split("(", 1)
        cursor.execute(f"{head.replace(table, 'newer')}(of_a_newer_version text NOT NULL, {columns}")
        cursor.execute(f"DROP TABLE {table}")
        cursor.execute(f"ALTER TABLE newer RENAME TO {table}")


@pytest.mark.parametrize(
    ("model", "address", "body"),
    [
        (Webhook, "/api/v1/webhooks", WEBHOOK),
        (Bid, "/api/v1/clusters/lab/bids", body_of_bid()),
        (Experiment, "/api/v1/experiments", next(iter(EXPERIMENTS.values()))),
        (Plan, "/api/v1/plans", {"instance": TINY}),
    ],
)
def test_a_newer_schema_is_no_failure_of_this_version(db: None, model: type[Model], address: str, body: Any) -> None:
    make_market()
    _add_needed_column(model)
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(make_operator())
    for headers in ({}, {"Idempotency-Key": "once"}):
        answer = client.post(address, body, format="json", headers=headers)
        assert (answer.status_code, answer.get("Retry-After")) == (503, "3"), answer.content
        assert WORDS in answer.json()["detail"]
    assert not model._default_manager.exists()
