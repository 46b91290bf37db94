"""Lists of bids read no more than they show."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from auctions.engine import decision_queue
from auctions.models import Market
from tests.auctions.worlds import submit


@pytest.mark.parametrize("path", ["/markets/lab/bids/", "/api/v1/clusters/lab/bids?page_size=200"])
def test_what_bids_state_stays_in_the_database_and_no_bid_takes_a_query_of_its_own(
    market: Market, alice: User, path: str
) -> None:
    client, counts = Client(), []
    client.force_login(alice)
    for number in (1, 4):
        for _ in range(number):
            submit(market, alice, 100.0, label="shown")
        decision_queue.process_pending(market.pk)
        client.get(path)
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(path)
        assert answer.content.decode().count("shown") >= number
        counts.append(len(queries))
        read = [one["sql"] for one in queries.captured_queries if '"auctions_bid"."label"' in one["sql"]]
        assert read
        stated = [f'"auctions_bid"."{name}"' for name in ("body", "resolved_request", "core_bid")]
        assert not any(name in sql for sql in read for name in stated)
    assert counts[0] == counts[1]
