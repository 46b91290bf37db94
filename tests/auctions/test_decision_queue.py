"""The decision queue: each bid is decided once and in order, also if tasks are repeated or workers meet.

`test_bids_are_decided_in_order_and_once` counts decisions. The same is tested while processes are killed, in
`tests/faults/test_each_bid_is_decided_once_services.py`, `tests/faults/test_each_bid_is_decided_once_embedded.py` and
`tests/faults/test_killed_processes.py`.
"""

from dataclasses import replace
from time import perf_counter

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.domain.bid_check import LEAST_WEIGHT
from auctions.domain.errors import WrongState
from auctions.engine import decide as decisions
from auctions.engine import decision_queue
from auctions.engine.decide import refusal
from auctions.engine.markets import open_market
from auctions.engine.outcomes import Outcomes
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.engine.submission import quote, submit_bid
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.models import (
    Bid,
    BidState,
    Commitment,
    DecisionRecord,
    Event,
    EventKind,
    FirstDecision,
    Market,
    Payment,
    PlanChange,
)
from auctions.readings.market_readings import summary
from auctions.state import book
from cluster.guards import checked_change
from scheduling.model.decision import parse
from scheduling.model.example import job
from scheduling.model.utility import Constant
from scheduling.policies.base import Objective
from scheduling.registry import POLICIES, make_policy
from tests.auctions.worlds import PRICED, add_server, body, make_cluster, make_market, set_time, submit
from tests.draws import some


def findings(market: Market) -> dict[str, tuple[str, ...]]:
    """What the audit finds fault with."""
    return {f.check: f.rows for f in audit_market(market) if not f.passed}


def test_a_bid_that_waits_when_its_market_changes_to_a_policy_that_takes_none_is_rejected(alice: User) -> None:
    market = open_market(make_cluster(), policy="weighted_completion")
    ring = {"model": "ResNet-50", "epochs": 1, "weight": 5.0, "architecture": "ring", "reduce_step_s": 0}
    bid = submit_bid(cluster=market.cluster, owner=alice, body=ring).bid
    change_policy(market, name="dps", parameters={}, by=None)
    assert decision_queue.process_pending(market.pk) == 1
    bid.refresh_from_db()
    receipt = parse(bid.decision.receipt)
    assert (bid.state, receipt["reason"]) == (BidState.REJECTED, "refused")
    assert "does not run ring jobs" in receipt["explanation"]
    assert {receipt[key] for key in ("value", "payment", "payoff", "standalone_value")} | set(receipt["density"]) == {
        0.0
    }
    assert findings(market) == {}
    assert replay_market(market).mismatches == ()
    assert compare(Record.of(market), make_policy("dps", {})).changed == 0


def test_the_least_weight_is_accepted_and_nothing_below_it() -> None:
    least, ordered = replace(job(), utility=Constant(LEAST_WEIGHT)), make_policy("weighted_completion", {})
    assert refusal(least, ordered) == ""
    assert "weight, is below 1e-06" in refusal(replace(job(), utility=Constant(LEAST_WEIGHT / 2)), ordered)
    assert refusal(replace(job(), utility=Constant(LEAST_WEIGHT / 2)), make_policy("dps", {})) == ""


def test_a_bid_worth_its_price_is_planned_and_charged(market: Market, alice: User) -> None:
    bid = submit(market, alice, 100.0)
    began = perf_counter()
    assert decision_queue.process_pending(market.pk) == 1
    took_ms = (perf_counter() - began) * 1000
    bid.refresh_from_db()
    assert bid.state == BidState.RUNNING, "slot 0 begins at the epoch"
    assert bid.value == 100.0
    assert bid.payment is not None
    assert 0 <= bid.payment <= 100.0
    assert bid.charge.amount == bid.payment
    assert 0 < DecisionRecord.objects.get(bid=bid).latency_ms < took_ms
    assert Commitment.objects.filter(bid=bid).count() >= 2, "workers and a parameter server"
    assert findings(market) == {}


def test_bids_are_decided_in_order_and_once(market: Market, alice: User) -> None:
    bids = [submit(market, alice, 50.0 + i) for i in range(12)]
    assert decision_queue.process_pending(market.pk, at_most=5) == 5
    assert decision_queue.process_pending(market.pk) == 7
    assert decision_queue.process_pending(market.pk) == 0
    decided = Event.objects.filter(kind__in=(EventKind.ADMITTED, EventKind.REJECTED)).order_by("version")
    assert list(decided.values_list("bid_id", flat=True)) == [bid.pk for bid in bids]
    assert DecisionRecord.objects.count() == 12
    assert findings(market) == {}


def recorded(market: Market) -> list[object]:
    """All that decisions wrote, without keys of rows, durations and times of the clock."""
    bids = Bid.objects.filter(market=market).order_by("sequence")
    fields = ("state", "value", "payment", "start_slot", "completion_slot", "tried_slot", "stands_until")
    receipt = ("bid__sequence", "receipt", "version", "ledger_version", "slot", "policy__number")
    held = ("bid__sequence", "server__name", "machine_type__name", "count", "start", "end")
    found: list[object] = [list(bids.values_list("sequence", *fields))]
    found += [
        list(model._default_manager.filter(bid__market=market).order_by("pk").values_list(*receipt))
        for model in (DecisionRecord, FirstDecision)
    ]
    found.append(sorted(Commitment.objects.filter(bid__market=market).values_list(*held)))
    found.append(list(Payment.objects.filter(bid__market=market).order_by("pk").values_list("bid__sequence", "amount")))
    found.append(
        list(PlanChange.objects.filter(bid__market=market).order_by("pk").values_list("bid__sequence", "version"))
    )
    events = Event.objects.filter(market=market).exclude(kind=EventKind.OPENED).order_by("version")
    return [*found, list(events.values_list("version", "kind", "slot", "bid__sequence"))]


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["dps", "completions", "competition", "weighted_completion", "preemptive"])
def test_bids_of_a_batch_are_decided_as_if_each_was_alone(
    alice: User, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 60.0)
    found = []
    for name, at_most in (("alone", 1), ("together", 9)):
        market = open_market(make_cluster(name), policy=policy, parameters=dict(PRICED) if policy == "dps" else {})
        for i in range(9):
            asked = body(50.0 if i % 4 else 0.001, epochs=1 + 3 * (i % 3), standing=i % 2 == 0)
            if policy in ("weighted_completion", "preemptive"):
                asked = {"model": "ResNet-50", "epochs": 1 + i % 3, "weight": 1.0 + i}
            submit_bid(cluster=market.cluster, owner=alice, body=asked)
        batches = []
        while processed := decision_queue.decide_batch(market.pk, at_most=at_most):
            batches.append(processed)
        assert batches == [at_most] * (9 // at_most)
        assert findings(market) == {}
        found.append(recorded(market))
    assert found[0] == found[1]


def test_a_decision_of_a_full_batch_takes_at_most_three_queries(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 60.0)
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    for i in range(decision_queue.LARGEST_BATCH):
        submit(market, alice, 100.0 if i % 4 else 0.001, epochs=1, standing=i % 8 == 0)
    with CaptureQueriesContext(connection) as queries:
        decided = decision_queue.decide_batch(market.pk)
    assert decided == decision_queue.LARGEST_BATCH
    assert len(queries) <= 3 * decided
    assert set(Bid.objects.values_list("state", flat=True)) >= {BidState.RUNNING, BidState.REJECTED, BidState.STANDING}


def test_a_batch_ends_with_the_decision_under_way_once_it_has_taken_too_long(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        submit(market, alice)
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 0.0)
    assert [decision_queue.decide_batch(market.pk) for _ in range(4)] == [1, 1, 1, 0]


def test_nothing_of_a_batch_is_written_if_a_row_is_in_another_state(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 60.0)
    bids = [submit(market, alice) for _ in range(3)]
    write = Outcomes.write

    def withdraw_first(outcomes: Outcomes) -> None:
        Bid.objects.filter(pk=bids[1].pk).update(state=BidState.WITHDRAWN)
        write(outcomes)

    monkeypatch.setattr(Outcomes, "write", withdraw_first)
    with pytest.raises(WrongState, match="Bid 2 is withdrawn"):
        decision_queue.decide_batch(market.pk)
    assert set(Bid.objects.values_list("state", flat=True)) == {BidState.SUBMITTED}
    assert not DecisionRecord.objects.exists()


@pytest.mark.thorough
def test_a_full_market_rejects_with_a_counter_offer(market: Market, alice: User) -> None:
    for _ in range(60):
        submit(market, alice, 100.0, epochs=8)
    decision_queue.process_pending(market.pk)
    assert Bid.objects.filter(state=BidState.REJECTED).exists()
    assert Bid.objects.filter(state__in=[BidState.RUNNING, BidState.PLANNED]).exists()
    seen = summary(market)
    assert seen.admitted + seen.rejected == 60
    assert seen.acceptance == pytest.approx(seen.admitted / 60)
    assert findings(market) == {}
    replay = replay_market(market)
    assert (replay.decisions, replay.mismatches) == (60, ())


def test_a_quote_is_the_later_decision(market: Market, alice: User) -> None:
    for _ in range(5):
        submit(market, alice, 80.0, epochs=3)
    decision_queue.process_pending(market.pk)
    offered = quote(market=market, body=body(90.0, epochs=2))
    bid = submit(market, alice, 90.0, epochs=2)
    decision_queue.process_pending(market.pk)
    record = DecisionRecord.objects.get(bid=bid)
    assert record.ledger_version == offered.ledger_version
    said = offered.decision.to_json() | {"bid_id": "6"}
    assert parse(record.receipt) == said


@pytest.mark.thorough
@pytest.mark.parametrize("forgetful", [True, False])
def test_memory_makes_no_difference(market: Market, alice: User, forgetful: bool) -> None:
    for i in range(20):
        submit(market, alice, 40.0 + 7 * (i % 5), epochs=1 + i % 4)
        set_time(market, 30.0 * i)
        if forgetful:
            book.forget()
        decision_queue.process_pending(market.pk)
    assert replay_market(market).mismatches == ()
    assert findings(market) == {}


def test_a_market_leaves_the_bids_of_another_alone(market: Market, alice: User) -> None:
    other = make_market(make_cluster("other"))
    planned = submit(other, alice, start_after_s=200)
    decision_queue.process_pending(other.pk)
    waiting = submit(other, alice)
    set_time(market, 300.0)
    assert pass_slots(market.pk)
    assert not decision_queue.has_pending(market.pk)
    assert decision_queue.process_pending(market.pk) == 0
    mine = [submit(market, alice) for _ in range(3)]
    assert decision_queue.process_pending(market.pk) == 3
    assert not decision_queue.has_pending(market.pk)
    assert decision_queue.has_pending(other.pk)
    for bid in (planned, waiting, *mine):
        bid.refresh_from_db()
    assert (planned.state, waiting.state) == (BidState.PLANNED, BidState.SUBMITTED)
    assert {bid.state for bid in mine} <= {BidState.RUNNING, BidState.PLANNED}
    assert findings(market) == findings(other) == {}


def test_a_bid_that_another_worker_took_meanwhile_is_not_there(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(market, alice)
    assert decision_queue.decide_batch(market.pk) == 1
    monkeypatch.setattr(decision_queue, "has_pending", lambda market_id: True)  # as it was before the lock was held
    assert decision_queue.decide_batch(market.pk) == 0
    assert DecisionRecord.objects.count() == 1


def test_the_book_of_a_decision_is_kept_for_the_next_one(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    rebuild = book.rebuild

    def counted(asked: Market, *, now: int) -> book.LiveBook:
        made.append(asked.ledger_version)
        return rebuild(asked, now=now)

    monkeypatch.setattr(book, "rebuild", counted)
    book.forget()
    for _ in range(3):
        submit(market, alice)
    decision_queue.process_pending(market.pk)
    assert len(made) == 1


def test_the_latency_of_a_decision_is_the_time_the_policy_took_in_milliseconds(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bid = submit(market, alice)
    readings = iter((10.0, 10.25))
    monkeypatch.setattr(decisions, "perf_counter", lambda: next(readings))
    decision_queue.process_pending(market.pk)
    assert DecisionRecord.objects.get(bid=bid).latency_ms == 250.0


def test_a_bid_that_waits_while_servers_are_added_is_stored_in_positions_of_the_new_inventory(
    market: Market, alice: User
) -> None:
    bid = submit(market, alice)
    assert len(bid.core_bid["delay"]) == 3
    with checked_change(market.cluster):
        add_server(market.cluster, "edge-2", units=4)
    decision_queue.process_pending(market.pk)
    submitted = bid.inventory_version
    bid.refresh_from_db()
    market.refresh_from_db()
    assert len(bid.core_bid["delay"]) == 4
    assert bid.inventory_version == market.inventory_version != submitted
    assert findings(market) == {}


@pytest.mark.soak
@pytest.mark.parametrize("policy", some(sorted(POLICIES.keys() - {"oasis"}), 5))  # that one needs other machines
def test_no_bid_is_decided_before_it_arrived_though_the_clock_was_set_back(policy: str, alice: User) -> None:
    """Slots that had begun when a bid arrived stay in the past, though nothing else happened in them."""
    market = open_market(make_cluster(servers=3), policy=policy)
    job = {"model": "ResNet-50", "epochs": 2}
    offer = job | {"weight": 9.0} if POLICIES[policy].objective is not Objective.WELFARE else body(500.0, epochs=2)
    set_time(market, 450.0)
    early = submit_bid(cluster=market.cluster, owner=alice, body=offer).bid
    set_time(market, 120.0)
    late = submit_bid(cluster=market.cluster, owner=alice, body=offer).bid
    assert (early.arrival_slot, late.arrival_slot) == (5, 2)
    decision_queue.process_pending(market.pk)
    market.refresh_from_db()
    assert (market.slot, market.now) == (4, 5)
    for seconds in (130.0, 1500.0, 3000.0, 4500.0):  # some policies start a job only when slots pass
        set_time(market, seconds)
        pass_slots(market.pk)
    states = list(Bid.objects.filter(market=market).values_list("state", flat=True))
    assert len(states) == 2
    assert set(states) <= {BidState.COMPLETED, BidState.REJECTED}
    assert findings(market) == {}


def test_costs_by_slot_are_stored_of_an_admitted_bid_alone(market: Market, alice: User) -> None:
    admitted, rejected = submit(market, alice, epochs=4), submit(market, alice, 1e-5, epochs=4)
    decision_queue.process_pending(market.pk)
    admitted.refresh_from_db()
    rejected.refresh_from_db()
    assert rejected.state == BidState.REJECTED
    costs = DecisionRecord.objects.get(bid=admitted).costs
    assert costs is not None
    assert len(costs) == (admitted.completion_slot or 0) - (admitted.start_slot or 0)
    assert sum(costs) == pytest.approx(admitted.payment)
    assert DecisionRecord.objects.get(bid=rejected).costs is None
