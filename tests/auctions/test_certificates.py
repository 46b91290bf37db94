"""The certificate against the offline optimum, found by trying everything."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User

from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, fail_job
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.models import Bid, BidState, Certificate, DecisionRecord, Event, EventKind, Market, SlotPrice
from auctions.readings import certificates
from cluster.clock import now, set_clock
from cluster.guards import checked_change
from cluster.models import Capacity
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.types import Ints
from tests.auctions.worlds import PRICED, SLOT_S, make_cluster, make_market, make_user, set_time, submit
from tests.draws import some
from tests.scheduling.twins.rigid_exact import Problem, every

HORIZON = 5
UTILITIES = (
    {"form": "constant"},
    {"form": "linear", "zero_at_s": 900},
    {"form": "step", "deadline_s": 400},
    {"form": "inverse", "zero_at_s": 1500},
)


def options(record: DecisionRecord, snapshot: InventorySnapshot, *, slots: int) -> list[tuple[float, Ints]]:
    """What the bid could have had alone: value and units held by slot, best first. Complete for two servers."""
    core, inventory = CoreBid.from_json(record.bid.core_bid), snapshot.inventory
    nothing = np.zeros((snapshot.horizon, *inventory.capacity.shape), dtype=np.int64)
    problem = Problem(core, inventory, record.slot, nothing, nothing.astype(float))
    found: dict[bytes, tuple[float, Ints]] = {}
    for one in every(problem):
        held = np.zeros((slots, *inventory.capacity.shape), dtype=np.int64)
        window = slice(one.start, one.completion)
        for server, count in one.counts:
            held[window, server] += count * inventory.worker_demand[one.worker_type]
        held[window, one.host] += one.pss * inventory.ps_demand[one.ps_type]
        found[held.tobytes()] = (one.payoff, held)
    return sorted(found.values(), key=lambda option: -option[0])


def capacities(market: Market, *, slots: int) -> Iterator[Ints]:
    """The capacity each slot could last be traded with."""
    events = Event.objects.filter(market=market, kind__in=(EventKind.OPENED, EventKind.INVENTORY)).order_by("version")
    snapshots = [(event.slot, InventorySnapshot.from_json(event.payload)) for event in events]
    for t in range(slots):
        yield [snapshot for slot, snapshot in snapshots if slot <= t or slot == snapshots[0][0]][-1].inventory.capacity


def optimum(market: Market) -> float:
    """The most that any scheduler could have had from the decided bids, by trying every set of schedules."""
    records = list(DecisionRecord.objects.filter(bid__market=market).select_related("bid").order_by("version"))
    slots = max(r.slot for r in records) + HORIZON
    known = {
        v: InventorySnapshot.from_json(Event.objects.get(market=market, version=v).payload)
        for v in {r.inventory_version for r in records}
    }
    choices = [options(r, known[r.inventory_version], slots=slots) for r in records]
    hopes = [sum(c[0][0] for c in choices[i:] if c) for i in range(len(choices) + 1)]
    best = 0.0

    def go_on(i: int, free: Ints, value: float) -> None:
        nonlocal best
        best = max(best, value)
        if i == len(choices):
            return
        for gain, held in choices[i]:
            if value + gain + hopes[i + 1] <= best:
                break
            if (held <= free).all():
                go_on(i + 1, free - held, value + gain)
        if value + hopes[i + 1] > best:
            go_on(i + 1, free, value)

    go_on(0, np.array(list(capacities(market, slots=slots))), 0.0)
    return best


def check(market: Market) -> None:
    """Both bounds hold, and the smaller one is named."""
    decision_queue.process_pending(market.pk)
    row = certificates.renew(market.pk, budget_s=60.0)
    assert row is not None
    best = optimum(market) * (1 - 1e-9)
    assert row.posted_price >= best
    assert row.zero_price >= best
    assert row.value == min(row.posted_price, row.zero_price)
    kept = Bid.objects.filter(market=market, state__in=(BidState.PLANNED, BidState.RUNNING, BidState.COMPLETED))
    assert row.welfare == pytest.approx(sum(bid.value or 0.0 for bid in kept))
    assert best >= row.welfare * (1 - 1e-6)


@pytest.mark.soak
@pytest.mark.thorough
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("seed", "policy"),
    [*((seed, "dps") for seed in some(range(12), 5)), *((seed, "completions") for seed in some(range(2), 1))],
)
def test_no_scheduler_could_have_had_more_whatever_happens(seed: int, policy: str) -> None:
    random = np.random.default_rng(seed)
    cluster = make_cluster(servers=1, units=1, horizon=HORIZON)
    market = open_market(cluster, policy=policy, parameters={**PRICED, "refit_every": 1})
    alice = make_user()
    seconds = 0.0
    for step in range(5):
        utility = UTILITIES[int(random.integers(len(UTILITIES)))]
        value = float(random.uniform(1, 200))
        bid = submit(market, alice, value, epochs=int(random.integers(1, 3)), utility={**utility, "value": value})
        if random.random() < 0.5:  # a late decision
            seconds += SLOT_S * float(random.choice([0.5, 1.0, 2.0]))
            set_time(market, seconds)
        check(market)
        bid.refresh_from_db()
        if bid.state in (BidState.PLANNED, BidState.RUNNING) and random.random() < 0.4:
            (cancel_job if random.random() < 0.5 else lambda bid: fail_job(bid, "a disk broke"))(bid)
            check(market)
        if step == 1:
            price = str(random.choice(["quantile", "paper"])) if policy == "dps" else "quantile"
            change_policy(market, name=policy, parameters={"price": price}, by=None)
        if step == 2:
            with checked_change(market.cluster):
                Capacity.objects.filter(server__cluster=market.cluster, server__name="edge-0").update(amount=3)
        check(market)


@pytest.mark.django_db
def test_a_slot_is_counted_once_in_what_the_capacity_costs() -> None:
    cluster = make_cluster(servers=1, units=2, horizon=HORIZON)
    set_clock(cluster, at_s=SLOT_S / 2)
    market = make_market(cluster, price="paper", eta_worker=[3.0], eta_ps=[3.0])
    submit(market, make_user(), 500.0)
    decision_queue.process_pending(market.pk)
    before = certificates.renew(market.pk)
    set_time(market, float(SLOT_S))  # the very beginning of slot 1: it has begun and can still be traded
    submit(market, make_user("bob"), utility={"form": "step", "value": 9.0, "deadline_s": 1})  # its value is 0
    decision_queue.process_pending(market.pk)
    after = certificates.renew(market.pk)
    assert before is not None
    assert after is not None
    assert after.posted_price == pytest.approx(before.posted_price)


@pytest.mark.django_db
def test_a_slot_whose_capacity_grows_as_it_begins_is_not_bounded_by_what_it_was() -> None:
    market = make_market(
        make_cluster(servers=1, units=1, horizon=HORIZON), price="paper", eta_worker=[99.0], eta_ps=[99.0]
    )
    alice = make_user()
    submit(market, alice, 500.0)
    decision_queue.process_pending(market.pk)
    set_time(market, float(SLOT_S))
    with checked_change(market.cluster):
        Capacity.objects.filter(server__cluster=market.cluster).update(amount=50)
    for _ in range(6):
        submit(market, alice, 500.0, utility={"form": "step", "value": 500.0, "deadline_s": 100})
    decision_queue.process_pending(market.pk)
    set_time(market, 10.0 * SLOT_S)
    row = certificates.renew(market.pk)
    assert row is not None
    assert row.posted_price >= row.welfare


@pytest.mark.django_db
def test_at_the_prices_of_completions_a_bid_is_bounded_by_its_payoff_in_any_slots() -> None:
    parameters = {"initial_low": 25.0, "initial_high": 25.0}
    market = open_market(make_cluster(servers=1, horizon=HORIZON), policy="completions", parameters=parameters)
    submit(market, make_user(), 500.0, epochs=4)
    decision_queue.process_pending(market.pk)
    row = certificates.renew(market.pk, budget_s=60.0)
    assert row is not None
    capacity = 12 * HORIZON * 25.0 * 2
    assert row.loose == 0
    assert row.zero_price == 500
    assert capacity < row.posted_price < capacity + 400, "it pays for what it uses"


@pytest.mark.django_db
def test_bids_that_were_decided_under_another_policy_count_with_their_standalone_values() -> None:
    market = open_market(make_cluster(horizon=HORIZON), policy="completions", parameters={})
    submit(market, make_user())
    decision_queue.process_pending(market.pk)
    first = certificates.renew(market.pk, budget_s=60.0)
    assert first is not None
    assert first.loose == 0
    change_policy(market, name="dps", parameters={}, by=None)
    submit(market, make_user("bob"))
    decision_queue.process_pending(market.pk)
    row = certificates.renew(market.pk)
    assert row is not None
    assert (row.decided, row.loose) == (2, 1)


@pytest.mark.django_db
def test_bids_that_are_read_one_by_one_give_the_same_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    market = make_market(make_cluster(servers=4, units=4, horizon=20))
    for i in range(7):
        submit(market, make_user(f"owner-{i}"), 100.0, epochs=1 + i % 3)
    decision_queue.process_pending(market.pk)
    at_once = certificates.renew(market.pk, budget_s=60.0)
    Certificate.objects.all().delete()
    monkeypatch.setattr(certificates, "BIDS_AT_ONCE", 1)
    one_by_one = certificates.renew(market.pk, budget_s=60.0)
    assert at_once is not None
    assert one_by_one is not None
    assert (one_by_one.posted_price, one_by_one.loose) == (at_once.posted_price, 0)


@pytest.mark.thorough
@pytest.mark.django_db
def test_each_bid_of_a_demo_is_bounded_at_the_posted_prices() -> None:
    market = make_market(make_cluster(servers=12, units=8, horizon=150))
    alice = make_user()
    for i in range(60):
        submit(market, alice, 100.0, epochs=1 + i % 7)
    decision_queue.process_pending(market.pk)
    row = certificates.renew(market.pk, budget_s=60.0)
    assert row is not None
    assert row.loose == 0


def test_two_workers_may_compute_the_first_certificate_at_once(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    compute = certificates._terms

    def while_another_is_faster(*arguments: Any, **keywords: Any) -> Any:
        monkeypatch.setattr(certificates, "_terms", compute)
        certificates.renew(market.pk)
        return compute(*arguments, **keywords)

    monkeypatch.setattr(certificates, "_terms", while_another_is_faster)
    kept = certificates.renew(market.pk)
    assert kept == Certificate.objects.get()


def test_a_sweep_renews_a_certificate_that_took_long_less_often(market: Market, alice: User) -> None:
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    certificates.keep_fresh(market.pk)
    Certificate.objects.update(duration_ms=500.0)
    first = Certificate.objects.get().version
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    certificates.keep_fresh(market.pk)
    assert Certificate.objects.get().version == first
    Certificate.objects.update(computed_at=now() - timedelta(seconds=0.5 * (1 + certificates.PAUSE_FACTOR)))
    certificates.keep_fresh(market.pk)
    assert Certificate.objects.get().version > first


@pytest.mark.django_db
def test_a_clock_that_leaps_ahead_costs_no_more_than_what_was_kept() -> None:
    market = make_market(make_cluster(servers=100, units=8, horizon=20))
    alice = make_user()
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    set_time(market, 1e9)  # ten million slots; an array of them would not fit in memory
    assert pass_slots(market.pk)
    submit(market, alice)
    certificates.renew(market.pk)
    decision_queue.process_pending(market.pk)
    row = certificates.renew(market.pk)
    assert row is not None
    assert row.value >= row.welfare
    assert (row.decided, row.loose) == (2, 0)
    assert SlotPrice.objects.count() <= 20
