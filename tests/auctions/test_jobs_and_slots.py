"""What happens to a bid after it was submitted: withdrawn, run, completed, cancelled, failed."""

from datetime import timedelta

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.utils import timezone

from auctions.domain.errors import WrongState
from auctions.domain.refunds import Refund, refund_of
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, complete_job, fail_job, withdraw_bid
from auctions.engine.markets import slot_begun
from auctions.engine.slots import pass_slots
from auctions.history.audit import audit_market
from auctions.history.audit_rows import TOLERANCE, payments_rational, welfare_adds_up
from auctions.models import (
    Bid,
    BidState,
    Commitment,
    DecisionRecord,
    Event,
    EventKind,
    Market,
    Payment,
    SlotPrice,
)
from auctions.readings.market_readings import summary
from auctions.state import book
from auctions.state.book import CATCH_UP_SLOTS
from cluster.models import ClockKind, Cluster
from frontend.presenters.tiles import tiles_of
from tests.auctions.worlds import SLOT_S, make_cluster, make_market, make_user, set_time, submit


def test_slots_pass_and_jobs_run_and_complete(market: Market, alice: User) -> None:
    bid = submit(market, alice, start_after_s=200)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert (bid.state, bid.start_slot) == (BidState.PLANNED, 2)
    states = []
    for seconds in (199.0, 200.0, 299.0, 100.0 * (bid.completion_slot or 0)):
        set_time(market, seconds)
        pass_slots(market.pk)
        bid.refresh_from_db()
        states.append(bid.state)
    assert states == [BidState.PLANNED, BidState.RUNNING, BidState.RUNNING, BidState.COMPLETED]
    event = Event.objects.filter(kind=EventKind.SLOT).latest("version")
    assert event.payload["completed"] == [bid.sequence]


def test_every_slot_that_begins_keeps_its_prices_once(market: Market, alice: User) -> None:
    submit(market, alice, epochs=3)
    decision_queue.process_pending(market.pk)
    expected = book.private_copy(market, now=1)
    prices = expected.policy.prices(expected.view())
    set_time(market, 350.0)
    assert pass_slots(market.pk)
    assert not pass_slots(market.pk)
    assert list(SlotPrice.objects.values_list("slot", flat=True)) == [1, 2, 3]
    assert np.array_equal(SlotPrice.objects.get(slot=2).prices, prices[1])


def test_a_long_stop_keeps_only_the_latest_slots_of_the_horizon(alice: User) -> None:
    market = make_market(make_cluster(horizon=CATCH_UP_SLOTS + 20))
    set_time(market, 1e6)
    pass_slots(market.pk)
    assert SlotPrice.objects.count() == CATCH_UP_SLOTS
    market.refresh_from_db()
    assert market.slot == 10_000


def test_a_cancelled_job_frees_its_future_and_stays_paid(market: Market, alice: User) -> None:
    bid = submit(market, alice, epochs=8)
    decision_queue.process_pending(market.pk)
    set_time(market, 250.0)
    pass_slots(market.pk)
    bid.refresh_from_db()
    paid, held = bid.payment, book.private_copy(market, now=3).ledger.used.sum()
    assert held > 0
    cancel_job(bid)
    assert (bid.state, bid.ended_slot, bid.payment, bid.charge.amount) == (BidState.CANCELLED, 3, paid, paid)
    market.refresh_from_db()
    assert book.private_copy(market, now=3).ledger.used.sum() == 0
    assert max(bid.commitments.values_list("end", flat=True)) == 3


def test_a_job_that_failed_says_why(market: Market, alice: User) -> None:
    bid = submit(market, alice)
    decision_queue.process_pending(market.pk)
    fail_job(bid, "a disk broke")
    assert Event.objects.get(kind=EventKind.FAILED).payload["reason"] == "a disk broke"
    assert bid.state == BidState.FAILED


def test_without_costs_by_slot_a_failed_job_is_paid_back_by_machine_slots(market: Market, alice: User) -> None:
    bid = submit(market, alice, epochs=4, start_after_s=200)
    decision_queue.process_pending(market.pk)
    DecisionRecord.objects.update(costs=None)  # as of decisions before these were kept
    bid.refresh_from_db()
    bid.payment = 12.0
    rows = list(bid.commitments.values_list("count", "start", "end"))
    every = [slot for count, start, end in rows for slot in range(start, end) for _ in range(count)]
    assert len(set(every)) > 2
    for now in range(max(every) + 2):
        share = sum(slot >= now for slot in every) / len(every)
        assert refund_of(bid, Refund.UNDELIVERED, now=now) == pytest.approx(12.0 * share)
    bid.kept_from = 3
    late = refund_of(bid, Refund.UNDELIVERED, now=max(every))
    assert late == pytest.approx(12.0 * sum(slot >= 3 for slot in every) / len(every))
    bid.commitments.update(end=F("start"))  # as of a job that ended before it began
    assert refund_of(bid, Refund.UNDELIVERED, now=0) == 12.0


def test_what_a_failed_job_is_paid_back_is_no_revenue(market: Market, alice: User) -> None:
    kept, failed = submit(market, alice, epochs=4), submit(market, alice, epochs=4)
    decision_queue.process_pending(market.pk)
    Bid.objects.update(payment=10.0)
    fail_job(failed, "a disk broke", refund=Refund.FULL)  # as it was before it was decided: rows say what it paid
    assert failed.refund == 10.0
    kept.refresh_from_db()
    seen = summary(market)
    assert (seen.welfare, seen.revenue) == (kept.value, 10.0)
    assert (seen.running, seen.failed, seen.quarantined, seen.undecided, seen.withdrawn) == (1, 1, 0, 0, 0)


def test_only_jobs_that_have_started_count_in_the_mean_wait(market: Market, alice: User) -> None:
    now, later = submit(market, alice), submit(market, alice, start_after_s=200)
    decision_queue.process_pending(market.pk)
    later.refresh_from_db()
    assert (later.state, later.start_slot) == (BidState.PLANNED, 2)
    assert summary(market).mean_wait_slots == 0
    assert summary(market).mean_jct_slots is None, "no job is complete"
    now.refresh_from_db()
    set_time(market, 100.0 * max(2, now.completion_slot or 0))
    pass_slots(market.pk)
    later.refresh_from_db()
    seen = summary(market)
    assert (seen.mean_wait_slots, seen.acceptance) == (1, 1)
    assert (seen.completed, seen.mean_jct_slots) == (1, now.completion_slot)


def test_a_job_whose_last_slot_has_passed_is_complete_and_not_cancelled(market: Market, alice: User) -> None:
    bid = submit(market, alice)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    set_time(market, 100.0 * (bid.completion_slot or 0))
    with pytest.raises(WrongState, match="is completed; only a bid that is planned or running can become cancelled"):
        cancel_job(bid)


def test_only_a_waiting_bid_is_withdrawn(market: Market, alice: User) -> None:
    bid, other = submit(market, alice), submit(market, alice)
    withdraw_bid(bid)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert bid.state == BidState.WITHDRAWN
    with pytest.raises(WrongState):
        withdraw_bid(other)
    with pytest.raises(WrongState):
        cancel_job(bid)


def test_an_empty_market_has_no_money_and_no_means(market: Market) -> None:
    seen = summary(market)
    assert (seen.submitted, seen.welfare, seen.revenue, seen.payoff) == (0, 0.0, 0.0, 0.0)
    assert (seen.acceptance, seen.mean_wait_slots, seen.mean_jct_slots, seen.weighted_jct_slots) == (
        None,
        None,
        None,
        None,
    )


def test_mean_times_count_from_the_arrival_and_weighted_ones_by_value(market: Market, alice: User) -> None:
    first = submit(market, alice, 30.0)
    decision_queue.process_pending(market.pk)
    set_time(market, 300.0)
    pass_slots(market.pk)
    second = submit(market, alice, 90.0, epochs=6, start_after_s=200)
    decision_queue.process_pending(market.pk)
    set_time(market, 2000.0)
    pass_slots(market.pk)
    for bid in (first, second):
        bid.refresh_from_db()
        assert bid.state == BidState.COMPLETED
    waits = [(bid.start_slot or 0) - bid.arrival_slot for bid in (first, second)]
    flows = [(bid.completion_slot or 0) - bid.arrival_slot for bid in (first, second)]
    assert second.arrival_slot >= 3
    assert flows[0] < flows[1]
    seen = summary(market)
    assert seen.mean_wait_slots == pytest.approx(sum(waits) / 2)
    assert seen.mean_jct_slots == pytest.approx(sum(flows) / 2)
    assert seen.weighted_jct_slots == pytest.approx((30.0 * flows[0] + 90.0 * flows[1]) / 120.0)


def test_the_audit_of_a_market_leaves_the_payments_of_another_alone(market: Market, alice: User) -> None:
    other = make_market(make_cluster("other"))
    bid = submit(other, alice)
    decision_queue.process_pending(other.pk)
    bid.refresh_from_db()
    Bid.objects.filter(pk=bid.pk).update(state=BidState.WITHDRAWN, value=None)
    assert payments_rational(market) == []
    assert payments_rational(other) == [f"bid 1 pays {bid.payment} for None"]


def test_a_bid_may_pay_nothing_or_its_whole_value(market: Market, alice: User) -> None:
    bid = submit(market, alice)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    for paid in (0.0, bid.value):
        Bid.objects.filter(pk=bid.pk).update(payment=paid)
        assert payments_rational(market) == []


def test_sums_of_money_may_differ_by_rounding_in_proportion_to_the_values(market: Market, alice: User) -> None:
    bid = submit(market, alice, 1e6)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    paid = bid.charge.amount
    for share, found in ((0.0, 0), (0.5, 0), (1.5, 1)):
        Payment.objects.filter(bid=bid).update(amount=paid + share * TOLERANCE * 1e6)
        assert len(welfare_adds_up(market)) == found


def test_a_refund_without_recorded_costs_is_the_share_of_the_jobs_own_machines(market: Market, alice: User) -> None:
    first, second = submit(market, alice, epochs=8), submit(market, alice, epochs=3, start_after_s=200)
    decision_queue.process_pending(market.pk)
    DecisionRecord.objects.update(costs=None)
    for bid in (first, second):
        bid.refresh_from_db()
        rows = list(Commitment.objects.filter(bid=bid))
        cut = (bid.start_slot or 0) + 1
        after = sum(row.count * (row.end - max(row.start, cut)) for row in rows)
        share = after / sum(row.count * (row.end - row.start) for row in rows)
        assert 0 < share < 1
        assert refund_of(bid, Refund.UNDELIVERED, now=cut) == pytest.approx(share * (bid.payment or 0.0))


def test_in_a_new_market_nothing_is_counted(market: Market) -> None:
    seen = vars(summary(market))
    states = ("submitted", "admitted", "undecided", *sorted(set(BidState.values) - {BidState.SUBMITTED}))
    assert {name: seen[name] for name in states} == dict.fromkeys(states, 0)
    assert (seen["welfare"], seen["revenue"]) == (0, 0)


def test_before_the_epoch_no_job_has_started(db: None) -> None:
    cluster = make_cluster()
    cluster.clock_kind, cluster.epoch = ClockKind.REAL, timezone.now() + timedelta(days=2)
    cluster.save()
    market = make_market(cluster)
    bid = submit(market, make_user())
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert (bid.start_slot, bid.state) == (0, BidState.PLANNED)
    assert not pass_slots(market.pk)
    with pytest.raises(WrongState):
        complete_job(bid)
    assert (slot_begun(cluster), summary(market).slot) == (None, -1)
    shown = {tile.key: tile.note for tile in tiles_of(summary(market))}
    assert shown["utilisation"] == "of all machines, no slot has begun"
    Cluster.objects.update(epoch=timezone.now() - timedelta(seconds=SLOT_S / 2))
    assert pass_slots(market.pk)
    bid.refresh_from_db()
    assert bid.state == BidState.RUNNING
    assert [one.check for one in audit_market(Market.objects.get()) if not one.passed] == []
