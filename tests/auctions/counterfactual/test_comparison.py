"""What a record would have been under another policy, by hand and on every policy."""

import pytest
from django.contrib.auth.models import User

from auctions.counterfactual.comparison import ComparedBid, Comparison, Enough, compare
from auctions.counterfactual.record import Record
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.markets import open_market
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.models import Bid, BidState, Market
from auctions.readings.market_readings import summary
from auctions.state import book
from cluster.guards import checked_change
from cluster.models import Capacity, Server
from scheduling.model.decision import Reason
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.registry import POLICIES, make_policy
from tests.auctions.worlds import PRICED, make_cluster, make_market, set_time, submit

SOLE: Json = {"upload_delay_s": {"cloud": 5000}}
"""The cloud is out of reach: one server of four GPUs, on which an epoch of one job takes a slot."""
FIFO: tuple[str, Json] = ("fifo", {})


@pytest.fixture
def sole(db: None) -> Market:
    """One server under the auction."""
    return make_market(make_cluster(servers=1))


def compared(market: Market, name: str, parameters: Json | None = None, *, since: int = 1) -> Comparison:
    return compare(Record.of(market), make_policy(name, parameters or {}), since=since)


def row(found: Comparison, bid: Bid) -> ComparedBid:
    return next(one for one in found.rows if one.sequence == bid.sequence)


def decide(market: Market, owner: User, value: float, **changes: object) -> Bid:
    bid = submit(market, owner, value, **SOLE, **changes)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


def test_a_bid_turned_away_for_its_value_is_admitted_where_nobody_pays(sole: Market, alice: User) -> None:
    poor = decide(sole, alice, 0.0001)
    assert poor.state == BidState.REJECTED
    seen = row(compared(sole, *FIFO), poor)
    assert seen.changed
    assert (seen.recorded.state, seen.recorded.reason) == (BidState.REJECTED, "price")
    assert (seen.other.state, seen.other.start, seen.other.completion) == (BidState.RUNNING, 0, 1)
    assert (seen.other.value, seen.other.payment) == (0.0001, 0.0)


def test_the_recorded_side_is_what_the_market_says_of_itself(sole: Market, alice: User) -> None:
    bids = [decide(sole, alice, value, epochs=3) for value in (5.0, 900.0, 0.001, 70.0)]
    cancel_job(Bid.objects.get(pk=bids[1].pk))
    set_time(sole, 450.0)
    pass_slots(sole.pk)
    waits = submit(sole, alice, 3.0, **SOLE)
    found, market = compared(sole, *FIFO).recorded, summary(sole)
    assert found.submitted == 5
    assert found.undecided == 1
    assert found.welfare == pytest.approx(market.welfare)
    assert found.revenue == pytest.approx(market.revenue)
    assert row(compared(sole, *FIFO), waits).recorded.admitted is None


def test_a_withdrawn_bid_is_decided_by_nobody(sole: Market, alice: User) -> None:
    gone = submit(sole, alice, 3.0, **SOLE)
    withdraw_bid(gone)
    kept = decide(sole, alice, 3.0)
    found = compared(sole, *FIFO)
    assert [side.state for side in row(found, gone).sides] == [BidState.WITHDRAWN] * 2
    assert found.decided == 1
    assert row(found, kept).other.admitted


def test_who_cancelled_would_have_cancelled_then_and_frees_the_slots_for_others(sole: Market, alice: User) -> None:
    first = decide(sole, alice, 900.0, epochs=4)
    set_time(sole, 150.0)
    pass_slots(sole.pk)
    cancel_job(Bid.objects.get(pk=first.pk))
    second = decide(sole, alice, 900.0)
    found = compared(sole, *FIFO)
    assert row(found, first).other.state == BidState.CANCELLED
    assert row(found, first).other.value == 0
    assert row(found, second).other.start == 2


def test_a_cancellation_changes_nothing_for_a_job_that_was_turned_away(sole: Market, alice: User) -> None:
    sure = decide(sole, alice, 900.0, epochs=2)
    set_time(sole, 50.0)
    cancel_job(Bid.objects.get(pk=sure.pk))
    dear = {"initial_low": 1e6, "initial_high": 1e7}
    seen = row(compared(sole, "dps", dear), sure)
    assert seen.recorded.state == BidState.CANCELLED
    assert seen.other.state == BidState.REJECTED


def test_a_server_that_shrank_fails_the_job_that_held_it_in_the_counterfactual(alice: User) -> None:
    market = make_market(make_cluster(servers=1))
    poor = decide(market, alice, 0.0001, epochs=4)
    assert poor.state == BidState.REJECTED
    edge = Server.objects.get(cluster=market.cluster, name="edge-0")
    set_time(market, 150.0)
    with checked_change(market.cluster):
        Capacity.objects.filter(server=edge).update(amount=1)
    later = decide(market, alice, 0.0001)
    found = compared(market, *FIFO)
    assert row(found, poor).other.state == BidState.FAILED
    assert row(found, later).other.admitted


def test_jobs_that_the_other_market_would_not_have_taken_are_refused_with_a_reason(alice: User) -> None:
    market = open_market(make_cluster(servers=1), policy="weighted_completion")
    sent = {"model": "ResNet-50", "epochs": 1, "weight": 3.0, "architecture": "ring", "reduce_step_s": 0, **SOLE}
    bid = submit_bid(cluster=market.cluster, owner=alice, body=sent).bid
    decision_queue.process_pending(market.pk)
    other = row(compared(market, "dps"), bid).other
    assert (other.admitted, other.reason) == (False, Reason.REFUSED)
    assert "does not run ring jobs" in other.explanation


def test_bids_before_the_first_of_interest_are_replayed_as_recorded(sole: Market, alice: User) -> None:
    bids = [decide(sole, alice, value) for value in (0.0001, 0.0001, 0.0001)]
    found = compared(sole, *FIFO, since=bids[1].sequence)
    assert [one.sequence for one in found.rows] == [2, 3]
    assert (found.decided, found.changed, found.earlier_changed) == (2, 2, 0)


def test_time_that_is_up_compares_what_was_replayed_by_then(sole: Market, alice: User) -> None:
    for _ in range(3):
        decide(sole, alice, 0.0001)

    def two_events(done: int, total: int) -> None:
        if done > 2:
            raise Enough

    found = compare(Record.of(sole), make_policy(*FIFO), progress=two_events)
    assert not found.whole
    assert (found.decided, found.changed) == (2, 2)


def test_a_policy_that_could_not_run_on_the_servers_is_refused_by_field(alice: User) -> None:
    market = make_market()
    decide(market, alice, 5.0)
    with pytest.raises(InvalidField):
        compared(market, "oasis")


def test_an_empty_market_has_nothing_to_replay(sole: Market) -> None:
    found = compared(sole, *FIFO)
    assert (found.rows, found.changed, found.recorded.submitted, found.recorded.acceptance) == ((), 0, 0, None)


@pytest.mark.thorough
@pytest.mark.parametrize("name", POLICIES)
def test_it_accounts_for_every_bid_under_every_policy_and_comes_back_from_json(
    name: str, market: Market, alice: User
) -> None:
    for i, value in enumerate((3.0, 900.0, 0.0001, 40.0, 900.0, 8.0)):
        utility = {"form": "step", "value": value, "deadline_s": 500} if i % 2 else {"form": "constant", "value": value}
        bid = submit(market, alice, epochs=1 + i, utility=utility)
        decision_queue.process_pending(market.pk)
        set_time(market, 70.0 * i)
        pass_slots(market.pk)
        if i == 1:
            cancel_job(Bid.objects.get(pk=bid.pk))
    book.forget()
    if name == "oasis":  # it wants servers of workers and of parameter servers apart
        with pytest.raises(InvalidField):
            compared(market, name)
        return
    found = compared(market, name, dict(PRICED) if name == "dps" else None)
    assert found.recorded.submitted == found.other.submitted == 6
    assert [ComparedBid.from_json(one) for one in found.to_json()["rows"]] == list(found.rows)
    assert (name == "dps") == (found.changed == 0)
