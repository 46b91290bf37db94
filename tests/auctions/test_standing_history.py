"""Standing bids in the audit, replays, counterfactuals and simulations."""

from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User

from auctions.counterfactual.alternatives import alternatives_of
from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.domain.standing_rule import RULE
from auctions.engine import decision_queue
from auctions.engine.jobs import retry_bid, withdraw_bid
from auctions.engine.policies import change_policy
from auctions.history.audit import CHECKS
from auctions.history.audit_pass import EventPass
from auctions.history.replay import replay_market
from auctions.models import (
    Bid,
    BidState,
    Event,
    Market,
)
from auctions.state import book
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.policies.simulation import Simulation
from scheduling.registry import make_policy
from tests.auctions.counterfactual.assertions import (
    assert_every_bid_is_accounted_for,
    assert_replayed_as_recorded,
    assert_stands_on_rows_as_on_events,
    assert_the_same_policy_changes_nothing,
)
from tests.auctions.faulty import UNLUCKY, register
from tests.auctions.standing import (
    ADMITTED,
    HORIZON,
    PRICES,
    assert_sound,
    decided,
    drawn_bids,
    filled,
    freed,
    pass_to,
    receipt,
    standing_market,
    stands,
)
from tests.auctions.worlds import PRICED, make_cluster, make_market, make_user
from tests.draws import fresh_seed, some

pytestmark = pytest.mark.thorough


@pytest.fixture
def market(db: None) -> Market:
    return standing_market()


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda bid: {"tries": bid.tries + 1}, "standing bids had their turns"),
        (lambda bid: {"tried_slot": 3}, "standing bids had their turns"),
        (lambda bid: {"stands_until": 9}, "standing bids had their turns"),
    ],
)
def test_the_audit_finds_rows_of_standing_bids_that_were_changed(
    market: Market, alice: User, bob: User, change: Any, check: str
) -> None:
    filled(market, alice)
    bid = stands(market, bob)
    pass_to(market, 4)
    bid.refresh_from_db()
    assert list(CHECKS[check](EventPass(market))) == []
    Bid.objects.filter(pk=bid.pk).update(**change(bid))
    assert list(CHECKS[check](EventPass(market)))


@pytest.mark.parametrize(
    ("payload", "words"),
    [({"tried": []}, "tries bids"), ({"ended": [1]}, "tries bids")],
)
def test_the_audit_finds_a_turn_that_was_recorded_otherwise(
    market: Market, alice: User, bob: User, payload: Any, words: str
) -> None:
    filled(market, alice)
    stands(market, bob)
    pass_to(market, 4)
    event = Event.objects.get(payload__has_key="standing")
    event.payload["standing"] |= payload
    event.save()
    assert any(words in row for row in CHECKS["replay gives every receipt byte for byte"](EventPass(market)))


def test_under_another_policy_a_bid_stands_and_is_tried_at_its_prices(market: Market, alice: User, bob: User) -> None:
    taken = filled(market, alice)
    bid, gone = stands(market, bob), stands(market, bob, 40.0)
    pass_to(market, 2)
    withdraw_bid(gone)
    freed(taken)
    pass_to(market, 9)
    bid.refresh_from_db()
    assert bid.state in (*ADMITTED, BidState.COMPLETED)
    found = compare(Record.of(market), make_policy("dps", {**PRICES, "eta_worker": [4.0]}), since=bid.sequence)
    row, withdrawn = found.rows
    assert (row.other.admitted, row.other.start, row.other.state) == (True, row.recorded.start, row.recorded.state)
    assert withdrawn.other.state == BidState.WITHDRAWN
    free = compare(Record.of(market), make_policy("weighted_completion", {}), since=bid.sequence)
    assert [row.other.admitted for row in free.rows] == [True, True], "where nobody pays every job is admitted at once"


def test_other_statements_of_a_standing_bid_are_tried_at_its_first_decision_and_then_at_its_admission(
    market: Market, alice: User, bob: User
) -> None:
    taken = filled(market, alice)
    bid = stands(market, bob)
    first = alternatives_of(bid, caller=bob.pk)
    assert (first.slot, {point.admitted for point in first.by_value}) == (0, {False})
    freed(taken)
    pass_to(market, 4)
    bid.refresh_from_db()
    then = alternatives_of(bid, caller=bob.pk)
    assert then.slot == 4
    assert any(point.admitted for point in then.by_value)


def play(market: Market, owners: list[User], rng: np.random.Generator, *, slots: int) -> None:
    for slot, body in drawn_bids(rng, slots=slots):
        pass_to(market, slot)
        decided(market, owners[int(rng.integers(len(owners)))], 0.0, **body)
    pass_to(market, slots + 10)


@pytest.mark.soak
@pytest.mark.parametrize("prices", some([PRICES, {}, {"price": "fluid"}], 1), ids=str)
def test_nobody_pays_more_than_the_posted_price_at_admission_and_every_payoff_is_at_least_0(
    alice: User, bob: User, prices: dict[str, Any]
) -> None:
    market = make_market(make_cluster(servers=1, units=4, horizon=HORIZON), **prices)
    play(market, [alice, bob], np.random.default_rng(fresh_seed()), slots=14)
    later = Bid.objects.filter(decision__stood_from__isnull=False, payment__isnull=False)
    for bid in later:
        decision = receipt(bid)
        assert 0 <= decision.payment <= decision.value, "a payoff is at least 0"
        assert decision.schedule is not None
        assert decision.schedule.start >= decision.slot > (bid.decision.stood_from or 0)
    assert_sound(market)  # which computes the posted price of each admission again
    assert replay_market(market).mismatches == ()
    assert_replayed_as_recorded(market)
    assert_stands_on_rows_as_on_events(market)
    assert_the_same_policy_changes_nothing(market)
    assert_every_bid_is_accounted_for(market, "dps", "oasis", "fifo")


@pytest.mark.soak
@pytest.mark.parametrize("prices", some([PRICES, {}], 1), ids=str)
def test_a_live_day_equals_its_simulation(db: None, prices: dict[str, Any]) -> None:
    market = make_market(make_cluster(servers=1, units=4, horizon=HORIZON), **prices)
    seed, end = fresh_seed(), 14 + 2 * HORIZON + 1
    for slot, body in drawn_bids(np.random.default_rng(seed), slots=14):
        pass_to(market, slot)
        owner = make_user(f"user-{Bid.objects.count()}")  # in a simulation, each bid has an owner of its own
        decided(market, owner, 0.0, **{**body, "standing": True, "standing_until_s": 1e6})
    pass_to(market, end)
    bids = list(Bid.objects.order_by("sequence"))
    snapshot = book.private_copy(market, now=end).snapshot
    policy = make_policy("dps", {**PRICED, **prices})
    run = Simulation(policy, RunningBook(Ledger(snapshot.inventory, start=0, slots=HORIZON)), rule=RULE)
    for bid in bids:
        run.advance(bid.arrival_slot)
        run.arrive(CoreBid.from_json(bid.core_bid))
    run.advance(end)
    assert any(bid.tries for bid in bids)
    for bid, expected in zip(bids, run.decisions, strict=True):
        found = receipt(bid)
        assert found.admitted == expected.admitted, bid
        if found.admitted:
            assert found == expected


def test_a_bid_that_was_quarantined_and_put_back_before_it_stood_is_no_finding(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    filled(market, bob)
    change_policy(market, name="faulty_dps", parameters=PRICES, by=None)
    bid = decided(market, alice, UNLUCKY, standing=True)
    assert bid.state == BidState.QUARANTINED
    change_policy(market, name="dps", parameters=PRICES, by=None)
    retry_bid(bid)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert bid.state == BidState.STANDING
    assert_sound(market)
