"""What REST says where chunks wait in workers' queues."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from auctions import lane
from auctions.markets import open_market
from auctions.models import Market
from auctions.slots import pass_slots
from tests.auctions.worlds import make_cluster, make_user, set_time

BIDS = "/api/v1/clusters/queues/bids"


@pytest.fixture
def queues(db: None) -> Market:
    """A market of one server of four workers that queues, and a cloud that is not used."""
    return open_market(make_cluster("queues", servers=1, horizon=40), policy="preemptive", parameters={"cloud": "edge"})


@pytest.fixture
def alices(client_of: Callable[[User], APIClient], alice: User) -> APIClient:
    """Alice's client."""
    return client_of(alice)


def send(client: APIClient, market: Market, epochs: int) -> int:
    answer = client.post(BIDS, {"model": "ResNet-50", "epochs": epochs}, format="json")
    assert answer.status_code == 202, answer.json()
    lane.drain(market.pk)
    return int(answer.json()["sequence"])


def test_a_bid_without_a_weight_is_told_where_its_chunks_go(alices: APIClient, queues: Market) -> None:
    set_time(queues, 10.0)
    told = alices.post("/api/v1/clusters/queues/quotes", {"model": "ResNet-50", "epochs": 4}, format="json").json()
    assert (told["admitted"], told["value"], told["payment"]) == (True, 1.0, 0.0)
    assert [row["worker"] for row in told["schedule"]["chunks"]] == [1, 2, 3, 4]
    number = send(alices, queues, 4)
    assert alices.get(f"{BIDS}/{number}/schedule").json()["chunks"] == told["schedule"]["chunks"]
    assert alices.get(f"{BIDS}/{number}").json()["decision"]["schedule"]["chunks"] == told["schedule"]["chunks"]


def test_segments_and_preemptions_are_told_and_others_stay_nameless(
    alices: APIClient, queues: Market, client_of: Callable[[User], APIClient]
) -> None:
    set_time(queues, 10.0)
    long = send(alices, queues, 30)
    set_time(queues, 350.0)
    short = send(client_of(make_user("bob")), queues, 1)
    shorter = send(alices, queues, 1)
    set_time(queues, 6000.0)
    pass_slots(queues.pk)
    rows = alices.get(f"{BIDS}/{long}/segments").json()["results"]
    assert sum(row["end_s"] - row["start_s"] for row in rows) == pytest.approx(4 * 30 * 10 * 10.16, rel=1e-6)
    assert all(a["start_s"] <= b["start_s"] for a, b in pairwise(rows))
    lost = alices.get(f"{BIDS}/{long}/preemptions").json()["results"]
    assert lost
    assert {row["by"] for row in lost} == {None}, (short, shorter)
    assert alices.get(f"{BIDS}/{short}/segments").status_code == 404
