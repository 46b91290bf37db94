"""Jobs whose training ends before their last slot: complete at once, machines free, promise and payment as decided."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from rest_framework.test import APIClient

from auctions.domain.errors import WrongState
from auctions.domain.money import money_of
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, complete_job, fail_job
from auctions.engine.markets import open_market
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.history.audit import audit_market
from auctions.history.audit_pass import EventPass
from auctions.history.audit_rows import bids_accounted_for, states_match_slot
from auctions.models import Bid, BidState, Certificate, Commitment, Event, EventKind, Market, Payment
from auctions.readings import certificates
from auctions.readings.gantt import bars
from auctions.readings.market_readings import flow, summary
from auctions.readings.queues import stretches_of
from auctions.state import book
from cluster.models import Capacity, Resource
from frontend.presenters.states import look_of
from tests.auctions.counterfactual.assertions import (
    assert_every_bid_is_accounted_for,
    assert_replayed_as_recorded,
    assert_stands_on_rows_as_on_events,
    assert_the_same_policy_changes_nothing,
)
from tests.auctions.worlds import body, make_cluster, make_market, make_operator, make_user, sell_out, set_time, submit
from tests.draws import some

FAMILIES = ("dps", "oasis", "completions", "competition", "weighted_completion", "dorm", "fifo", "preemptive")


def run_to(market: Market, seconds: float) -> None:
    """Decide what waits, let time pass, and give jobs that wait for a plan their turn."""
    decision_queue.process_pending(market.pk)
    set_time(market, seconds)
    pass_slots(market.pk)


def assert_sound(market: Market) -> None:
    """The audit, with a replay byte for byte, and counterfactual replays find nothing."""
    assert {f.check: f.rows for f in audit_market(market) if not f.passed} == {}
    assert_replayed_as_recorded(market)
    assert_stands_on_rows_as_on_events(market)
    assert_the_same_policy_changes_nothing(market)


def running(market: Market, alice: User, **changes: Any) -> Bid:
    """A job of eight epochs that has run for two slots and a half."""
    bid = submit(market, alice, **{"epochs": 8, **changes})
    decision_queue.process_pending(market.pk)
    run_to(market, 250.0)
    bid.refresh_from_db()
    assert bid.state == BidState.RUNNING
    return bid


def test_it_is_complete_with_the_promise_and_payment_that_were_decided(market: Market, alice: User) -> None:
    bid = running(market, alice)
    before = (bid.value, bid.payment, bid.start_slot, bid.completion_slot)
    stale = Bid.objects.get(pk=bid.pk)
    stale.payment = None  # as in a row that was read before the decision
    assert complete_job(stale).payment == before[1]
    bid.refresh_from_db()
    assert (bid.state, bid.ended_slot, bid.refund, bid.end_reason) == (BidState.COMPLETED, 3, 0.0, "")
    assert (bid.value, bid.payment, bid.start_slot, bid.completion_slot) == before
    assert bid.completion_slot is not None
    assert bid.completion_slot > 3
    assert (bid.started, bid.completed_early, bid.completed_slot) == (True, True, 3)
    assert [row.amount for row in Payment.objects.all()] == [bid.payment]
    money = money_of(bid)
    assert money is not None
    assert (money.value, money.paid, money.refund) == (bid.value, bid.payment, 0.0)
    market.refresh_from_db()
    assert book.private_copy(market, now=3).ledger.used.sum() == 0
    assert max(Commitment.objects.values_list("end", flat=True)) == 3
    assert_sound(market)


def test_its_event_is_its_own(market: Market, alice: User) -> None:
    bid = complete_job(running(market, alice))
    event = Event.objects.latest("version")
    assert (event.kind, event.bid_id, event.slot) == (EventKind.COMPLETED, bid.pk, 3)
    assert event.payload == {"begun": 2}
    run_to(market, 2000.0)
    assert Event.objects.filter(kind=EventKind.SLOT).latest("version").payload["completed"] == []
    assert_sound(market)


def test_it_happens_once(market: Market, alice: User) -> None:
    bid = complete_job(running(market, alice))
    version = Market.objects.get(pk=market.pk).version
    for again in (complete_job, cancel_job, lambda one: fail_job(one, "late")):
        with pytest.raises(WrongState):
            again(Bid.objects.get(pk=bid.pk))
    assert Market.objects.get(pk=market.pk).version == version
    assert Event.objects.filter(kind=EventKind.COMPLETED).count() == 1


def test_only_a_running_job_ends_early(market: Market, alice: User) -> None:
    waiting = submit(market, alice)
    with pytest.raises(WrongState, match="only a bid that is running can become completed"):
        complete_job(waiting)
    planned = submit(market, alice, start_after_s=500)
    decision_queue.process_pending(market.pk)
    planned.refresh_from_db()
    assert planned.state == BidState.PLANNED
    with pytest.raises(WrongState):
        complete_job(planned)
    assert not Event.objects.filter(kind=EventKind.COMPLETED).exists()


def test_what_counts_is_the_jobs_row_and_not_an_object_read_before(market: Market, alice: User) -> None:
    before = submit(market, alice, epochs=8)
    decision_queue.process_pending(market.pk)
    run_to(market, 250.0)
    assert before.state == BidState.SUBMITTED
    assert complete_job(before).state == BidState.COMPLETED


def test_a_job_whose_last_slot_has_passed_was_not_early(market: Market, alice: User) -> None:
    bid = running(market, alice)
    set_time(market, 100.0 * (bid.completion_slot or 0))
    with pytest.raises(WrongState):
        complete_job(bid)
    pass_slots(market.pk)
    bid.refresh_from_db()
    assert (bid.state, bid.ended_slot, bid.completed_early) == (BidState.COMPLETED, None, False)


def test_what_it_frees_is_sold_to_the_next_bid_and_the_bounds_hold(alice: User) -> None:
    market = make_market(make_cluster(servers=1, units=1, horizon=8))
    # The worker of the edge in all eight slots: the cloud is too far away.
    whole = submit(market, make_user("carol"), 1e6, epochs=2, upload_delay_s={"cloud": 5000})
    decision_queue.process_pending(market.pk)
    sell_out(market)
    run_to(market, 150.0)
    soon = {"form": "step", "value": 500.0, "deadline_s": 500}
    refused, bob = submit(market, alice, utility=soon), make_user("bob")
    decision_queue.process_pending(market.pk)
    refused.refresh_from_db()
    assert refused.state == BidState.REJECTED
    complete_job(whole)
    sold = submit(market, bob, utility=soon)
    decision_queue.process_pending(market.pk)
    sold.refresh_from_db()
    assert sold.state == BidState.PLANNED
    certificates.renew(market.pk)
    row = Certificate.objects.get(market=market)
    assert row.loose >= Bid.objects.filter(state=BidState.COMPLETED).count() > 0
    run_to(market, 350.0)
    certificates.renew(market.pk)
    assert_sound(market)


@pytest.mark.soak
@pytest.mark.thorough
@pytest.mark.parametrize("name", some(FAMILIES, 4))
def test_every_policy_plans_the_freed_machines_anew(name: str, alice: User, db: None) -> None:
    cluster = make_cluster(units=4, horizon=40)
    if name == "oasis":
        gpu, ps = Resource.objects.filter(cluster=cluster).order_by("position")
        Capacity.objects.filter(server__name__startswith="edge", resource=ps).update(amount=0)
        Capacity.objects.filter(server__name="cloud", resource=gpu).update(amount=0)
    market = open_market(cluster, policy=name)
    weighs = {"model": "ResNet-50", "epochs": 6, "weight": 5}
    sent = body(500.0, epochs=6) if name in ("dps", "oasis", "completions", "competition") else weighs
    for _ in range(6):
        submit_bid(cluster=market.cluster, owner=alice, body=sent)
    run_to(market, 350.0)
    first = Bid.objects.filter(state=BidState.RUNNING).order_by("sequence").first()
    assert first is not None
    complete_job(first)
    run_to(market, 450.0)
    other = Bid.objects.filter(state=BidState.RUNNING).order_by("-sequence").first()
    if other is not None:
        complete_job(other)
    submit_bid(cluster=market.cluster, owner=alice, body=sent)
    run_to(market, 460.0)
    book.forget()
    for seconds in range(600, 20_000, 800):
        run_to(market, seconds)
    assert set(Bid.objects.values_list("state", flat=True)) <= {"completed", "rejected"}
    held = first.commitments.filter(end__gt=F("start"))  # the others were cut before they began
    assert all(end <= (first.ended_slot or 0) for end in held.values_list("end", flat=True))
    assert all(one.end <= (first.ended_slot or 0) for one in stretches_of(first))
    assert_sound(market)
    assert_every_bid_is_accounted_for(market, "dps", "fifo", "preemptive", "completions")


def test_times_count_to_the_real_end(market: Market, alice: User) -> None:
    early = complete_job(running(market, alice))
    late = submit(market, alice)
    run_to(market, 2000.0)
    late.refresh_from_db()
    assert late.completion_slot is not None
    took = (3 - early.arrival_slot, late.completion_slot - late.arrival_slot)
    found = flow(market)
    assert (found.sequence.tolist(), found.slot.tolist()) == ([1, 2], [3, late.completion_slot])
    assert tuple(found.flow.tolist()) == took
    seen = summary(market)
    assert seen.mean_jct_slots == sum(took) / 2
    assert (seen.completed, seen.welfare) == (2, 200.0)


def test_a_bar_ends_where_the_job_ended(market: Market, alice: User) -> None:
    complete_job(running(market, alice))
    shown = bars(market, start=0, end=12, viewer=alice)
    assert {(bar.state, bar.end) for bar in shown} == {(BidState.COMPLETED, 3)}


def test_the_audit_finds_an_end_without_an_event_and_an_end_that_is_late(market: Market, alice: User) -> None:
    bid = running(market, alice)
    run_to(market, 2000.0)
    Bid.objects.filter(pk=bid.pk).update(ended_slot=3)
    assert EventPass(market.__class__.objects.get(pk=market.pk)).states.found() == [
        "bid 1 ended in slot 3; no event says so"
    ]
    assert bids_accounted_for(market) == ["1 bids are completed early, 0 events say so"]
    Bid.objects.filter(pk=bid.pk).update(ended_slot=99)
    assert len(states_match_slot(market)) == 1


def test_an_operator_completes_a_job_and_others_do_not(market: Market, alice: User) -> None:
    bid = running(market, alice)
    olga, owner, charlie = APIClient(), APIClient(), APIClient()
    olga.force_authenticate(make_operator())
    owner.force_authenticate(alice)
    charlie.force_authenticate(make_user("charlie"))
    where = f"/api/v1/clusters/lab/bids/{bid.sequence}"
    assert charlie.post(f"{where}/complete").status_code == 403
    assert owner.post(f"{where}/complete").status_code == 403
    assert olga.post(f"{where}/complete", {"reason": "?"}, format="json").status_code == 400
    answer = olga.post(f"{where}/complete").json()
    assert (answer["state"], answer["ended_slot"], answer["ended_s"]) == ("completed", 3, 300)
    assert answer["completion_slot"] == bid.completion_slot
    assert (answer["value"], answer["payment"], answer["refund"]) == (bid.value, bid.payment, 0.0)
    assert answer["started"] is True
    assert olga.post(f"{where}/complete").status_code == 409


def test_pages_say_that_it_ended_early(market: Market, alice: User) -> None:
    bid = complete_job(running(market, alice))
    assert look_of(bid).meaning == "Its training ended early; its remaining slots were freed."
