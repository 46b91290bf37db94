"""Bids that compete: every decision sees the bids that stand, and the best one starts first."""

from functools import partial

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from auctions.domain.standing_rule import RULE
from auctions.engine import competitors, decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.standing_quote import standing_of
from auctions.engine.submission import quote
from auctions.history import standing_bids
from auctions.models import BidState, Event, Market
from auctions.state import book as books
from cluster.documents import export_cluster, import_cluster
from scheduling.book.state import Book
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision
from scheduling.model.errors import OutsideHorizon
from scheduling.policies.competition import Competition
from scheduling.policies.standing import Admissions, competing, rule_for
from tests.accounts.members import in_team
from tests.auctions.competing import (
    GOING,
    Seen,
    assert_replay_sees_the_same,
    bid_of,
    decided,
    make_market,
    numbers,
    running_for,
    states,
    watched,
)
from tests.auctions.counterfactual.assertions import (
    assert_replayed_as_recorded,
)
from tests.auctions.standing import assert_sound, pass_to
from tests.auctions.worlds import SLOT_S, body, make_user

pytestmark = pytest.mark.thorough


@pytest.fixture
def market(db: None) -> Market:
    """One server of four units."""
    return make_market()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return watched(monkeypatch)


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


def test_each_bid_of_a_batch_sees_those_before_it_that_stand(
    market: Market, alice: User, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 60.0)
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


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most three bids compete."""
    for module in (competitors, standing_bids):
        monkeypatch.setattr(module, "competing", partial(competing, most=3))


@pytest.mark.usefixtures("three")
def test_of_the_many_bids_of_one_owner_those_that_arrived_last_compete(market: Market, alice: User, seen: Seen) -> None:
    running = running_for(market, alice, 8)
    for value in (50.0, 40.0, 30.0, 20.0, 10.0):
        decided(market, alice, value)
    cancel_job(running)
    pass_to(market, 9)
    assert numbers(seen)[5] == ("6", [3, 4, 5])
    assert numbers(seen)[6] == ("turn 1", [4, 5, 6])
    assert_replay_sees_the_same(market, seen)


@pytest.mark.usefixtures("three")
def test_the_many_bids_of_one_owner_leave_those_of_others_their_places(
    market: Market, alice: User, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 60.0)
    mallory, trudy, bob = (make_user(name) for name in ("mallory", "trudy", "bob"))
    in_team(mallory, trudy)
    running = running_for(market, alice, 8)
    first, second = decided(market, alice, 50.0), decided(market, bob, 40.0)
    for member in (mallory, trudy, mallory, trudy):
        bid_of(market, member, 1.0)
    assert decision_queue.decide_batch(market.pk) == 4
    assert numbers(seen)[-1] == ("7", [2, 3, 6]), "with the bid that is decided, one bid of each owner"
    cancel_job(running)
    pass_to(market, 9)
    assert states(first, second) == ["completed", "completed"]
    assert (first.start_slot, second.start_slot) == (1, 2)
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

    monkeypatch.setattr(competitors, "_STANDING_BIDS", asked)
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
