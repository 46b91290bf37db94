"""Bids that compete, of teams that cannot pay what they state: they hold nobody back."""

import pytest
from django.contrib.auth.models import User

from accounts import teams
from accounts.models import Role, Team
from auctions.engine.policies import change_policy
from auctions.engine.submission import quote
from auctions.models import Bid, Event, Market
from tests.auctions.competing import decided, make_market, running_for, states
from tests.auctions.counterfactual.assertions import assert_replayed_as_recorded, assert_the_same_policy_changes_nothing
from tests.auctions.credits import limit
from tests.auctions.standing import assert_sound, pass_to
from tests.auctions.worlds import PRICED, SLOT_S, body, make_user

GREAT = 1e9
LINEAR = {"form": "linear", "value": GREAT, "zero_at_s": 1e7}


@pytest.fixture
def market(db: None) -> Market:
    """One server of four units, all of them held for three slots."""
    market = make_market()
    running_for(market, make_user("alice"), 3)
    return market


@pytest.fixture
def team(db: None) -> Team:
    return teams.create_team("vision", "Vision")


@pytest.fixture
def bella(team: Team) -> User:
    """A member of the team."""
    bella = make_user("bella")
    teams.add_member(team, bella, Role.BIDDER)
    return User.objects.get(pk=bella.pk)


def great(market: Market, owner: User) -> Bid:
    """A bid that would come before all others, and takes all machines for 15 slots."""
    return decided(market, owner, GREAT, slots=15, utility=LINEAR, standing_until_s=1e7)


def test_a_bid_that_its_team_could_not_pay_does_not_stand_and_changes_nothing_for_others(
    market: Market, team: Team, bella: User
) -> None:
    limit(team, 0.000001)
    poor, bob = great(market, bella), make_user("bob")
    assert (states(poor), poor.stands_until) == (["rejected"], None)
    others = []
    for slot in range(1, 10):
        pass_to(market, slot)
        others.append(decided(market, bob, 50.0, slots=3))
    pass_to(market, 40)
    starts = sorted(bid.start_slot for bid in others if states(bid) == ["completed"] and bid.start_slot is not None)
    assert starts == list(range(3, 3 + 3 * len(others), 3))
    assert_sound(market)
    assert_replayed_as_recorded(market)
    assert_the_same_policy_changes_nothing(market)


@pytest.mark.parametrize(("left", "stands"), [(50.0, True), (49.999999, False)])
def test_a_bid_stands_if_its_team_has_what_it_states(
    market: Market, team: Team, bella: User, left: float, stands: bool
) -> None:
    limit(team, left)
    utility = {"form": "linear", "value": 50.0, "zero_at_s": 40 * SLOT_S}
    asked = quote(market=market, body=body(50.0, epochs=1, utility=utility, standing=True), bidder=bella)
    bid = decided(market, bella, 50.0)
    assert [one.stands_until is not None for one in (asked, bid)] == [stands, stands]
    assert states(bid) == ["standing" if stands else "rejected"]
    words = "It does not stand: it states 50 credits, more than its team has left in this period: 49.999999."
    receipt = (bid.first_decision if stands else bid.decision).receipt
    assert [words in said for said in (asked.decision.explanation, receipt)] == [not stands, not stands]
    assert_sound(market)
    assert_replayed_as_recorded(market)


def test_a_bid_that_was_not_to_stand_says_nothing_of_that(market: Market, team: Team, bella: User) -> None:
    limit(team, 10.0)
    utility = {"form": "linear", "value": 50.0, "zero_at_s": 40 * SLOT_S}
    asked = quote(market=market, body=body(50.0, epochs=1, utility=utility), bidder=bella)
    bid = decided(market, bella, 50.0, standing=False)
    assert states(bid) == ["rejected"]
    assert not any("It does not stand" in said for said in (asked.decision.explanation, bid.decision.receipt))
    assert_replayed_as_recorded(market)


def test_at_posted_prices_a_bid_stands_whatever_its_team_has(market: Market, team: Team, bella: User) -> None:
    change_policy(market, name="completions", parameters=dict(PRICED), by=None)
    limit(team, 0.000001)
    utility = {"form": "step", "value": 50.0, "deadline_s": 10 * SLOT_S}
    assert states(decided(market, bella, 50.0, slots=8, utility=utility)) == ["standing"]
    assert_sound(market)


def test_a_bid_whose_team_spent_its_credits_since_is_no_competitor_for_the_rest_of_the_turn(
    market: Market, team: Team, bella: User
) -> None:
    poor, other = great(market, bella), decided(market, make_user("bob"), 50.0, slots=3)
    assert states(poor, other) == ["standing", "standing"]
    limit(team, 0.000001)
    pass_to(market, 3)
    assert states(poor, other) == ["standing", "running"]
    turn = Event.objects.get(payload__has_key="standing").payload["standing"]
    assert (turn["tried"], turn["credits"]) == ([2, 3], {"2": 1})
    assert (other.start_slot, other.payment) == (3, 0.0)
    assert_sound(market)
    assert_replayed_as_recorded(market)
