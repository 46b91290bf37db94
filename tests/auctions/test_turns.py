"""Owners take turns in the decision queue: the flood of one delays another's bid by one bid of the flood at most."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from accounts import teams
from accounts.models import Role
from auctions.domain.owners import owner_number
from auctions.domain.turns import Turns, WaitingBid
from auctions.engine import decision_queue
from auctions.engine.jobs import withdraw_bid
from auctions.engine.submission import submit_bids
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState, Event, EventKind, Market, OwnerTurn
from auctions.state import owner_turns
from tests.auctions.worlds import body, make_user, set_time, submit
from tests.draws import fresh_seed, rounds

CHECK = "owners take turns in the decision queue"
DECIDED = (EventKind.ADMITTED, EventKind.REJECTED, EventKind.STANDING)


@dataclass
class SlowTurns:
    """The rule of `auctions.domain.turns`, word by word."""

    last: dict[int, int] = field(default_factory=dict)
    waiting: list[WaitingBid] = field(default_factory=list)

    def first(self) -> WaitingBid | None:
        """The first bid in the first slot of the owner whose last turn was longest ago."""
        slot = min((bid.slot for bid in self.waiting), default=0)
        here = [bid for bid in self.waiting if bid.slot == slot]
        return min(here, key=lambda bid: (self.last.get(bid.owner, 0), bid.number), default=None)

    def take(self, bid: WaitingBid, *, version: int) -> bool:
        """A decision is a turn if bids of another owner wait in the slot."""
        is_turn = any(other.slot == bid.slot and other.owner != bid.owner for other in self.waiting)
        self.waiting.remove(bid)
        if is_turn:
            self.last[bid.owner] = version
        return is_turn

    def next(self, at_most: int, *, version: int) -> list[int]:
        """The numbers that are taken if no other bid comes, as long as the slot is the same."""
        slow, found = SlowTurns({**self.last}, [*self.waiting]), list[WaitingBid]()
        while len(found) < at_most and (bid := slow.first()) is not None:
            if found and bid.slot != found[0].slot:
                break
            slow.take(bid, version=version + len(found) + 1)
            found.append(bid)
        return [bid.number for bid in found]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4), st.integers(0, 1)),
        st.tuples(st.just("take"), st.just(0), st.just(0)),
        st.tuples(st.just("withdraw"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("again"), st.integers(0, 30), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_turns_are_those_of_the_rule(steps: list[tuple[str, int, int]]) -> None:
    fast, slow, slot, bids = Turns(), SlowTurns(), 0, list[WaitingBid]()
    for version, (what, which, later) in enumerate(steps, 1):
        assert fast.first() == slow.first()
        if what == "add":
            slot += later
            bids.append(WaitingBid(len(bids) + 1, slot, which))
            fast.add(bids[-1])
            slow.waiting.append(bids[-1])
        elif what == "take" and (first := slow.first()) is not None:
            assert fast.take(first.number, version=version) == slow.take(first, version=version)
        elif what == "withdraw" and slow.waiting:
            gone = slow.waiting.pop(which % len(slow.waiting))
            fast.remove(gone.number)
        elif what == "again" and (over := [bid for bid in bids if bid not in slow.waiting]):
            back = over[which % len(over)]  # a bid that was quarantined waits again
            fast.add(back)
            slow.waiting.append(back)
        assert [bid.number for bid in fast.next(3, version=version)] == slow.next(3, version=version)
        assert fast.last == slow.last
        assert fast.waiting() == sorted(slow.waiting, key=lambda bid: bid.number)
    assert fast.first() == slow.first()


@given(st.lists(st.one_of(st.integers(1, 5), st.none()), max_size=80))
def test_the_first_bid_of_an_owner_waits_for_one_bid_of_each_other_owner_at_most(steps: list[int | None]) -> None:
    turns, count = Turns(), 0
    passed: dict[int, Counter[int]] = defaultdict(Counter)
    """Numbers of bids of others that were decided since the first waiting bid of an owner is its first, by owner."""
    for version, owner in enumerate(steps, 1):
        if owner is not None:
            count += 1
            turns.add(WaitingBid(count, 0, owner))
        elif (first := turns.first()) is not None:
            turns.take(first.number, version=version)
            passed.pop(first.owner, None)
            for other in {bid.owner for bid in turns.waiting()} - {first.owner}:
                passed[other][first.owner] += 1
        assert all(counts.most_common(1)[0][1] == 1 for counts in passed.values())


def test_a_bid_that_waits_already_is_not_added_again() -> None:
    turns = Turns()
    turns.add(WaitingBid(1, 0, 7))
    with pytest.raises(ValueError, match="bid 1 waits already"):
        turns.add(WaitingBid(1, 0, 7))


def test_a_look_ahead_to_the_end_of_a_slot_changes_nothing_in_the_next_one() -> None:
    turns = Turns()
    for number, slot, owner in ((1, 0, 7), (2, 0, 8), (3, 1, 7), (4, 1, 8)):
        turns.add(WaitingBid(number, slot, owner))
    assert [bid.number for bid in turns.next(4, version=10)] == [1, 2]
    turns.remove(1)
    turns.remove(2)
    assert turns.first() == WaitingBid(3, 1, 7)


def order_of(market: Market) -> list[int]:
    """The numbers of the bids in the order of their decisions."""
    found = Event.objects.filter(market=market, kind__in=DECIDED).order_by("version")
    return list(found.values_list("bid__sequence", flat=True))


def flood(market: Market, owner: User, count: int) -> list[int]:
    """Numbers of bids that an owner submits in one request."""
    sent = submit_bids(
        cluster=market.cluster, owner=owner, bodies=[body(100.0 if i % 3 else 0.001) for i in range(count)]
    )
    return [one.bid.sequence for one in sent]


def assert_clean(market: Market) -> None:
    assert {f.check: f.rows for f in audit_market(market) if not f.passed} == {}


def test_a_bid_that_comes_during_a_flood_is_decided_after_one_bid_of_it(market: Market, alice: User) -> None:
    many, bob = flood(market, alice, 100), make_user("bob")
    assert decision_queue.process_pending(market.pk, at_most=5) == 5
    single = submit(market, bob).sequence
    assert decision_queue.process_pending(market.pk, at_most=2) == 2
    assert order_of(market) == [*many[:6], single]
    decision_queue.process_pending(market.pk)
    assert order_of(market) == [*many[:6], single, *many[6:]]
    assert_clean(market)


def test_owners_take_turns_though_each_batch_has_one_bid(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 0.0)
    mine, bob = flood(market, alice, 6), make_user("bob")
    his = flood(market, bob, 4)
    decision_queue.process_pending(market.pk)
    turns = [number for pair in zip(mine, his, strict=False) for number in pair]
    assert order_of(market) == [*turns, *mine[4:]]
    assert_clean(market)


def test_who_sends_one_bid_after_the_other_gets_every_second_decision(market: Market, alice: User) -> None:
    flood(market, alice, 20)
    bob, owners = make_user("bob"), list[int]()
    for _ in range(8):
        submit(market, bob)
        for _ in range(2):
            decision_queue.process_pending(market.pk, at_most=1)
    for number in order_of(market):
        owners.append(Bid.objects.get(sequence=number).owner_id)
    assert owners == [alice.pk, bob.pk] * 8
    assert_clean(market)


def test_bids_of_earlier_slots_come_first(market: Market, alice: User) -> None:
    early = flood(market, alice, 6)
    set_time(market, 150.0)
    late = submit(market, make_user("bob")).sequence
    decision_queue.process_pending(market.pk)
    assert order_of(market) == [*early, late]
    assert_clean(market)


def test_members_of_a_team_are_one_owner(market: Market, alice: User) -> None:
    team = teams.create_team("vision", "Vision")
    for name in ("bella", "cleo"):
        teams.add_member(team, make_user(name), Role.BIDDER)
    bella, cleo = (User.objects.get(username=name) for name in ("bella", "cleo"))
    hers, his, mine = flood(market, bella, 3), flood(market, cleo, 3), flood(market, alice, 3)
    decision_queue.process_pending(market.pk)
    assert order_of(market) == [hers[0], mine[0], hers[1], mine[1], hers[2], mine[2], *his]
    assert set(OwnerTurn.objects.values_list("owner", flat=True)) == {-team.pk, alice.pk}
    assert_clean(market)


def test_who_is_alone_uses_up_no_turn(market: Market, alice: User) -> None:
    flood(market, alice, 20)
    decision_queue.process_pending(market.pk)
    assert not OwnerTurn.objects.exists()


def test_nothing_is_lost_or_repeated_if_a_worker_dies_within_a_batch(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, his = flood(market, alice, 12), flood(market, make_user("bob"), 3)
    decision_queue.process_pending(market.pk, at_most=3)
    before = list(OwnerTurn.objects.order_by("owner").values_list("owner", "version"))
    with monkeypatch.context() as patch:
        patch.setattr(decision_queue, "save_counters", lambda market: (_ for _ in ()).throw(SystemExit(1)))
        with pytest.raises(SystemExit):
            decision_queue.decide_batch(market.pk)
    assert list(OwnerTurn.objects.order_by("owner").values_list("owner", "version")) == before
    decision_queue.process_pending(market.pk)
    assert order_of(market) == [mine[0], his[0], mine[1], his[1], mine[2], his[2], *mine[3:]]
    assert_clean(market)


def everyone_waiting(market: Market) -> Turns:
    """All bids that wait, with the last turns in rows."""
    turns = Turns(dict(OwnerTurn.objects.filter(market=market).values_list("owner", "version")))
    for bid in Bid.objects.filter(market=market, state=BidState.SUBMITTED):
        turns.add(WaitingBid(bid.sequence, bid.arrival_slot, owner_number(user=bid.owner_id, team=bid.team_id)))
    return turns


@pytest.mark.thorough
def test_the_next_bids_are_those_of_the_rule_over_all_that_wait(market: Market, alice: User) -> None:
    team = teams.create_team("vision", "Vision")
    people = [alice, *(make_user(f"user-{i}") for i in range(6))]
    for one in people[4:]:
        teams.add_member(team, one, Role.BIDDER)
    people = [User.objects.get(pk=one.pk) for one in people]
    rng = np.random.default_rng(fresh_seed())
    for step in range(rounds(25)):
        set_time(market, 40.0 * step)
        for owner in rng.choice(len(people), size=rng.integers(0, 4)):
            flood(market, people[owner], int(rng.integers(1, 6)))
        waiting = Bid.objects.filter(state=BidState.SUBMITTED)
        if rng.random() < 0.3 and waiting.exists():
            withdraw_bid(waiting[int(rng.integers(waiting.count()))])
        market.refresh_from_db()
        for at_most in (1, 3, 16):
            whole, expected = everyone_waiting(market), list[int]()
            slot = first.slot if (first := whole.first()) is not None else 0
            while len(expected) < at_most and (first := whole.first()) is not None and first.slot == slot:
                expected.append(first.number)
                whole.take(first.number, version=market.version + len(expected))
            queue = owner_turns.checkout(market)
            assert [bid.sequence for bid in queue.next_bids(market, at_most=at_most)] == expected
            assert (queue.turns.last, queue.turns.waiting()) == (
                everyone_waiting(market).last,
                everyone_waiting(market).waiting(),
            )
            owner_turns.store(market, queue)
        decision_queue.decide_batch(market.pk, at_most=int(rng.integers(1, 9)))
    decision_queue.process_pending(market.pk)
    assert_clean(market)


@pytest.mark.parametrize("forgetful", [True, False])
def test_rows_decide_if_they_were_changed_without_an_event(market: Market, alice: User, forgetful: bool) -> None:
    mine, his = flood(market, alice, 4), flood(market, make_user("bob"), 2)
    decision_queue.process_pending(market.pk, at_most=2)
    if forgetful:
        owner_turns.forget()
    Bid.objects.filter(sequence=mine[1]).update(state=BidState.WITHDRAWN)
    decision_queue.process_pending(market.pk)
    assert order_of(market) == [mine[0], his[0], mine[2], his[1], mine[3]]
    Bid.objects.filter(sequence=mine[1]).update(state=BidState.SUBMITTED)
    assert decision_queue.process_pending(market.pk) == 1


def test_a_queue_that_is_remembered_is_not_read_again(market: Market, alice: User) -> None:
    flood(market, alice, 40)
    decision_queue.process_pending(market.pk, at_most=1)
    with CaptureQueriesContext(connection) as queries:
        decision_queue.process_pending(market.pk, at_most=1)
    bids = [q["sql"] for q in queries.captured_queries if 'FROM "auctions_bid"' in q["sql"] and "LIMIT" not in q["sql"]]
    assert len(bids) == 1
    assert "IN (2)" in bids[0]


TAMPERINGS: dict[str, Any] = {
    "a row changed": lambda: OwnerTurn.objects.filter(owner__gt=0).update(version=1),
    "a row gone": lambda: OwnerTurn.objects.order_by("pk")[:1].get().delete(),
    "turns that begin later": lambda: Market.objects.update(turns_from=100),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_turns_that_are_not_those_of_the_events_are_found(what: str, market: Market, alice: User) -> None:
    flood(market, alice, 4)
    flood(market, make_user("bob"), 3)
    decision_queue.process_pending(market.pk)
    assert_clean(market)
    TAMPERINGS[what]()
    assert CHECK in {f.check for f in audit_market(market) if not f.passed}


def test_an_owner_who_waits_beyond_the_turn_is_found_but_not_in_what_was_decided_before_there_were_turns(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood(market, alice, 4)
    flood(market, make_user("bob"), 3)
    with monkeypatch.context() as patch:
        patch.setattr(owner_turns, "owner_number", lambda *, user, team: 0)
        owner_turns.forget()
        decision_queue.process_pending(market.pk, at_most=4)
    rows = {f.check: f.rows for f in audit_market(market) if not f.passed}
    assert rows[CHECK][0] == "bid 2 was taken from the queue before bid 5"
    owner_turns.forget()
    market.refresh_from_db()
    Market.objects.update(turns_from=market.version)
    flood(market, alice, 2)
    decision_queue.process_pending(market.pk)
    assert order_of(market) == [1, 2, 3, 4, 5, 8, 6, 9, 7]
    assert_clean(market)
