"""What REST says where chunks wait in workers' queues."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.models import Market
from cluster.guards import checked_change
from cluster.models import Server
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
    decision_queue.process_pending(market.pk)
    return int(answer.json()["sequence"])


def test_a_quote_without_a_weight_shows_where_its_chunks_go(alices: APIClient, queues: Market) -> None:
    set_time(queues, 10.0)
    answered = alices.post("/api/v1/clusters/queues/quotes", {"model": "ResNet-50", "epochs": 4}, format="json").json()
    assert (answered["admitted"], answered["value"], answered["payment"]) == (True, 1.0, 0.0)
    assert [row["worker"] for row in answered["schedule"]["chunks"]] == [1, 2, 3, 4]
    number = send(alices, queues, 4)
    assert alices.get(f"{BIDS}/{number}/schedule").json()["chunks"] == answered["schedule"]["chunks"]
    assert alices.get(f"{BIDS}/{number}").json()["decision"]["schedule"]["chunks"] == answered["schedule"]["chunks"]


def test_segments_and_preemptions_are_reported_and_others_stay_nameless(
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


def test_what_servers_store_and_chunks_take_is_reported(alices: APIClient, queues: Market) -> None:
    set_time(queues, 10.0)
    change_policy(queues, name="preemptive", parameters={"cloud": "edge", "storage": "limited"}, by=None)
    with checked_change(queues.cluster):
        Server.objects.filter(cluster=queues.cluster, name="edge-0").update(storage_mb=7.5)
    servers = alices.get("/api/v1/clusters/queues").json()["servers"]
    assert [(row["name"], row["storage_mb"]) for row in servers] == [("edge-0", 7.5), ("cloud", None)]
    ask = {"model": "ResNet-50", "epochs": 4, "chunk_mb": 1.5}
    answered = alices.post("/api/v1/clusters/queues/quotes", ask, format="json").json()
    assert sum(row["count"] for row in answered["schedule"]["chunks"]) == 4
    too_large = alices.post("/api/v1/clusters/queues/quotes", {**ask, "chunk_mb": 1.9}, format="json").json()
    assert (too_large["admitted"], too_large["reason"]) == (False, "impossible")
    answer = alices.post(BIDS, {**ask, "chunk_mb": -1}, format="json")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "chunk_mb")
    stored = alices.post(BIDS, ask, format="json").json()
    assert stored["body"]["chunk_mb"] == 1.5
