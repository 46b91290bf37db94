"""Pages of a market that queues."""

import csv
from collections.abc import Sequence

import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.models import Bid, Market
from auctions.readings import competitive_ratio
from auctions.readings.queues import displacements
from tests.auctions.worlds import make_cluster, make_operator, make_user, set_time

HOME = "/markets/queues/"


@pytest.fixture
def queues(db: None) -> Market:
    """A market of one edge server with four workers, and a cloud that is not used."""
    return open_market(make_cluster("queues", servers=1, horizon=40), policy="preemptive", parameters={"cloud": "edge"})


def send(market: Market, owner: User, epochs: int, **more: object) -> Bid:
    bid = submit_bid(cluster=market.cluster, owner=owner, body={"model": "ResNet-50", "epochs": epochs, **more}).bid
    decision_queue.process_pending(market.pk)
    return bid


def go_to(market: Market, slot: float) -> None:
    set_time(market, slot * market.cluster.slot_seconds)
    pass_slots(market.pk)


def rows_of(client: Client, path: str) -> Sequence[dict[str, str]]:
    answer = client.get(f"{HOME}{path}")
    assert answer.headers["Content-Type"].startswith("text/csv")
    return list(csv.DictReader(answer.text.splitlines()))


def test_segments_and_preemptions_of_a_bid_are_tables(
    queues: Market, alice: User, as_alice: Client, as_bob: Client
) -> None:
    set_time(queues, 10.0)
    send(queues, alice, 30)
    go_to(queues, 3.5)
    send(queues, User.objects.get(username="bob"), 1)
    page = as_alice.get(f"{HOME}bids/1/").text
    assert "bids/1/segments.csv" in page
    assert "bids/1/preemptions.csv" not in page, "it was not displaced yet"
    go_to(queues, 20)
    assert "bids/1/preemptions.csv" in as_alice.get(f"{HOME}bids/1/").text
    segments = rows_of(as_alice, "bids/1/segments.csv")
    assert {row["server"] for row in segments} == {"edge-0"}
    assert {row["worker"] for row in segments} == {"1", "2", "3", "4"}
    # 4 chunks of 30 epochs of 10 mini-batches of 10.16 s in slots of 100 s
    total = sum(float(row["to_slot"]) - float(row["from_slot"]) for row in segments)
    assert total == pytest.approx(4 * 30 * 10 * 10.16 / 100)
    lost = rows_of(as_alice, "bids/1/preemptions.csv")
    assert [(row["at_slot"], row["by_bid"]) for row in lost] == [("4.0", "")] * 4
    assert [row["worker"] for row in lost] == ["1", "2", "3", "4"]
    for part in ("segments.csv", "preemptions.csv"):
        assert as_bob.get(f"{HOME}bids/1/{part}").status_code == 404


def test_a_bid_that_displaces_another_is_named_to_its_own_owner_and_to_operators_alone(
    queues: Market, alice: User
) -> None:
    bob = make_user("bob")
    set_time(queues, 10.0)
    long = send(queues, alice, 30)
    go_to(queues, 3.5)
    by_bob = send(queues, bob, 1)
    go_to(queues, 8.5)
    by_alice = send(queues, alice, 1)
    go_to(queues, 20)

    def named(viewer: User) -> set[int | None]:
        return {displacement.by for displacement in displacements(long, viewer)}

    assert named(make_operator()) == {by_bob.sequence, by_alice.sequence}
    assert named(alice) == {None, by_alice.sequence}
    assert named(bob) == {by_bob.sequence, None}
    assert displacements(by_bob, make_operator("oscar")) == (), "that of another bid"


def test_the_form_asks_for_the_size_of_a_chunk_where_jobs_queue(queues: Market, alice: User, as_alice: Client) -> None:
    open_market(make_cluster("slots"), policy="fifo")
    assert "chunk_mb" not in as_alice.get("/markets/slots/submit/").text
    assert "it does not change the order of jobs" in as_alice.get(f"{HOME}submit/").text
    typed = {"model": "ResNet-50", "epochs": "2", "weight": "1", "chunk_mb": "2.5"}
    wrong = as_alice.post(f"{HOME}quote/", {**typed, "chunk_mb": "2e9"}).json()["errors"]
    assert list(wrong) == ["chunk_mb"]
    as_alice.post(f"{HOME}submit/", typed)
    decision_queue.process_pending(queues.pk)
    bid = Bid.objects.get()
    assert bid.body["chunk_mb"] == 2.5
    assert "takes 2.5 MB" in as_alice.get(f"{HOME}bids/1/").text
    assert as_alice.get(f"{HOME}submit/", {"from": "1"}).context["form"]["chunk_mb"].value() == 2.5


def test_both_competitive_ratios_are_drawn_with_a_note(queues: Market, alice: User, as_alice: Client) -> None:
    assert "figures/competitive_ratio.json" in as_alice.get(HOME).text
    empty = as_alice.get(f"{HOME}figures/competitive_ratio.json")
    assert empty.json()["data"] == []
    assert "No job is complete yet" in empty.json()["note"]
    assert rows_of(as_alice, "figures/competitive_ratio.csv") == []
    set_time(queues, 10.0)
    send(queues, alice, 6)
    send(queues, alice, 3)
    go_to(queues, 60)
    tag = as_alice.get(f"{HOME}figures/competitive_ratio.json").headers["ETag"]
    competitive_ratio.renew(queues.pk)
    drawn = as_alice.get(f"{HOME}figures/competitive_ratio.json", headers={"If-None-Match": tag})
    assert drawn.status_code == 200, "what was computed since is shown, though nothing happened"
    bars = drawn.json()["data"]
    assert [len(bar["y"]) for bar in bars] == [4, 4]
    assert "all 2 complete jobs" in drawn.json()["note"]
    rows = rows_of(as_alice, "figures/competitive_ratio.csv")
    assert [row["run"] for row in rows] == bars[0]["x"]
    assert float(rows[0]["jct_ratio"]) == float(rows[0]["jct_slots"]) / float(rows[0]["jct_bound_slots"])
