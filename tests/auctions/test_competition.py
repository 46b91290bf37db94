"""Bids that compete: every decision sees the bids that stand, live, in quotes and in replays."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from auctions.counterfactual.alternatives import alternatives_of
from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.domain.errors import WrongState
from auctions.domain.inventory_snapshot import snapshot_in_force
from auctions.domain.standing_rule import RULE
from auctions.engine import competitors, decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.engine.standing_quote import standing_of
from auctions.engine.submission import quote
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.history.sealing import Before, archive
from auctions.models import Bid, BidState, DecisionRecord, Event, EventKind, FirstDecision, Market
from auctions.state import book as books
from cluster.documents import export_cluster, import_cluster
from cluster.models import Server
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Book
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, parse
from scheduling.model.errors import InvalidField, OutsideHorizon
from scheduling.policies.competition import Competition
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import Admissions, rule_for
from scheduling.registry import make_policy
from tests.auctions.counterfactual.assertions import (
    assert_every_bid_is_accounted_for,
    assert_replayed_as_recorded,
    assert_stands_on_rows_as_on_events,
    assert_the_same_policy_changes_nothing,
)
from tests.auctions.test_standing_bids import drawn_bids, pass_to
from tests.auctions.worlds import PRICED, SLOT_S, body, make_cluster, make_user, submit
from tests.draws import fresh_seed

pytestmark = pytest.mark.thorough

HORIZON = 16
GOING = (BidState.PLANNED, BidState.RUNNING)
QUOTED = {
    True: "If no bid that stands comes first, it is admitted now and complete by slot {}. It then pays what this takes"
    " from the bids that stand, less than what it is worth.",
    False: "It would not be admitted now: jobs with a promise need the machines. If it stands, it competes when"
    " machines are freed.",
}
"""Words of quotes that are admitted, and of others for which there is no room."""
Seen = list[tuple[str, tuple[CoreBid, ...]]]
"""Bids that were decided, or the slots of turns, with their competitors, in order."""


def make_market(name: str = "lab", *, policy: str = "competition", servers: int = 1) -> Market:
    """Servers of four units each, and no cloud."""
    cluster = make_cluster(name, servers=servers, units=4, horizon=HORIZON)
    Server.objects.filter(cluster=cluster, name="cloud").delete()
    return open_market(cluster, policy=policy, parameters=dict(PRICED) if policy == "completions" else {})


@pytest.fixture
def market(db: None) -> Market:
    """One server of four units."""
    return make_market()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """What the policy saw of the bids that stand, at each decision and at each new look at a book in a turn."""
    found: Seen = []
    decide, admissions = Competition.decide, Competition.admissions

    def decided(self: Competition, bid: CoreBid, book: Book) -> Decision:
        found.append((bid.id, book.competitors))
        return decide(self, bid, book)

    def looked(self: Competition, book: Book) -> Admissions:
        found.append((f"turn {book.now}", book.competitors))
        return admissions(self, book)

    monkeypatch.setattr(Competition, "decide", decided)
    monkeypatch.setattr(Competition, "admissions", looked)
    return found


def numbers(seen: Seen) -> list[tuple[str, list[int]]]:
    return [(what, [int(one.id) for one in competitors]) for what, competitors in seen]


def bid_of(market: Market, owner: User, value: float, *, slots: int = 1, **changes: Any) -> Bid:
    """A bid that takes all machines for some slots, and stands if it does not start."""
    utility = {"form": "linear", "value": value, "zero_at_s": 40 * SLOT_S}
    return submit(market, owner, value, epochs=slots, **{"utility": utility, "standing": True, **changes})


def decided(market: Market, owner: User, value: float, **changes: Any) -> Bid:
    bid = bid_of(market, owner, value, **changes)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


def running_for(market: Market, owner: User, slots: int) -> Bid:
    """A job that holds all machines for these slots: it is worth nothing later, so nothing may stop it."""
    utility = {"form": "step", "value": 1000.0, "deadline_s": slots * SLOT_S}
    bid = decided(market, owner, 1000.0, slots=slots, utility=utility)
    assert bid.state in GOING
    return bid


def states(*bids: Bid) -> list[str]:
    for bid in bids:
        bid.refresh_from_db()
    return [bid.state for bid in bids]


def assert_sound(market: Market) -> None:
    market.refresh_from_db()
    assert replay_market(market).mismatches == ()
    assert {finding.check: finding.rows for finding in audit_market(market) if not finding.passed} == {}


def assert_replay_sees_the_same(market: Market, seen: Seen) -> None:
    live = list(seen)
    seen.clear()
    market.refresh_from_db()
    assert replay_market(market).mismatches == ()
    assert numbers(seen) == numbers(live)
    assert seen == live
    assert_sound(market)


def test_a_bid_that_cannot_start_stands_and_is_admitted_in_the_slot_in_which_a_job_has_ended(
    market: Market, alice: User, seen: Seen
) -> None:
    running_for(market, alice, 3)
    waits = decided(market, alice, 50.0)
    pass_to(market, 2)
    assert states(waits) == ["standing"]
    pass_to(market, 3)
    waits.refresh_from_db()
    assert (waits.start_slot, waits.decision.slot, waits.tries) == (3, 3, 1)
    assert 3 % RULE.every, "no regular turn is due"
    turn = Event.objects.get(payload__has_key="standing").payload
    assert turn["cause"] == "ended"
    assert turn["standing"]["rule"] == rule_for(Competition()).to_json()
    assert_replay_sees_the_same(market, seen)


def test_a_competitor_of_greater_value_starts_first(market: Market, alice: User, seen: Seen) -> None:
    running_for(market, alice, 3)
    urgent = {"form": "step", "value": 200.0, "deadline_s": 5 * SLOT_S}
    less = decided(market, alice, 20.0, slots=2)
    more = decided(market, make_user("bob"), 200.0, slots=2, utility=urgent)
    pass_to(market, 3)
    assert (less.state, states(more)[0] in GOING) == ("standing", True)
    paid = more.payment or 0.0
    assert 0.0 < paid < 20.0, "what the other bid loses by waiting"
    pass_to(market, 5)
    less.refresh_from_db()
    assert (less.decision.slot, less.start_slot) == (5, 5)
    assert_replay_sees_the_same(market, seen)


def test_each_bid_of_a_batch_sees_those_before_it_that_stand(market: Market, alice: User, seen: Seen) -> None:
    running_for(market, alice, 3)
    bob = make_user("bob")
    for owner, value in ((alice, 30.0), (alice, 40.0), (bob, 20.0), (alice, 25.0)):
        bid_of(market, owner, value)
    assert decision_queue.decide_batch(market.pk) == 4
    found = numbers(seen)
    order = [int(what) for what, _ in found]
    assert found == [(what, sorted(order[1:i])) for i, (what, _) in enumerate(found)]
    assert sorted(order[1:]) != order[1:], "owners take turns"
    pass_to(market, 6)
    assert_replay_sees_the_same(market, seen)


def test_a_withdrawn_bid_competes_until_the_event_of_the_next_slot_names_it(
    market: Market, alice: User, seen: Seen
) -> None:
    running = running_for(market, alice, 8)
    gone, stays = decided(market, alice, 90.0, slots=2), decided(market, alice, 1.0)
    withdraw_bid(gone)
    cancel_job(running)
    late = decided(market, make_user("bob"), 5.0)
    assert late.state == "standing"
    assert numbers(seen)[-1] == ("4", [gone.sequence, stays.sequence])
    pass_to(market, 4)
    assert all(gone.sequence not in found for what, found in numbers(seen) if what.startswith("turn"))
    assert states(late)[0] != BidState.STANDING
    assert_replay_sees_the_same(market, seen)


def test_a_quote_that_is_rejected_for_another_reason_has_the_words_of_the_decision(market: Market) -> None:
    asked = quote(market=market, body=body(5.0, epochs=HORIZON + 1))
    assert asked.decision.explanation == f"Even the empty cluster could not complete it before slot {HORIZON}."


def test_a_quote_is_the_decision_that_follows_if_no_bid_stands(market: Market, alice: User) -> None:
    bob = make_user("bob")
    for value in (5.0, 400.0):
        linear = {"form": "linear", "value": value, "zero_at_s": 40 * SLOT_S}
        asked = quote(market=market, body=body(value, utility=linear, epochs=8, standing=True), bidder=bob)
        bid = submit(market, bob, value, utility=linear, epochs=8, standing=True)
        decision_queue.process_pending(market.pk)
        bid.refresh_from_db()
        rows: Any = DecisionRecord if asked.decision.admitted else FirstDecision
        made = Decision.from_json(parse(rows.objects.get(bid=bid).receipt))
        words = QUOTED[made.admitted].format(made.due)
        expected = Decision.from_json({**made.to_json(), "bid_id": "quote", "explanation": words})
        assert asked.decision == expected
        assert made.admitted or asked.stands_until == bid.stands_until
    assert states(bid)[0] == "standing"
    assert_sound(market)


def test_a_quote_says_until_when_a_bid_stands_that_others_come_before(market: Market, alice: User) -> None:
    running = running_for(market, alice, 8)
    decided(market, alice, 400.0)
    cancel_job(running)
    bob, utility = make_user("bob"), {"form": "linear", "value": 5.0, "zero_at_s": 40 * SLOT_S}
    asked = {
        standing: quote(market=market, body=body(utility=utility, epochs=8, standing=standing), bidder=bob)
        for standing in (True, False)
    }
    bid = decided(market, bob, 5.0, slots=8, utility=utility)
    assert (asked[True].decision.admitted, bid.state) == (True, "standing")
    assert (asked[True].stands_until, asked[False].stands_until) == (bid.stands_until, None)


def test_a_quote_and_a_reading_say_nothing_of_other_bids_that_stand(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_for(market, alice, 6)
    mine, other = decided(market, alice, 30.0), make_user("bob")
    found: list[object] = []
    reading = standing_of(mine)
    for value in (1.0, 900.0):
        bid = decided(market, other, value)
        asked = quote(market=market, body=body(50.0, standing=True), bidder=alice)
        reading = standing_of(mine)
        found.append((replace(asked.decision, slot=0), reading))
        withdraw_bid(bid)
    assert found[0] == found[1]
    assert reading is not None
    assert reading.least_value is None
    assert reading.at_prices == "It competes with the other bids that stand, and those are sealed."


def test_a_bid_that_may_start_only_when_a_job_ends_stands(market: Market, alice: User) -> None:
    running_for(market, alice, 2)
    bid = decided(market, alice, 30.0, utility={"form": "step", "value": 30.0, "deadline_s": 3 * SLOT_S})
    assert (bid.state, bid.stands_until) == ("standing", 2)
    found = standing_of(bid)
    assert found is not None
    assert found.next_try is None
    assert "It is tried again only if a job ends before, in slot 2 at the latest." in found.explanation
    pass_to(market, 2)
    assert states(bid)[0] in GOING
    assert_sound(market)


def test_under_a_new_inventory_competitors_have_its_positions(market: Market, alice: User, seen: Seen) -> None:
    running_for(market, alice, 7)
    for value in (30.0, 20.0):
        decided(market, alice, value, slots=4)
    document = export_cluster(market.cluster)
    document["servers"].insert(0, {**document["servers"][0], "name": "edge-9"})
    import_cluster(document)
    decided(market, make_user("bob"), 1.0, slots=9)
    assert {len(one.delay) for one in seen[-1][1]} == {2}
    pass_to(market, 9)
    assert_replay_sees_the_same(market, seen)
    assert_replayed_as_recorded(market)


def test_of_many_bids_those_that_arrived_last_are_competitors(
    market: Market, alice: User, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(competitors, "COMPETITORS", 3)
    running = running_for(market, alice, 8)
    for value in (50.0, 40.0, 30.0, 20.0, 10.0):
        decided(market, alice, value)
    cancel_job(running)
    pass_to(market, 9)
    assert numbers(seen)[5] == ("6", [3, 4, 5])
    assert numbers(seen)[6] == ("turn 1", [4, 5, 6])
    assert_replay_sees_the_same(market, seen)


def test_a_bid_on_which_the_policy_fails_in_a_turn_is_no_competitor_afterwards(
    market: Market, alice: User, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = running_for(market, alice, 8)
    bad, good = decided(market, alice, 50.0), decided(market, alice, 40.0)
    cancel_job(running)
    looks = Competition.admissions

    def failing(self: Competition, book: Book) -> Admissions:
        admitted = looks(self, book)

        def asked(bid: CoreBid) -> Decision | None:
            if bid.id == str(bad.sequence):
                raise OutsideHorizon("no")
            return admitted(bid)

        return asked

    with monkeypatch.context() as patched:
        patched.setattr(Competition, "admissions", failing)
        pass_to(market, 4)
    assert states(bad)[0] == BidState.QUARANTINED
    assert states(good)[0] == BidState.COMPLETED
    # A replay does not ask about the bid on which the policy failed, so it looks once less.
    assert numbers(seen)[-2:] == [("turn 1", [2, 3]), ("turn 1", [3])]
    assert_sound(market)


def test_a_policy_that_does_not_compete_asks_for_no_competitors(
    db: None, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("no competitors are read")

    monkeypatch.setattr(competitors, "_NUMBERS", asked)
    market = make_market(policy="completions")
    running = running_for(market, alice, 14)
    bid = decided(market, alice, 50.0, slots=8, utility={"form": "step", "value": 50.0, "deadline_s": 12 * SLOT_S})
    assert bid.state == "standing"
    quote(market=market, body=body(5.0))
    standing_of(bid)
    cancel_job(running)
    pass_to(market, 4)
    assert states(bid)[0] in GOING


def test_a_look_at_competitors_takes_one_query_once_they_are_known(market: Market, alice: User) -> None:
    running_for(market, alice, 8)
    for _ in range(3):
        decided(market, alice, 10.0)
    market.refresh_from_db()
    book = books.private_copy(market, now=market.slot + 1)
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            competitors.let_compete(market, book)
        counts.append(len(queries))
    assert [one.id for one in book.competitors] == ["2", "3", "4"]
    assert counts[-1] == 1


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


def test_a_bid_that_competed_is_not_decided_again_with_other_statements(
    market: Market, alice: User, seen: Seen
) -> None:
    first, waits = running_for(market, alice, 3), decided(market, alice, 90.0, slots=2)
    change_policy(market, name="completions", parameters=dict(PRICED), by=None)
    alone = decided(market, make_user("bob"), 5.0)
    seen.clear()
    for bid in (first, waits):
        with pytest.raises(WrongState, match="it would show what other bids that stand state"):
            alternatives_of(bid, caller=alice.pk)
    assert seen == []
    assert alternatives_of(alone, caller=alice.pk).by_value


def test_a_bid_that_was_admitted_in_competition_is_sealed_though_posted_prices_rejected_it_first(
    market: Market, alice: User
) -> None:
    running_for(market, alice, 3)
    change_policy(market, name="completions", parameters=dict(PRICED), by=None)
    utility = {"form": "step", "value": 50.0, "deadline_s": 10 * SLOT_S}
    bid = decided(market, alice, 50.0, slots=8, utility=utility)
    assert bid.state == "standing"
    assert alternatives_of(bid, caller=alice.pk).by_value
    change_policy(market, name="competition", parameters={}, by=None)
    cancel_job(Bid.objects.get(sequence=1))
    pass_to(market, 1)
    assert states(bid)[0] in GOING
    with pytest.raises(WrongState):
        alternatives_of(bid, caller=alice.pk)


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
@pytest.mark.parametrize("kind", ["competition", "both"])
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
