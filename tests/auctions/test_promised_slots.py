"""Promised slots of completion when servers, the policy or jobs change: kept, or the job fails and is paid back."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.servers import lose_server, restore_server
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.models import Bid, BidState, Commitment, Market, PlanChange
from auctions.state import book
from cluster.guards import ChangeRefused, checked_change
from cluster.models import Capacity, Server
from scheduling.model.decision import parse
from scheduling.model.types import Json
from tests.auctions.worlds import PRICED, SLOT_S, make_cluster, make_user, set_time, submit

pytestmark = pytest.mark.thorough


@pytest.fixture
def market(db: None) -> Market:
    """Two servers of four units each, and no cloud that a job could reach in time."""
    cluster = make_cluster(horizon=16)
    Server.objects.filter(cluster=cluster, name="cloud").update(upload_delay_s=100 * SLOT_S)
    return open_market(cluster, policy="completions", parameters={**PRICED, "later": 0.0})


def promised(market: Market, owner: User, *, slots: int, by: int, value: float = 500.0) -> Bid:
    """A bid that takes this number of slots on a server, worth something until slot `by`, which it is promised."""
    utility: Json = {"form": "step", "value": value, "deadline_s": by * SLOT_S}
    bid = submit(market, owner, value, epochs=slots, utility=utility)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert bid.state in (BidState.PLANNED, BidState.RUNNING), bid.decision.receipt
    return bid


def due(bid: Bid) -> int:
    found = parse(bid.decision.receipt)["due"]
    assert isinstance(found, int)
    return found


def lose(market: Market, name: str) -> None:
    lose_server(Server.objects.get(cluster=market.cluster, name=name), reason="a fan broke", by=None)


def used_server(bid: Bid) -> str:
    row = Commitment.objects.filter(bid=bid).latest("end")
    return row.server.name


def assert_clean(market: Market) -> None:
    assert {found.check: found.rows for found in audit_market(market) if not found.passed} == {}
    assert replay_market(market).mismatches == ()
    kept = book.private_copy(market, now=market.slot + 1)
    book.forget()
    market.refresh_from_db()
    rebuilt = book.rebuild(market, now=kept.running.now)
    assert rebuilt.running.jobs == kept.running.jobs


def test_a_job_whose_server_is_lost_is_complete_by_its_promised_slot_on_another(market: Market, alice: User) -> None:
    bid = promised(market, alice, slots=4, by=12)
    set_time(market, 1.5 * SLOT_S)
    lose(market, used_server(bid))
    bid.refresh_from_db()
    assert bid.state in (BidState.PLANNED, BidState.RUNNING)
    assert bid.completion_slot is not None
    assert bid.completion_slot <= due(bid)
    assert_clean(market)


def test_a_promise_that_no_machines_can_keep_fails_and_what_was_not_delivered_is_paid_back(
    market: Market, alice: User
) -> None:
    kept, broken = (promised(market, alice, slots=4, by=4) for _ in range(2))
    assert used_server(kept) != used_server(broken)
    set_time(market, 2.5 * SLOT_S)
    lose(market, used_server(broken))
    states = dict(Bid.objects.values_list("pk", "state"))
    assert states[kept.pk] == BidState.RUNNING
    broken.refresh_from_db()
    assert broken.state == BidState.FAILED
    assert "was lost" in broken.end_reason
    assert broken.payment
    assert broken.refund is not None
    assert 0.0 < broken.refund < broken.payment
    assert not Commitment.objects.filter(bid=broken, end__gt=3).exists()
    assert_clean(market)


def test_a_running_job_with_a_later_promise_is_stopped_for_one_that_lost_its_server(
    market: Market, alice: User
) -> None:
    early = promised(market, alice, slots=4, by=5)
    late = promised(market, alice, slots=8, by=16)
    assert due(early) < due(late)
    set_time(market, 1.5 * SLOT_S)
    assert used_server(early) != used_server(late)
    lose(market, used_server(early))
    early.refresh_from_db()
    late.refresh_from_db()
    assert early.state != BidState.FAILED
    assert late.state != BidState.FAILED
    assert early.completion_slot is not None
    assert late.completion_slot is not None
    assert early.completion_slot <= due(early)
    assert early.completion_slot < late.completion_slot <= due(late)
    assert_clean(market)


def test_under_a_policy_that_keeps_no_promised_slots_such_jobs_keep_their_machines(market: Market, alice: User) -> None:
    jobs = [promised(market, alice, slots=4, by=15) for _ in range(3)]
    before = {bid.pk: (bid.start_slot, bid.completion_slot) for bid in Bid.objects.all()}
    change_policy(market, name="srtf", parameters={}, by=None)
    assert_clean(market)
    sent = {"model": "ResNet-50", "epochs": 1, "weight": 1.0}
    short = submit_bid(cluster=market.cluster, owner=make_user("bob"), body=sent).bid
    decision_queue.process_pending(market.pk)
    set_time(market, 3.5 * SLOT_S)
    pass_slots(market.pk)
    assert {bid.pk: (bid.start_slot, bid.completion_slot) for bid in Bid.objects.exclude(pk=short.pk)} == before
    market.refresh_from_db()
    assert_clean(market)
    change_policy(market, name="completions", parameters=dict(PRICED), by=None)
    market.refresh_from_db()
    assert not any(job.bound for job in book.private_copy(market, now=market.slot + 1).running.jobs.values())
    set_time(market, 14.5 * SLOT_S)
    pass_slots(market.pk)
    for bid in jobs:
        bid.refresh_from_db()
        assert bid.completion_slot is not None
        assert bid.completion_slot <= due(bid)
    market.refresh_from_db()
    assert_clean(market)


def test_capacity_that_promised_jobs_hold_cannot_go(market: Market, alice: User) -> None:
    for _ in range(3):
        promised(market, alice, slots=4, by=15)
    with pytest.raises(ChangeRefused, match="out of service instead"), checked_change(market.cluster):
        Capacity.objects.filter(server__name="edge-0").update(amount=1)


def test_a_server_that_returns_breaks_no_plan(market: Market, alice: User) -> None:
    lose(market, "edge-1")
    jobs = [promised(market, alice, slots=4, by=16) for _ in range(2)]
    restore_server(Server.objects.get(name="edge-1"), reason="", by=None)
    for bid in jobs:
        bid.refresh_from_db()
        assert bid.completion_slot is not None
        assert bid.completion_slot <= due(bid)
    assert_clean(market)


def test_the_receipt_and_rest_state_the_promised_slot(market: Market, alice: User, client: Client) -> None:
    bid = promised(market, alice, slots=4, by=12)
    client.force_login(alice)
    assert client.get("/api/v1/clusters/lab/bids/1").json()["decision"]["promised_slot"] == due(bid)
    page = client.get(reverse("bid", args=["lab", 1])).text
    shown = re.search("<dt>Promised by</dt><dd>(.*?)</dd>", page)
    assert shown is not None
    assert f"slot\N{NO-BREAK SPACE}{due(bid)}" in shown[1]


def test_a_standing_bid_may_move_one_that_was_admitted_before_it_in_the_same_turn(market: Market, alice: User) -> None:
    blockers = [promised(market, alice, slots=8, by=8) for _ in range(2)]
    stands = []
    for slots, by in ((4, 11), (2, 8)):
        utility: Json = {"form": "step", "value": 500.0, "deadline_s": by * SLOT_S}
        stands.append(submit(market, alice, 500.0, epochs=slots, utility=utility, standing=True))
    decision_queue.process_pending(market.pk)
    assert set(Bid.objects.filter(pk__in=[bid.pk for bid in stands]).values_list("state", flat=True)) == {"standing"}
    cancel_job(blockers[0])
    set_time(market, 3.5 * SLOT_S)
    pass_slots(market.pk)
    rows = [
        (bid.start_slot, bid.completion_slot)
        for bid in Bid.objects.filter(pk__in=[bid.pk for bid in stands]).order_by("sequence")
    ]
    assert rows == [(6, 10), (4, 6)]
    assert list(PlanChange.objects.filter(bid=stands[0]).values_list("start", "completion")) == [(4, 8), (6, 10)]
    market.refresh_from_db()
    assert_clean(market)
