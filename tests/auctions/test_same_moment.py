"""A job that is cancelled in the moment of its completion, or of the beginning of a slot, has one outcome."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from accounts import teams
from accounts.models import Role, Team
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, complete_job, fail_job
from auctions.engine.slots import pass_slots
from auctions.models import Bid, BidState, Commitment, CreditKind, CreditTransaction, Event, Market
from tests.auctions.credits import assert_sound, limit, sums
from tests.auctions.worlds import SLOT_S, set_time, submit
from tests.rest import client_of

__all__ = ["client_of"]


@pytest.fixture
def team(alice: User) -> Team:
    """Alice's team, with a budget."""
    made = teams.create_team("vision", "Vision")
    teams.add_member(made, alice, Role.BIDDER)
    limit(made, 1_000.0)
    return made


def running(market: Market, owner: User) -> Bid:
    bid = submit(market, User.objects.get(pk=owner.pk), 100.0, epochs=3)
    decision_queue.process_pending(market.pk)
    set_time(market, SLOT_S)
    pass_slots(market.pk)
    bid.refresh_from_db()
    assert (bid.state, bid.payment is not None and bid.payment > 0) == (BidState.RUNNING, True)
    return bid


def assert_one_end(market: Market, bid: Bid, team: Team, state: BidState) -> None:
    bid.refresh_from_db()
    assert (bid.state, bid.refund) == (state, 0.0)
    ends = Event.objects.filter(bid=bid, kind__in=["cancelled", "failed", "completed"]).count()
    named = sum(bid.sequence in one.payload.get("completed", []) for one in Event.objects.filter(kind="slot"))
    assert ends + named == 1
    kinds = CreditTransaction.objects.filter(bid=bid).order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == [CreditKind.HELD, CreditKind.CHARGED]
    assert sums(team)["left"] == pytest.approx(1_000.0 - (bid.payment or 0.0))
    assert_sound(market)


def cancelled_by_rest(owner: User, client_of: Callable[[User], APIClient]) -> tuple[int, str]:
    answer = client_of(User.objects.get(pk=owner.pk)).post("/api/v1/clusters/lab/bids/1/cancel", {}, format="json")
    return answer.status_code, answer.content.decode()


def cancelled_on_page(owner: User) -> str:
    pages = Client()
    pages.force_login(owner)
    return pages.post("/markets/lab/bids/1/cancel/", follow=True).text


@pytest.mark.parametrize("by_page", [False, True])
@pytest.mark.parametrize("slot_first", [False, True])
@pytest.mark.parametrize("early_s", [0.0, 0.001])
def test_at_the_end_of_its_last_slot_a_job_is_complete_and_before_it_is_cancelled(
    market: Market,
    alice: User,
    team: Team,
    client_of: Callable[[User], APIClient],
    by_page: bool,
    slot_first: bool,
    early_s: float,
) -> None:
    bid = running(market, alice)
    assert bid.completion_slot is not None
    set_time(market, bid.completion_slot * SLOT_S - early_s)
    if slot_first:
        pass_slots(market.pk)
    in_time = early_s > 0.0
    if by_page:
        said = cancelled_on_page(alice)
        assert ("The job was cancelled" in said) == in_time
    else:
        status, said = cancelled_by_rest(alice, client_of)
        assert status == (200 if in_time else 409)
    expected = "Bid 1 is completed; only a bid that is planned or running can become cancelled."
    assert (expected in said) == (not in_time)
    set_time(market, bid.completion_slot * SLOT_S)
    pass_slots(market.pk)
    assert_one_end(market, bid, team, BidState.CANCELLED if in_time else BidState.COMPLETED)
    for _ in range(2):  # once more is the same
        assert cancelled_by_rest(alice, client_of)[0] == 409
    assert_one_end(market, bid, team, BidState.CANCELLED if in_time else BidState.COMPLETED)


@pytest.mark.parametrize("cancel_first", [False, True])
def test_a_training_that_ends_while_its_job_is_cancelled(
    market: Market, alice: User, team: Team, client_of: Callable[[User], APIClient], cancel_first: bool
) -> None:
    bid = running(market, alice)
    stale = Bid.objects.get(pk=bid.pk)
    if cancel_first:
        assert cancelled_by_rest(alice, client_of)[0] == 200
        for deed in (complete_job, lambda one: fail_job(one, "late"), cancel_job):
            with pytest.raises(Exception, match="Bid 1 is cancelled"):
                deed(Bid.objects.get(pk=stale.pk))
    else:
        complete_job(stale)
        assert "Bid 1 is completed" in cancelled_on_page(alice)
    assert_one_end(market, bid, team, BidState.CANCELLED if cancel_first else BidState.COMPLETED)


@pytest.mark.parametrize("slot_first", [False, True])
def test_at_the_beginning_of_its_first_slot_a_job_is_cancelled_as_one_that_runs_from_the_next_on(
    market: Market, alice: User, team: Team, client_of: Callable[[User], APIClient], slot_first: bool
) -> None:
    delays = dict.fromkeys(("edge-0", "edge-1", "cloud"), 300.0)
    bid = submit(market, User.objects.get(pk=alice.pk), 100.0, epochs=3, upload_delay_s=delays)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert (bid.state, bid.start_slot) == (BidState.PLANNED, 3)
    set_time(market, 3 * SLOT_S)
    if slot_first:
        pass_slots(market.pk)
    assert cancelled_by_rest(alice, client_of)[0] == 200
    pass_slots(market.pk)
    assert_one_end(market, bid, team, BidState.CANCELLED)
    assert Commitment.objects.filter(bid=bid, end__gt=4).count() == 0
