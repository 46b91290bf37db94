"""Turns of standing bids: whose it is, and that none is lost or repeated."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from auctions.domain.policy_errors import policy_errors
from auctions.domain.standing_rule import RULE
from auctions.engine import decision_queue, standing
from auctions.engine.decide import decide_again
from auctions.engine.jobs import retry_bid
from auctions.engine.slots import pass_slots
from auctions.history.audit import CHECKS
from auctions.history.audit_pass import EventPass
from auctions.models import (
    Bid,
    BidState,
    Event,
    EventKind,
    Market,
    PolicyError,
)
from auctions.readings import publications
from auctions.state import book
from tests.auctions.standing import ADMITTED, HORIZON, assert_sound, filled, freed, pass_to, standing_market, stands
from tests.auctions.worlds import SLOT_S, make_cluster, make_market, set_time

pytestmark = pytest.mark.thorough


@pytest.fixture
def market(db: None) -> Market:
    return standing_market()


def test_bids_have_their_turns_by_last_try_and_arrival_and_no_more_than_the_rule_says_at_once(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    most = RULE.each
    values = np.random.default_rng(5).permutation(most + 3) + 20.0
    bids = [stands(market, bob, float(value)) for value in values]
    pass_to(market, 8)
    for bid in bids:
        bid.refresh_from_db()
    assert [bid.tries for bid in bids] == [2] * (most - 3) + [1] * 6
    turns = [event.payload["standing"]["tried"] for event in Event.objects.filter(payload__has_key="standing")][::1]
    numbers = [bid.sequence for bid in bids]
    assert turns == [numbers[:most], [*numbers[most:], *numbers[: most - 3]]]
    assert_sound(market)


def test_many_bids_of_one_owner_neither_delay_those_of_another_nor_are_counted_in_their_tries(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    flood = [stands(market, bob, 1.0) for _ in range(3 * RULE.each)]
    late = stands(market, alice)
    pass_to(market, 4)
    late.refresh_from_db()
    assert (late.tries, late.tried_slot) == (1, 4)
    for bid in flood:
        bid.refresh_from_db()
    assert sum(bid.tries for bid in flood) == RULE.each
    assert_sound(market)


def test_the_longer_a_bid_stands_the_less_often_it_is_tried(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live, replayed and audited by the rule that each turn recorded, whatever the rule is by now."""
    with monkeypatch.context() as changed:
        changed.setattr(standing, "rule_for", lambda _policy: replace(RULE, every=1, per_age=3))
        filled(market, alice)
        stands(market, bob)
        pass_to(market, 12)
    bid = Bid.objects.get(owner=bob)
    found = Event.objects.filter(payload__standing__has_key="tried").order_by("version")
    slots = [event.payload["now"] for event in found if bid.sequence in event.payload["standing"]["tried"]]
    assert slots == [1, 2, 3, 5, 8], "and the next turn, in slot 12, would be too late"
    assert (bid.tries, bid.tried_slot) == (5, 8)
    assert_sound(market)
    event = found.get(payload__now=8)
    event.payload["standing"]["rule"]["per_age"] = 2
    event.save()
    assert list(CHECKS["standing bids had their turns"](EventPass(market)))


def test_a_turn_is_replayed_whose_rule_was_recorded_before_it_had_all_its_parameters(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(standing, "rule_for", lambda _policy: replace(RULE, each=RULE.most, per_age=0))
        filled(market, alice)
        stands(market, bob)
        pass_to(market, 4)
    event = Event.objects.get(payload__standing__has_key="tried")
    for name in ("each", "per_age"):
        del event.payload["standing"]["rule"][name]
    event.save()
    assert_sound(market)
    event.payload["standing"]["tried"] = []
    event.save()
    assert list(CHECKS["replay gives every receipt byte for byte"](EventPass(market)))


def test_an_event_states_the_rule_of_turns_only_if_it_is_not_the_one_stated_last(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(market, alice)
    for _ in range(3):
        stands(market, bob)
    with monkeypatch.context() as other_process:
        other_process.setattr(book, "_books", {})
        other_process.setattr(decision_queue, "rule_for", lambda _policy: replace(RULE, every=2))
        stands(market, bob)
        stands(market, bob)
    book.forget()  # nothing that a process remembers changes an event
    stands(market, bob)
    stands(market, bob)
    with monkeypatch.context() as other_process:
        other_process.setattr(standing, "rule_for", lambda _policy: replace(RULE, every=1))
        pass_to(market, 2)
    stands(market, bob)
    events = Event.objects.filter(kind=EventKind.STANDING).order_by("version")
    stated = [(event.payload.get("rule") or {}).get("every") for event in events]
    assert stated == [RULE.every, None, None, 2, None, RULE.every, None, RULE.every]
    assert Event.objects.get(payload__now=2).payload["standing"]["rule"]["every"] == 1
    assert_sound(market)


def test_a_turn_of_many_standing_bids_takes_two_queries_more_than_a_slot_without_a_turn(
    market: Market, alice: User, bob: User
) -> None:
    filled(market, alice)
    for _ in range(30):
        stands(market, bob)
    pass_to(market, 2)
    counts = []
    for slot in (3, 4):
        set_time(market, slot * SLOT_S)
        with CaptureQueriesContext(connection) as asked:
            pass_slots(market.pk)
        counts.append(len(asked))
    assert Bid.objects.filter(tries=1).count() == RULE.each
    assert counts[1] <= counts[0] + 2, "the bids whose turn it is, and their tries"


def test_prices_learn_from_a_standing_bid_once(alice: User, bob: User) -> None:
    market = make_market(make_cluster(servers=1, units=4, horizon=HORIZON))
    taken = filled(market, alice)
    stands(market, bob)
    freed(taken)
    pass_to(market, 4)
    assert Bid.objects.get(owner=bob).state in ADMITTED
    kept = book.private_copy(market, now=4)
    book.forget()
    rebuilt = book.rebuild(market, now=4)
    assert rebuilt.running.decided == kept.running.decided == Bid.objects.count()
    assert list(rebuilt.running.history) == list(kept.running.history)
    assert list(rebuilt.running.offers) == list(kept.running.offers)
    assert_sound(market)


def test_a_book_of_another_process_catches_up_with_standing_bids(market: Market, alice: User, bob: User) -> None:
    taken = filled(market, alice)
    market.refresh_from_db()
    earlier = book.rebuild(market, now=0)
    stands(market, bob)
    market.refresh_from_db()
    assert book._catch_up(earlier, market)
    freed(taken)
    pass_to(market, 3)
    stale = book.rebuild(market, now=4)
    pass_to(market, 4)
    assert Bid.objects.get(owner=bob).state in ADMITTED
    assert book._catch_up(stale, market)
    fresh = book.rebuild(market, now=4)
    assert np.array_equal(stale.ledger.held, fresh.ledger.held)
    assert list(stale.running.history) == list(fresh.running.history)
    assert stale.running.decided == fresh.running.decided


def test_turns_go_on_after_a_process_has_died(market: Market, alice: User, bob: User) -> None:
    taken = filled(market, alice)
    bids = [stands(market, bob, value) for value in (50.0, 40.0)]
    pass_to(market, 5)
    book.forget()  # all that a process knows
    freed(taken)
    pass_to(market, 8)
    for bid in bids:
        bid.refresh_from_db()
        assert (bid.tries, bid.decision.slot) == (2, 8)
    assert_sound(market)


def test_a_worker_that_dies_in_a_turn_leaves_nothing_of_it_and_the_turn_is_repeated_once(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = filled(market, alice)
    bids = [stands(market, bob, value) for value in (50.0, 40.0)]
    freed(taken)
    pass_to(market, 3)
    version = Market.objects.get().version

    def killed(*_args: object, **_more: object) -> None:
        raise SystemExit

    set_time(market, 4 * SLOT_S)
    with monkeypatch.context() as patched:
        patched.setattr(publications, "publish", killed)  # the last step of the transaction
        with pytest.raises(SystemExit):
            pass_slots(market.pk)
    assert Market.objects.get().version == version
    assert set(Bid.objects.filter(owner=bob).values_list("state", "tries")) == {(BidState.STANDING, 0)}
    pass_to(market, 4)
    for bid in bids:
        bid.refresh_from_db()
        assert (bid.state in ADMITTED, bid.tries) == (True, 1)
    assert_sound(market)


def test_after_a_stop_standing_bids_have_one_turn_for_all_slots_that_passed(
    market: Market, alice: User, bob: User
) -> None:
    taken = filled(market, alice)
    bid = stands(market, bob)
    freed(taken)
    set_time(market, 7 * SLOT_S)
    pass_slots(market.pk)
    bid.refresh_from_db()
    assert (bid.tries, bid.decision.slot) == (1, 7)
    assert_sound(market)


def test_a_bid_on_which_the_policy_fails_is_quarantined_and_stands_again_when_it_is_put_back(
    market: Market, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = filled(market, alice)
    bad, good = (stands(market, bob, value) for value in (50.0, 40.0))
    freed(taken)
    pass_to(market, 3)
    ask = decide_again

    def fails(where: Any, one: Any, first: Any, *, owner: int, left: int | None) -> Any:
        if one.number == bad.sequence:
            with policy_errors():
                raise ZeroDivisionError("no")
        return ask(where, one, first, owner=owner, left=left)

    monkeypatch.setattr(standing, "decide_again", fails)
    pass_to(market, 4)
    monkeypatch.undo()
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.state, bad.tries) == (BidState.QUARANTINED, 1)
    assert good.state in ADMITTED
    assert PolicyError.objects.get().bid == bad
    assert_sound(market)
    bad.stands_until = None  # as in a row that was read before it stood
    retry_bid(bad)
    bad.refresh_from_db()
    assert bad.state == BidState.STANDING
    pass_to(market, 8)
    bad.refresh_from_db()
    assert bad.state in ADMITTED
    assert_sound(market)
