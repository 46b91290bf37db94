"""What quotes say of the past of standing bids, and what the reading of a standing bid says."""

import pytest
from django.contrib.auth.models import User

from auctions.domain.standing_rule import RULE, longest_stand
from auctions.engine import standing_quote
from auctions.engine.jobs import withdraw_bid
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.engine.standing_quote import standing_of
from auctions.engine.submission import quote
from auctions.models import ADMITTED, BidState, Market, Publication
from auctions.readings import publications
from auctions.readings.publications import LEAST_OWNERS, STANDING_SHARE, StandingPast
from scheduling.policies.posted_price import CENT
from tests.auctions.standing import HORIZON, decided, filled, freed, standing_market, stands
from tests.auctions.worlds import SLOT_S, make_cluster, make_market, make_operator, make_user, set_time

STOOD = int(RULE.longest * HORIZON)
"""Longest time that a bid stands, slots."""


@pytest.fixture
def market(db: None) -> Market:
    return standing_market()


def begin(market: Market, slot: int) -> None:
    set_time(market, slot * SLOT_S)
    pass_slots(market.pk)
    market.refresh_from_db()


def published(market: Market, owners: list[User]) -> None:
    """Admit a bid of each owner, and let the next slot begin."""
    for owner in owners:
        assert decided(market, owner, 1e5).state in ADMITTED
    begin(market, market.slot + 1)


def test_a_quote_states_the_share_of_standing_bids_that_were_admitted_once_none_of_them_can_stand(
    market: Market, alice: User
) -> None:
    owners, operator = [make_user(f"owner-{i}") for i in range(LEAST_OWNERS)], make_operator()
    taken = filled(market, alice)
    bids = [stands(market, owner) for owner in owners[:2]]
    bids += [stands(market, owner, standing_until_s=4 * SLOT_S) for owner in owners[2:]]
    withdraw_bid(bids[1])
    begin(market, 5)
    freed(taken)
    begin(market, 8)
    published(market, owners)
    for bid in bids:
        bid.refresh_from_db()
    assert [bid.state in ADMITTED or bid.state == BidState.COMPLETED for bid in bids] == [True, False, False, False]
    assert publications.standing_past(market, operator).admitted_share is None, "they might still stand"
    begin(market, STOOD)
    assert publications.standing_past(market, operator).admitted_share is None
    begin(market, STOOD + 1)
    assert publications.standing_past(market, operator).admitted_share == 0.25
    assert publications.standing_past(market, owners[0]).admitted_share is None, "nothing was published since"
    published(market, owners)
    assert publications.standing_past(market, owners[0]).admitted_share == 0.25


def test_the_published_share_is_rounded_and_changes_only_with_new_bids_of_several_owners(
    market: Market, alice: User
) -> None:
    owners = [make_user(f"owner-{i}") for i in range(LEAST_OWNERS + 3)]
    taken = filled(market, alice)
    for number, owner in enumerate(owners):
        stands(market, owner, **({} if number < 2 else {"standing_until_s": 4 * SLOT_S}))
    begin(market, 5)
    freed(taken)
    begin(market, 8)
    begin(market, STOOD + 1)
    published(market, owners)
    assert publications.standing_past(market, make_operator()).admitted_share == 2 / 7
    assert publications.standing_past(market, owners[0]).admitted_share == 0.3
    first = market.slot
    filled(market, alice)
    for owner in owners[: LEAST_OWNERS - 1]:
        stands(market, owner, utility={"form": "step", "value": 50.0, "deadline_s": 6 * SLOT_S})
    begin(market, first + STOOD + 1)
    published(market, owners)
    assert publications.standing_past(market, owners[0]).admitted_share == 0.3, "bids of three owners are new"
    assert publications.standing_past(market, make_operator("another")).admitted_share == 2 / 10
    assert [row.figures[STANDING_SHARE] for row in Publication.objects.order_by("version")] == [0.3, 0.3]


def test_where_no_bid_stood_nothing_is_known(market: Market, alice: User) -> None:
    decided(market, alice, 1e5)
    assert publications.standing_past(market, alice) == StandingPast(wait=None, admitted_share=None)


def test_a_standing_bid_says_when_it_is_tried_and_which_value_would_be_admitted_now(alice: User) -> None:
    market = make_market(make_cluster(servers=1, units=4, horizon=HORIZON), initial_low=5.0, initial_high=9.0)
    assert standing_of(decided(market, alice, 1e5)) is None
    bid = stands(market, alice, 0.05)
    seen = standing_of(bid)
    assert seen is not None
    assert (seen.since, seen.last_try, seen.next_try) == (0, None, 4)
    assert "tried again 0 times. It is tried next at the beginning of slot 4, " in seen.explanation
    begin(market, 5)
    bid.refresh_from_db()
    assert bid.state == BidState.STANDING
    seen = standing_of(bid)
    assert seen is not None
    assert (seen.last_try, seen.next_try) == (5, 8)
    assert seen.least_value is not None
    assert seen.least_value == round(seen.least_value, 2)
    assert f"At the prices of now a value of {seen.least_value:.2f} would be admitted." in seen.explanation
    left = bid.body["utility"]["deadline_s"] - 5 * SLOT_S
    for value, admitted in ((seen.least_value, True), (seen.least_value - 2 * CENT, False)):
        step = {"form": "step", "deadline_s": left, "value": value}
        quoted = quote(market=market, body={**bid.body, "utility": step}, bidder=alice)
        assert quoted.decision.admitted is admitted
    withdraw_bid(bid)
    seen = standing_of(bid)
    assert seen is not None
    assert (seen.next_try, seen.least_value) == (None, None)
    assert seen.explanation == "It stood from slot 0 on and was tried again 1 time, last in slot 5."


def test_where_there_is_no_room_no_value_would_be_admitted(market: Market, alice: User) -> None:
    filled(market, alice)
    seen = standing_of(stands(market, make_user("bob")))
    assert seen is not None
    assert (seen.next_try, seen.least_value) == (4, None)
    assert "At the prices of now no other value would be admitted." in seen.explanation


def test_a_policy_that_fails_on_a_standing_bid_is_said_to(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(market, alice)
    bid = stands(market, make_user("bob"))

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(standing_quote, "answer", fail)
    seen = standing_of(bid)
    assert seen is not None
    assert "the policy of this market fails on this bid" in seen.explanation
    assert "fails on bid" in caplog.text


@pytest.mark.parametrize("later", ["dps", "competition"])
def test_the_share_counts_a_bid_once_the_policy_that_decided_it_first_lets_it_stand_no_longer(
    market: Market, alice: User, later: str
) -> None:
    first = "competition" if later == "dps" else "dps"
    change_policy(market, name=first, parameters={}, by=None)
    taken, operator = filled(market, alice), make_operator()
    stands(market, alice)
    change_policy(market, name=later, parameters={}, by=None)
    begin(market, int(longest_stand(first) * HORIZON))
    assert publications.standing_past(market, operator).admitted_share is None
    begin(market, market.slot + 1)
    assert publications.standing_past(market, operator).admitted_share == 0.0
    freed(taken)
    filled(market, alice)
    since = market.slot
    stands(market, make_user("bob"), utility={"form": "step", "value": 50.0, "deadline_s": 6 * SLOT_S})
    begin(market, since + int(longest_stand(later) * HORIZON))
    assert len(publications._that_stood(market)) == 1
    begin(market, market.slot + 1)
    assert len(publications._that_stood(market)) == 2
