"""Bids that compete, in replays, counterfactuals, archives and simulations."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User

from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.domain.inventory_snapshot import snapshot_in_force
from auctions.domain.standing_rule import RULE
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.policies import change_policy
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.history.sealing import Before, archive
from auctions.models import Bid, BidState, Event, EventKind, Market
from cluster.models import Server
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, parse
from scheduling.model.errors import InvalidField
from scheduling.policies.competition import Competition
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import rule_for
from scheduling.registry import make_policy
from tests.auctions.competing import (
    GOING,
    Seen,
    assert_replay_sees_the_same,
    decided,
    make_market,
    running_for,
    states,
    watched,
)
from tests.auctions.counterfactual.assertions import (
    assert_every_bid_is_accounted_for,
    assert_replayed_as_recorded,
    assert_stands_on_rows_as_on_events,
    assert_the_same_policy_changes_nothing,
)
from tests.auctions.standing import HORIZON, assert_sound, drawn_bids, pass_to
from tests.auctions.worlds import PRICED, make_user, submit
from tests.draws import fresh_seed, some

pytestmark = pytest.mark.thorough


@pytest.fixture
def market(db: None) -> Market:
    """One server of four units."""
    return make_market()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return watched(monkeypatch)


def test_policies_that_compete_and_others_take_turns(market: Market, alice: User, seen: Seen) -> None:
    bob = make_user("bob")
    running_for(market, alice, 3)
    waits = [decided(market, owner, value, slots=3) for owner, value in ((alice, 20.0), (bob, 200.0), (bob, 30.0))]
    change_policy(market, name="completions", parameters=dict(PRICED), by=None)
    pass_to(market, 3)
    assert set(states(*waits)) == {"standing"}, "the turn of posted prices comes later"
    change_policy(market, name="competition", parameters={}, by=None)
    pass_to(market, 5)
    change_policy(market, name="dps", parameters=dict(PRICED), by=None)
    decided(market, alice, 9.0)
    pass_to(market, 9)
    stated = [event.payload.get("rule") for event in Event.objects.filter(kind=EventKind.POLICY).order_by("version")]
    competing = rule_for(Competition()).to_json()
    assert stated == [competing, RULE.to_json(), competing, RULE.to_json()]
    assert_replay_sees_the_same(market, seen)
    assert_replayed_as_recorded(market)
    assert_stands_on_rows_as_on_events(market)
    assert_every_bid_is_accounted_for(market, "competition", "completions", "dps", "fifo")


def assert_compared(market: Market, name: str) -> None:
    """A counterfactual loses no bid; `compare` raises NotConserved otherwise."""
    with suppress(InvalidField):  # the market could not have changed to this policy then
        assert compare(Record.of(market), make_policy(name, {})).decided


def drawn(market: Market, rng: np.random.Generator, owners: list[User], deeds: Callable[[int], object]) -> None:
    for slot, sent in drawn_bids(rng, slots=12):
        if slot > market.slot:
            pass_to(market, slot)
            deeds(slot)
        submit(market, owners[int(rng.integers(len(owners)))], 0.0, **sent)
        if rng.random() < 0.6:
            decision_queue.process_pending(market.pk)
    decision_queue.process_pending(market.pk)
    pass_to(market, 12 + HORIZON)


def deeds(market: Market, slot: int, rng: np.random.Generator, kind: str) -> None:
    """What owners and the operator do when a slot has begun."""
    for bid in Bid.objects.filter(market=market, state=BidState.STANDING):
        if rng.random() < 0.15:
            withdraw_bid(bid)
    going = Bid.objects.filter(market=market, state__in=GOING).order_by("sequence").first()
    if going is not None and rng.random() < 0.3:
        cancel_job(going)
    server = Server.objects.get(name="edge-1")
    for when, deed in ((3, drain_server), (5, restore_server), (7, lose_server)):
        if slot == when:
            deed(server, reason="", by=None)
    if kind == "both" and slot % 2 == 0:
        changed = ("completions", dict(PRICED)) if slot % 4 == 0 else ("competition", {})
        change_policy(market, name=changed[0], parameters=changed[1], by=None)
    market.refresh_from_db()


@pytest.mark.soak
@pytest.mark.parametrize("kind", some(["competition", "both"], 1))
def test_a_day_of_withdrawals_cancellations_lost_servers_and_policies_is_replayed_byte_for_byte(
    db: None, seen: Seen, kind: str, tmp_path: Path, settings: Any
) -> None:
    settings.ARCHIVE_DIR = tmp_path
    market, rng = make_market(servers=2), np.random.default_rng(fresh_seed())
    owners = [make_user(f"owner-{i}") for i in range(4)]

    drawn(market, rng, owners, lambda slot: deeds(market, slot, rng, kind))
    assert_replay_sees_the_same(market, seen)
    assert_replayed_as_recorded(market)
    assert_the_same_policy_changes_nothing(market)
    for name in ("competition", "completions", "fifo"):
        assert_compared(market, name)
    while archive(market, Before(slot=8)):
        market.refresh_from_db()
        assert_sound(market)
    record = Record.of(market)
    assert compare(record, make_policy("completions", {}), decided_from=record.first_of_last(10)).whole


def test_what_another_market_records_is_what_a_counterfactual_finds(db: None) -> None:
    seed, names = fresh_seed(), ("competition", "completions")
    markets = [make_market(name, policy=name) for name in names]
    for market in markets:
        owners = [make_user(f"{market.cluster.name}-{i}") for i in range(3)]
        drawn(market, np.random.default_rng(seed), owners, lambda _: None)
        assert_sound(market)
    assert Event.objects.filter(kind=EventKind.SLOT, payload__cause="ended").exists()
    for market, other in (markets, markets[::-1]):
        chosen = make_policy(other.cluster.name, dict(PRICED) if other.cluster.name == "completions" else {})
        found = compare(Record.of(market), chosen)
        wanted = compare(Record.of(other), chosen)
        assert [row.other for row in found.rows] == [row.recorded for row in wanted.rows]


def test_a_live_day_equals_its_simulation(market: Market) -> None:
    seed, end = fresh_seed(), 12 + int(rule_for(Competition()).longest) * HORIZON + 1
    for slot, sent in drawn_bids(np.random.default_rng(seed), slots=12):
        pass_to(market, slot)
        owner = make_user(f"user-{Bid.objects.count()}")  # in a simulation, each bid has an owner of its own
        submit(market, owner, 0.0, **{**sent, "standing": True, "standing_until_s": 1e6})
        decision_queue.process_pending(market.pk)
    pass_to(market, end)
    policy, bids = Competition(), list(Bid.objects.order_by("sequence"))
    ledger = Ledger(snapshot_in_force(market).inventory, start=0, slots=HORIZON)
    run = Simulation(policy, RunningBook(ledger), rule=rule_for(policy))
    for bid in bids:
        run.advance(bid.arrival_slot)
        run.arrive(CoreBid.from_json(bid.core_bid))
    run.advance(end)
    assert any(bid.tries for bid in bids)
    for bid, expected in zip(bids, run.decisions, strict=True):
        found = Decision.from_json(parse(bid.decision.receipt))
        assert found.admitted == expected.admitted, bid
        if found.admitted:
            assert found == replace(expected, moves=())
    assert_sound(market)
