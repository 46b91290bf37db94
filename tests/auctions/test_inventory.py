"""A cluster that changes under a running market."""

import pytest
from django.contrib.auth.models import User
from django.db import models

from auctions.engine import decision_queue
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.models import Bid, BidState, Event, EventKind, Market
from cluster.guards import ChangeRefused, checked_change
from cluster.models import Capacity, Cluster, Server
from tests.auctions.worlds import add_server, submit


@pytest.fixture
def held(market: Market, alice: User) -> Market:
    """Three jobs planned and one bid that waits."""
    for _ in range(3):
        submit(market, alice, 500.0, epochs=5)
    decision_queue.process_pending(market.pk)
    submit(market, alice, 500.0, epochs=2, upload_delay_s={"edge-1": 200})
    return market


def broken(market: Market) -> dict[str, tuple[str, ...]]:
    return {f.check: f.rows for f in audit_market(market) if not f.passed}


def test_capacity_below_what_is_committed_is_refused_in_words(held: Market) -> None:
    busy = Server.objects.filter(commitments__isnull=False).first()
    assert busy is not None
    with pytest.raises(ChangeRefused) as refused, checked_change(held.cluster):
        Capacity.objects.filter(server=busy).update(amount=0)
    assert f"Server {busy.name} has" in str(refused.value)
    assert "committed" in str(refused.value)
    assert not Event.objects.filter(kind=EventKind.INVENTORY).exists()


def test_a_horizon_shorter_than_a_promise_is_refused(held: Market) -> None:
    with pytest.raises(ChangeRefused, match="horizon must be at least"), checked_change(held.cluster):
        Cluster.objects.update(horizon_slots=1)


def test_another_slot_length_is_refused_once_there_are_bids(held: Market) -> None:
    with (
        pytest.raises(ChangeRefused, match="slot length cannot change from 100 s to 60 s"),
        checked_change(held.cluster),
    ):
        Cluster.objects.update(slot_seconds=60)


def test_a_server_with_history_cannot_be_deleted(held: Market) -> None:
    busy = Server.objects.filter(commitments__isnull=False).first()
    assert busy is not None
    with pytest.raises(models.ProtectedError):
        busy.delete()


def test_a_bid_that_waits_is_decided_by_the_new_inventory(held: Market) -> None:
    cluster = held.cluster
    with checked_change(cluster):
        new = add_server(cluster, "edge-new", units=30, delay_s=0.0)
        Server.objects.exclude(pk=new.pk).update(position=models.F("position") + 10)
    decision_queue.process_pending(held.pk)
    bid = Bid.objects.latest("sequence")
    assert bid.state in (BidState.PLANNED, BidState.RUNNING)
    assert bid.core_bid["delay"] == [0, 0, 2, 3], "the new server stands first; the bid's own delay follows edge-1"
    assert broken(held) == {}
    assert replay_market(held).mismatches == ()


def test_an_unchanged_inventory_is_no_event(held: Market) -> None:
    with checked_change(held.cluster):
        Cluster.objects.update(note="a note")
    assert not Event.objects.filter(kind=EventKind.INVENTORY).exists()


def test_a_renamed_server_keeps_its_jobs(held: Market, alice: User) -> None:
    with checked_change(held.cluster):
        Server.objects.filter(name="edge-1").update(name="edge-eins")
    submit(held, alice, 500.0, epochs=3)
    decision_queue.process_pending(held.pk)
    assert Event.objects.filter(kind=EventKind.INVENTORY).count() == 1
    assert broken(held) == {}
