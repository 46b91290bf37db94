"""Budgets of teams: what is granted, held, charged and refunded, and bids that cost more than is left."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from numpy.random import Generator, default_rng

from accounts import teams
from accounts.models import Role, Team
from auctions.counterfactual.alternatives import alternatives_of
from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.domain.credits import MILLION, MOST_CREDITS, limited, millionths
from auctions.domain.errors import NoBudget, NotGranted, WrongState
from auctions.domain.refunds import Refund
from auctions.engine import budgets, decision_queue
from auctions.engine.jobs import cancel_job, complete_job, fail_job
from auctions.engine.servers import lose_server, restore_server
from auctions.engine.slots import pass_slots
from auctions.engine.submission import quote, submit_bid
from auctions.history.audit import audit_market, audit_teams
from auctions.history.replay import replay_market
from auctions.models import (
    Bid,
    BidState,
    BudgetKind,
    BudgetPeriod,
    CreditEntry,
    CreditKind,
    CreditTransaction,
    Event,
    EventKind,
    Market,
)
from auctions.readings import statements
from cluster import clock
from cluster.models import Server
from scheduling.model.decision import Decision, Reason, parse
from scheduling.registry import make_policy
from tests.auctions.credits import Twin, assert_sound, limit, sums
from tests.auctions.worlds import (
    SLOT_S,
    body,
    make_cluster,
    make_market,
    make_operator,
    make_user,
    sell_out,
    set_time,
    submit,
)
from tests.draws import fresh_seed, rounds
from tests.rows import taken_back

NOON: Final = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """A wall clock that stands still until it is set."""

    def set_to(at: datetime) -> None:
        monkeypatch.setattr(timezone, "now", lambda: at)

    set_to(NOON)
    return set_to


@pytest.fixture
def team(db: None) -> Team:
    return teams.create_team("vision", "Vision")


@pytest.fixture
def bella(team: Team) -> User:
    """A member of the team."""
    return member(team, "bella")


@pytest.fixture
def olga(db: None) -> User:
    return make_operator()


def member(team: Team, name: str) -> User:
    user = make_user(name)
    teams.add_member(team, user, Role.BIDDER)
    return User.objects.get(pk=user.pk)


def decided(market: Market, owner: User, value: float = 100.0, **changes: Any) -> Bid:
    bid = submit(market, owner, value, **changes)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


def price_of_one(market: Market) -> float:
    """What the next bid would pay."""
    return quote(market=market, body=body()).decision.payment


@pytest.mark.usefixtures("moment")
def test_a_bid_that_costs_more_than_its_team_has_left_is_rejected_in_words(
    market: Market, team: Team, bella: User
) -> None:
    price = price_of_one(market)
    limit(team, price * 1.5)
    first, second = decided(market, bella), decided(market, bella)
    assert (first.state, first.payment) == (BidState.RUNNING, price)
    assert second.state == BidState.REJECTED
    receipt = parse(second.decision.receipt)
    assert receipt["reason"] == Reason.OVER_BUDGET
    assert receipt["explanation"].startswith("Its best schedule costs ")
    assert "more than its team has left in this period" in receipt["explanation"]
    assert sums(team)["left"] == pytest.approx(price * 0.5, abs=1e-6)
    assert_sound(market)


@pytest.mark.usefixtures("moment")
def test_a_payment_of_exactly_what_is_left_is_admitted_and_a_millionth_more_is_not(
    market: Market, team: Team, bella: User
) -> None:
    exact = millionths(price_of_one(market))
    budgets.set_budget(team, period=BudgetKind.MONTH, amount=exact - 1)
    assert decided(market, bella).state == BidState.REJECTED
    budgets.grant(team, 1, by=make_operator())
    assert decided(market, bella).state == BidState.RUNNING
    assert sums(team)["left"] == 0
    assert_sound(market)


@pytest.mark.usefixtures("moment")
def test_bids_without_a_team_or_of_a_team_without_a_budget_have_no_limit(
    market: Market, team: Team, bella: User, alice: User
) -> None:
    other = teams.create_team("other", "Other")
    limit(other, 0.0)
    assert {decided(market, owner).state for owner in (alice, bella)} == {BidState.RUNNING}
    assert not Event.objects.filter(payload__has_key="credits").exists()
    assert not CreditTransaction.objects.filter(kind=CreditKind.HELD).exists()
    assert_sound(market)


@pytest.mark.usefixtures("moment")
def test_a_completed_job_is_charged_what_it_held(market: Market, team: Team, bella: User) -> None:
    limit(team, 1000.0)
    bid = decided(market, bella)
    assert bid.payment
    held = {"granted": 1000.0, "held": bid.payment, "charged": 0.0, "refunded": 0.0, "left": 1000.0 - bid.payment}
    assert sums(team) == pytest.approx(held, abs=1e-6)
    set_time(market, 11 * SLOT_S)
    pass_slots(market.pk)
    bid.refresh_from_db()
    assert bid.state == BidState.COMPLETED
    assert sums(team) == pytest.approx({**held, "held": 0.0, "charged": bid.payment}, abs=1e-6)
    assert_sound(market)


@pytest.mark.usefixtures("moment")
@pytest.mark.parametrize("end", ["cancel", "complete", *Refund])
def test_a_job_that_ends_before_is_charged_and_refunded_what_the_market_pays_back(
    market: Market, team: Team, bella: User, end: str
) -> None:
    limit(team, 1000.0)
    bid = decided(market, bella)
    assert bid.start_slot is not None
    set_time(market, (bid.start_slot + 0.5) * SLOT_S)
    pass_slots(market.pk)
    if end == "cancel":
        cancel_job(bid)
    elif end == "complete":
        complete_job(bid)
    else:
        fail_job(bid, "a disk broke", refund=Refund(end))
    bid.refresh_from_db()
    paid = bid.payment or 0.0
    assert (bid.refund == 0) == (end in ("cancel", "complete", "none")) or end == Refund.UNDELIVERED
    expected = {"held": 0.0, "charged": paid, "refunded": bid.refund, "left": 1000.0 - paid + bid.refund}
    assert sums(team) == pytest.approx({"granted": 1000.0, **expected}, abs=1e-6)
    if end == Refund.FULL:
        assert sums(team)["left"] == 1000.0
    assert_sound(market)


@pytest.mark.usefixtures("moment")
def test_a_job_whose_server_is_lost_is_paid_back_to_the_team(db: None, team: Team, bella: User) -> None:
    market = make_market(make_cluster(servers=1, units=4, horizon=3))
    limit(team, 1000.0)
    bid = decided(market, bella, utility={"form": "step", "value": 100.0, "deadline_s": 200})
    for server in Server.objects.filter(cluster=market.cluster):
        lose_server(server, reason="fire", by=None)
    bid.refresh_from_db()
    assert (bid.state, bid.refund) == (BidState.FAILED, bid.payment)
    assert sums(team)["left"] == 1000.0
    assert_sound(market)


def test_credits_of_a_period_are_not_those_of_the_next_and_refunds_go_to_the_period_that_paid(
    market: Market, team: Team, bella: User, moment: Callable[[datetime], None]
) -> None:
    price = price_of_one(market)
    limit(team, price * 1.2)
    first = decided(market, bella)
    assert decided(market, bella).state == BidState.REJECTED
    moment(datetime(2026, 12, 1, tzinfo=UTC))
    second = decided(market, bella)
    assert second.state == BidState.RUNNING
    fail_job(first, "a disk broke", refund=Refund.FULL)
    assert sums(team)["left"] == pytest.approx(price * 1.2 - (second.payment or 0.0), abs=1e-6)
    periods = BudgetPeriod.objects.order_by("starts_on")
    assert [str(one.starts_on) for one in periods] == ["2026-11-01", "2026-12-01"]
    moment(NOON)
    assert sums(team)["left"] == pytest.approx(price * 1.2, abs=1e-6)
    assert_sound(market)


@pytest.mark.usefixtures("moment")
def test_a_standing_bid_is_admitted_when_its_team_can_pay_and_not_before(team: Team, bella: User, olga: User) -> None:
    market = sell_out(make_market(make_cluster(servers=1, units=4)))
    bid = decided(market, bella, 1e6, standing=True)
    assert bid.state == BidState.STANDING
    limit(team, 0.0)
    for job in Bid.objects.filter(state__in=(BidState.PLANNED, BidState.RUNNING)):
        cancel_job(job)
    set_time(market, 4.5 * SLOT_S)
    pass_slots(market.pk)
    bid.refresh_from_db()
    turn = Event.objects.filter(kind=EventKind.SLOT).latest("version").payload["standing"]
    assert (bid.state, bid.tries, turn["credits"]) == (BidState.STANDING, 1, {str(bid.sequence): 0})
    assert_sound(market)
    budgets.grant(team, 1000 * MILLION, by=olga)
    set_time(market, 8.5 * SLOT_S)
    pass_slots(market.pk)
    bid.refresh_from_db()
    assert bid.state in (BidState.PLANNED, BidState.RUNNING)
    assert Event.objects.get(bid=bid, kind=EventKind.ADMITTED).payload["credits"] == 1000 * MILLION
    assert sums(team)["held"] == pytest.approx(bid.payment, abs=1e-6)
    assert_sound(market)


@pytest.mark.usefixtures("moment")
def test_a_quote_says_what_a_decision_would(market: Market, team: Team, bella: User, alice: User) -> None:
    limit(team, 0.001)
    offered = quote(market=market, body=body(), bidder=bella).decision
    assert offered.reason == Reason.OVER_BUDGET
    assert offered.to_json() | {"bid_id": "1"} == parse(decided(market, bella).decision.receipt)
    assert quote(market=market, body=body(), bidder=alice).decision.admitted
    assert not BudgetPeriod.objects.exclude(team=team).exists()


@pytest.mark.usefixtures("moment")
def test_a_counterfactual_under_the_same_policy_changes_nothing(market: Market, team: Team, bella: User) -> None:
    limit(team, price_of_one(market) * 1.5)
    for _ in range(4):
        decided(market, bella)
    assert Bid.objects.filter(state=BidState.REJECTED).exists()
    found = compare(Record.of(market), make_policy("dps", market.policies.get().parameters))
    assert (found.decided, found.changed) == (4, 0)


@pytest.mark.usefixtures("moment")
def test_other_statements_of_a_bid_are_limited_as_it_was_and_no_truthfulness_is_claimed(
    market: Market, team: Team, bella: User
) -> None:
    free = decided(market, bella)
    assert alternatives_of(free, caller=bella.pk).truthful
    limit(team, 0.0)
    bid = decided(market, bella)
    found = alternatives_of(bid, caller=bella.pk)
    assert not found.truthful
    assert not any(one.admitted for one in (*found.by_value, *found.by_time))


@pytest.mark.usefixtures("moment")
def test_credits_that_were_not_spent_can_be_taken_back_and_no_others(team: Team, olga: User) -> None:
    with pytest.raises(NoBudget):
        budgets.grant(team, MILLION, by=olga)
    limit(team, 5.0)
    budgets.grant(team, -4 * MILLION, by=olga, note="a mistake")
    with pytest.raises(NotGranted, match="left in this period: 1"):
        budgets.grant(team, -MILLION - 1, by=olga)
    assert sums(team)["left"] == 1.0
    budgets.grant(team, -MILLION, by=olga)
    assert sums(team)["left"] == 0.0


@pytest.mark.usefixtures("moment")
def test_a_change_holds_for_the_period_under_way_until_its_first_decision_or_grant(team: Team, olga: User) -> None:
    limit(team, 0.0)
    limit(team, 5.0)
    assert sums(team)["left"] == 5.0
    budgets.grant(team, MILLION, by=olga)
    limit(team, 9.0)
    assert sums(team)["left"] == 6.0


def test_a_period_has_at_most_the_largest_number_of_credits(team: Team, olga: User) -> None:
    limit(team, MOST_CREDITS - 1.0)
    with pytest.raises(NotGranted, match="at most 1,000,000,000"):
        budgets.grant(team, MILLION + 1, by=olga)
    budgets.grant(team, MILLION, by=olga)
    assert sums(team)["left"] == MOST_CREDITS
    budgets.remove_budget(team)
    assert statements.statement_of(team, clock.now()) is None
    assert [one for one in audit_teams() if not one.passed] == []


@pytest.mark.usefixtures("moment")
def test_bids_without_a_team_take_no_query_more_and_a_batch_of_one_team_a_few(
    market: Market, team: Team, bella: User, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 60.0)
    limit(team, 1e6)
    decided(market, bella)
    counts: list[int] = []
    for owner in (alice, bella, bella):
        for _ in range(8 if len(counts) < 2 else 16):
            submit(market, owner, 1.0)
        with CaptureQueriesContext(connection) as asked:
            decision_queue.decide_batch(market.pk)
        counts.append(len(asked))
    assert counts == [counts[0], counts[0] + 5, counts[0] + 5]


TAMPERED: Final[dict[str, Callable[[Bid], object]]] = {
    "a hold is gone": lambda bid: (
        CreditEntry.objects.filter(transaction__bid=bid).delete(),
        CreditTransaction.objects.filter(bid=bid).delete(),
    ),
    "an entry is larger": lambda bid: CreditEntry.objects.filter(transaction__bid=bid, amount__gt=0).update(
        amount=F("amount") + 1
    ),
    "a hold is of another bid": lambda bid: CreditTransaction.objects.filter(bid=bid).update(
        bid=Bid.objects.exclude(pk=bid.pk).get()
    ),
    "a period was granted more": lambda _: BudgetPeriod.objects.update(granted=F("granted") + 1),
    "a period has less taken": lambda _: BudgetPeriod.objects.update(taken=F("taken") - 1),
    "a grant is gone": lambda _: (
        CreditEntry.objects.filter(transaction__kind=CreditKind.GRANTED).delete(),
        CreditTransaction.objects.filter(kind=CreditKind.GRANTED).delete(),
        BudgetPeriod.objects.update(granted=0),
    ),
    "an entry is of another account": lambda bid: CreditEntry.objects.filter(transaction__bid=bid, amount__gt=0).update(
        account="charged"
    ),
    "an admission had less left": lambda bid: Event.objects.filter(bid=bid, kind=EventKind.ADMITTED).update(
        payload={"credits": 1}
    ),
    "an admission had no limit": lambda bid: Event.objects.filter(bid=bid, kind=EventKind.ADMITTED).update(payload={}),
}


@pytest.mark.usefixtures("moment")
def test_the_audit_finds_what_was_changed(market: Market, team: Team, bella: User) -> None:
    limit(team, price_of_one(market) * 1.5)
    bid, rejected = decided(market, bella), decided(market, bella)
    assert rejected.state == BidState.REJECTED
    assert_sound(market)
    for what, tamper in TAMPERED.items():
        with taken_back():
            tamper(bid)
            assert [one for one in (*audit_market(market), *audit_teams()) if not one.passed], what


def test_a_rejection_for_the_budget_keeps_what_prices_learn_from_the_bid() -> None:
    admitted = Decision.admit("bid", None, "", slot=1, value=9.0, payment=5.0, standalone_value=9.0, density=(3.0, 2.0))
    rejected = limited(replace(admitted, offer_factors=(0.25, 0.25)), millionths(4.0))
    assert rejected.reason is Reason.OVER_BUDGET
    assert rejected.counted == ((0.75, 0.5), 2.25)
    assert Decision.from_json(rejected.to_json()) == rejected


@pytest.mark.usefixtures("moment")
def test_a_rejection_for_the_budget_is_replayed_from_what_was_left_on_record(
    market: Market, team: Team, bella: User
) -> None:
    limit(team, 0.0)
    bid = decided(market, bella)
    assert replay_market(market).mismatches == ()
    Event.objects.filter(bid=bid, kind=EventKind.REJECTED).update(payload={})
    assert [one.sequence for one in replay_market(market).mismatches] == [bid.sequence]


@pytest.mark.thorough
@pytest.mark.usefixtures("moment")
@pytest.mark.parametrize("number", range(rounds(1)))
def test_any_sequence_leaves_what_a_slow_twin_computes(db: None, olga: User, number: int) -> None:
    rng, twin = default_rng(fresh_seed()), Twin()
    markets = [make_market(make_cluster(name, units=2, horizon=8), refit_every=3) for name in ("lab", "hall")]
    groups = [teams.create_team(name, name.title()) for name in ("vision", "speech", "free")]
    people = [member(group, f"{group.name}-{i}") for group in groups for i in range(2)] + [make_user("alone")]
    for group in groups[:2]:
        twin.left[group.pk] = limit(group, float(rng.choice([0.05, 1.0, 20.0]))).amount
    slots = [0, 0]
    for _ in range(70):
        _act(rng, markets, groups, people, slots, twin, olga)
        twin.read()
        for group in groups[:2]:
            assert sums(group)["left"] * MILLION == pytest.approx(twin.left[group.pk], abs=0.5)
    assert Event.objects.filter(payload__has_key="credits").exists()
    assert_sound(*markets)


def _act(
    rng: Generator,
    markets: list[Market],
    groups: list[Team],
    people: list[User],
    slots: list[int],
    twin: Twin,
    olga: User,
) -> None:
    which = int(rng.integers(2))
    market = markets[which]
    match rng.choice(["submit"] * 4 + ["decide"] * 3 + ["time", "end", "grant", "server"]):
        case "submit":
            standing = {"standing": True} if rng.integers(2) else {}
            sent = body(float(rng.choice([2.0, 20.0, 200.0])), epochs=int(rng.integers(1, 6)), **standing)
            submit_bid(cluster=market.cluster, owner=people[int(rng.integers(len(people)))], body=sent)
        case "decide":
            decision_queue.process_pending(market.pk, at_most=int(rng.integers(1, 6)))
        case "time":
            slots[which] += int(rng.integers(1, 5))
            set_time(market, (slots[which] + 0.5) * SLOT_S)
            pass_slots(market.pk)
        case "end":
            jobs = list(Bid.objects.filter(market=market, state__in=(BidState.PLANNED, BidState.RUNNING)))
            if jobs:
                _end(rng, jobs[int(rng.integers(len(jobs)))])
        case "grant":
            team = groups[int(rng.integers(2))]
            amount = int(rng.integers(1, MILLION))
            budgets.grant(team, amount, by=olga)
            twin.left[team.pk] += amount
        case "server":
            server = Server.objects.filter(cluster=market.cluster).order_by("pk")[int(rng.integers(3))]
            (lose_server if rng.integers(2) else restore_server)(server, reason="a disk broke", by=None)


def _end(rng: Generator, bid: Bid) -> None:
    try:
        match rng.choice(["cancel", "complete", "fail"]):
            case "cancel":
                cancel_job(bid)
            case "complete":
                complete_job(bid)
            case "fail":
                fail_job(bid, "a disk broke", refund=Refund(rng.choice(list(Refund))))
    except WrongState:
        pass  # slots have begun since, or it has not started


def test_periods_are_those_of_the_calendar(moment: Callable[[datetime], None], team: Team) -> None:
    for kind, first, days in (("week", "2026-11-23", 7), ("month", "2026-11-01", 30), ("year", "2026-01-01", 365)):
        limit(team, 1.0, BudgetKind(kind))
        found = statements.statement_of(team, NOON)
        assert found is not None
        assert (str(found.starts_on), found.ends_on - found.starts_on) == (first, timedelta(days=days))
