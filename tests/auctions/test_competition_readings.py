"""What quotes, readings and other statements say where bids compete."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User

from auctions.counterfactual.alternatives import alternatives_of
from auctions.domain.errors import WrongState
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.policies import change_policy
from auctions.engine.standing_quote import standing_of
from auctions.engine.submission import quote
from auctions.models import Bid, DecisionRecord, FirstDecision, Market
from scheduling.model.decision import Decision, parse
from tests.auctions.competing import (
    GOING,
    Seen,
    decided,
    make_market,
    running_for,
    states,
    watched,
)
from tests.auctions.standing import HORIZON, assert_sound, pass_to
from tests.auctions.worlds import PRICED, SLOT_S, body, make_user, submit

pytestmark = pytest.mark.thorough

QUOTED = {
    True: "If no bid that stands comes first, it is admitted now and complete by slot {}. It then pays what this takes"
    " from the bids that stand, less than what it is worth.",
    False: "It would not be admitted now: jobs with a promise need the machines. If it stands, it competes when"
    " machines are freed.",
}
"""Words of quotes that are admitted, and of others for which there is no room."""


@pytest.fixture
def market(db: None) -> Market:
    """One server of four units."""
    return make_market()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return watched(monkeypatch)


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
