"""What stating something else would have brought, on the same book."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from scheduling.analysis.truthfulness import TIME_FACTORS, Misreport, stated_times, stated_values, stretched, time_of
from scheduling.book.state import Book
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Reason
from scheduling.model.schedule import Schedule
from scheduling.model.types import Json
from scheduling.model.utility import Constant, Inverse, Linear, PiecewiseLinear, Sigmoid, Step, Table, Utility
from scheduling.policies import posted_price
from scheduling.policies.base import Grant
from scheduling.policies.preemptive import Preemptive
from scheduling.policies.weighted_completion import WeightedCompletion
from scheduling.registry import make_policy
from tests.draws import integers, rounds
from tests.scheduling.policy_settings import each_exact_auction, each_policy
from tests.scheduling.worlds import Run, world_for

TIMED: list[Utility] = [
    Step(5.0, 4.0),
    Linear(6.0, 2.0),
    Inverse(3.0, 1.0, 7.0),
    Sigmoid(9.0, 0.5, 4.0),
    PiecewiseLinear(8.0, ((0.0, 1.0), (4.0, 0.5), (6.0, 0.0))),
]


def last_of(name: str, parameters: Json, seed: int) -> tuple[Bid, Book]:
    drawn = world_for(make_policy(name, parameters), seed)
    going = Run(drawn.ledger(), make_policy(name, parameters), [])
    for bid in drawn.bids[:-1]:
        going.decide(bid)
    return drawn.bids[-1], going.book()


def truth(curve: list[Misreport]) -> Misreport:
    return next(point for point in curve if point.factor == 1.0)


@each_exact_auction
@settings(max_examples=rounds(2, longer=75))
@given(seed=integers(0, 2**32 - 1))
def test_no_stated_value_or_time_earns_more_than_the_truth(name: str, parameters: Json, seed: int) -> None:
    policy = make_policy(name, parameters)
    bid, book = last_of(name, parameters, seed)
    values, times = stated_values(policy, bid, book), stated_times(policy, bid, book)
    most = truth(values).payoff
    assert most is not None
    assert all(point.payoff is not None for point in values + times)
    best = max(point.payoff for point in values + times if point.payoff is not None)
    assert best <= most + 1e-9 * bid.utility.value
    assert values[0].payoff == 0


def bought(decision: Decision) -> tuple[int | None, int | None]:
    """First slot, and the completion that the bid pays for: the promised slot, if there is one."""
    schedule = decision.schedule
    return (None, None) if schedule is None else (schedule.start, decision.due or schedule.completion)


@each_policy
@settings(max_examples=rounds(1, longer=90))
@given(seed=integers(0, 2**32 - 1))
def test_the_truth_gets_what_the_policy_decides_and_nothing_is_changed(name: str, parameters: Json, seed: int) -> None:
    policy = make_policy(name, parameters)
    bid, book = last_of(name, parameters, seed)
    used = book.ledger.used.copy()
    decision = policy.decide(bid, book)
    seen = truth(stated_values(policy, bid, book, [0.5, 1.0, 2.0]))
    assert (seen.admitted, seen.payment) == (decision.admitted, decision.payment)
    assert (seen.start, seen.completion) == bought(decision)
    assert np.array_equal(book.ledger.used, used)


@each_policy
@settings(max_examples=rounds(1, longer=90))
@given(seed=integers(0, 2**32 - 1))
def test_each_statement_gets_what_the_policy_decides_about_it(name: str, parameters: Json, seed: int) -> None:
    policy = make_policy(name, parameters)
    bid, book = last_of(name, parameters, seed)
    timed = Bid(**{**vars(bid), "utility": Step(bid.utility.value, 6.0)})
    asked = [(point, bid.utility.scaled(point.factor), bid) for point in stated_values(policy, bid, book)]
    for own in (bid, timed):
        asked += [(point, stretched(own.utility, point.factor), own) for point in stated_times(policy, own, book)]
    for point, stated, own in asked:
        decision = policy.decide(Bid(**{**vars(own), "utility": stated}), book)
        assert (point.admitted, point.payment) == (decision.admitted, decision.payment)
        assert (point.start, point.completion) == bought(decision)


@each_exact_auction
def test_amplitudes_between_two_that_bring_the_same_schedule_are_not_asked_about(
    name: str, parameters: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(name, parameters)
    bid, book = last_of(name, parameters, 7)
    asked: list[Bid] = []
    grant = posted_price.grant

    def counted(bid: Bid, posted: posted_price.PricedLedger) -> Grant | None:
        asked.append(bid)
        return grant(bid, posted)

    monkeypatch.setattr(posted_price, "grant", counted)
    points = stated_values(policy, bid, book)
    schedules = {(point.admitted, point.start, point.completion, point.payment) for point in points}
    assert len(points) == 31
    assert len(asked) <= 3 + 5 * 2 * (len(schedules) - 1)  # halves of halves, on both sides of the truth
    assert len(asked) < 31
    asked.clear()
    timed = Bid(**{**vars(bid), "utility": Step(bid.utility.value, 40.0)})
    assert len(stated_times(policy, timed, book)) == 30
    assert len(asked) < 30


def test_a_policy_that_uses_no_weights_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bid, book = last_of("preemptive", {}, 7)
    asked: list[Bid] = []
    decide = Preemptive.decide

    def noted(self: Preemptive, bid: Bid, book: Book) -> Decision:
        asked.append(bid)
        return decide(self, bid, book)

    monkeypatch.setattr(Preemptive, "decide", noted)
    points = stated_values(make_policy("preemptive", {}), bid, book)
    assert len({(point.start, point.completion) for point in points}) == 1
    assert len(asked) == 1


def test_weights_that_give_a_job_the_same_turn_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bid, book = last_of("weighted_completion", {"mode": "rolling"}, 7)
    asked: list[Bid] = []
    grants = WeightedCompletion.grants

    def noted(self: WeightedCompletion, book: Book) -> Callable[[Bid], Grant | None]:
        granted = grants(self, book)

        def counted(bid: Bid) -> Grant | None:
            asked.append(bid)
            return granted(bid)

        return counted

    monkeypatch.setattr(WeightedCompletion, "grants", noted)
    assert len(stated_values(make_policy("weighted_completion", {"mode": "rolling"}), bid, book)) == 31
    assert len(asked) <= len(book.jobs) + 2  # its turns among the others, and no weight at all
    asked.clear()
    priced = make_policy("weighted_completion", {"mode": "rolling", "lambda": 2.0})
    assert len(stated_values(priced, bid, book)) == len(asked) == 31


def rejected_for_its_price(name: str) -> tuple[Bid, Book]:
    policy = make_policy(name, {})
    for seed in range(100):
        bid, book = last_of(name, {}, seed)
        cheap = Bid(**{**vars(bid), "utility": bid.utility.scaled(1e-6)})
        if policy.decide(cheap, book).reason is Reason.PRICE:
            return cheap, book
    raise AssertionError("no bid was rejected for its price")


@pytest.mark.parametrize("name", ["dps", "oasis"])
def test_no_counter_offer_is_sought_for_a_statement_that_is_rejected(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sought: list[Bid] = []

    def counter_offer(bid: Bid, posted: posted_price.PricedLedger, cheapest: Schedule) -> None:
        sought.append(bid)

    bid, book = rejected_for_its_price(name)
    monkeypatch.setattr(posted_price, "counter_offer", counter_offer)
    assert not make_policy(name, {}).decide(bid, book).admitted
    assert sought == [bid]
    points = stated_values(make_policy(name, {}), bid, book, [0.5, 1.0])
    assert [point.admitted for point in points] == [False, False]
    assert sought == [bid]


@pytest.mark.parametrize("utility", TIMED, ids=lambda utility: utility.form)
def test_a_stretched_utility_states_its_time_times_the_factor_and_the_same_value(utility: Utility) -> None:
    before = time_of(utility)
    assert before is not None
    for factor in TIME_FACTORS:
        other = stretched(utility, factor)
        assert time_of(other) == pytest.approx(before * factor)
        assert other.value == pytest.approx(utility.value)
    assert stretched(utility, 1.0) == utility


@pytest.mark.parametrize("utility", [Constant(3.0), Table((3.0, 1.0)), Sigmoid(3.0, 1.0, 0.0), Linear(3.0, 0.0)])
def test_a_utility_without_a_time_has_no_curve_over_times(utility: Utility) -> None:
    bid, book = last_of("dps", {}, 7)
    assert time_of(utility) is None
    assert stated_times(make_policy("dps", {}), Bid(**{**vars(bid), "utility": utility}), book) == []


def test_a_time_beyond_what_a_bid_may_state_is_left_out() -> None:
    bid, book = last_of("dps", {}, 7)
    late = Bid(**{**vars(bid), "utility": Step(3.0, 5e8)})
    assert [point.factor for point in stated_times(make_policy("dps", {}), late, book, [1.0, 3.0])] == [1.0]
