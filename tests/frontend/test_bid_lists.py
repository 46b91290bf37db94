"""Lists of bids read no more than they show."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.engine.submission import submit_bid
from auctions.models import Market
from tests.auctions.worlds import make_cluster, submit


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


@pytest.mark.parametrize(
    ("stated", "shown"), [(0.000001, "0.000001"), (0.1 + 0.2, "0.30"), (5, "5"), (1e9, "1,000,000,000")]
)
def test_a_small_weight_is_not_shown_as_none(stated: float, shown: str, alice: User) -> None:
    market, client = open_market(make_cluster(), policy="weighted_completion"), Client()
    client.force_login(alice)
    submit_bid(cluster=market.cluster, owner=alice, body={"model": "ResNet-50", "epochs": 1, "weight": stated})
    decision_queue.process_pending(market.pk)
    assert f'<td data-label="Weight" class="number">{shown}</td>' in client.get("/markets/lab/bids/").text
    assert f"<dt>Weight</dt><dd>{shown}</dd>" in client.get("/markets/lab/bids/1/").text
