"""Requests that meet a database whose disk is full."""

from collections.abc import Iterator

import pytest
from django.db import connection
from rest_framework.test import APIClient

from tests.auctions.worlds import body, make_market, make_operator

MOST_BIDS = 200


@pytest.fixture
def full_soon(db: None) -> Iterator[None]:
    """The database may take no more pages than it has now, once the world of the test is in it."""
    make_market()
    with connection.cursor() as cursor:
        # Pages that tests before this one left empty would take all bids.
        cursor.execute("CREATE TABLE filler (content BLOB)")
        cursor.execute(
            "INSERT INTO filler SELECT zeroblob(freelist_count * page_size)"
            " FROM pragma_freelist_count, pragma_page_size"
        )
        cursor.execute("PRAGMA max_page_count")
        (most,) = cursor.fetchone()
        cursor.execute("PRAGMA page_count")
        (now,) = cursor.fetchone()
        cursor.execute(f"PRAGMA max_page_count = {now}")
        yield
        cursor.execute(f"PRAGMA max_page_count = {most}")


def test_the_answer_names_the_full_disk(full_soon: None) -> None:
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(make_operator())
    for _ in range(MOST_BIDS):
        answer = client.post("/api/v1/clusters/lab/bids", body(), format="json")
        if answer.status_code >= 400:
            break
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert answer.json()["detail"].startswith("The disk of the database is full; nothing was stored.")
