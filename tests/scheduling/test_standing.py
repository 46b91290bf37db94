"""Standing bids: whose turn it is, until when, what a try gives, and what a sequence of tries does to truthfulness."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Reason
from scheduling.model.errors import InvalidField
from scheduling.model.example import INVENTORY, job
from scheduling.model.types import Json
from scheduling.model.utility import Constant, Step, Table
from scheduling.policies.base import Objective, Policy
from scheduling.policies.dps import Dps
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import (
    StandingBid,
    StandingRule,
    admissions_of,
    competing,
    stands,
    turns,
    with_first_offer,
)
from scheduling.registry import make_policy
from tests.draws import integers, rounds
from tests.scheduling.policy_settings import each_auction, each_exact_auction, each_policy
from tests.scheduling.test_every_policy import arriving, assert_kept, held_by
from tests.scheduling.worlds import SLOTS, world, world_for

seeds = integers(0, 2**32 - 1)
quick = settings(max_examples=rounds(1, longer=120))
HURRIED = StandingRule(every=2, most=3, longest=1.0)


def test_the_order_of_turns_depends_on_nothing_that_is_stated() -> None:
    rng = np.random.default_rng(5)
    tried = rng.integers(0, 8, 30)
    line = [
        StandingBid(n, job(float(rng.uniform(20, 90))), tried=int(slot), until=99, owner=n)
        for n, slot in enumerate(tried)
    ]
    other = [replace(one, bid=job(float(rng.uniform(20, 90)), id="other")) for one in line]
    rng.shuffle(other)
    chosen = [one.number for one in turns(line, 8, StandingRule(every=4, most=20))]
    assert [one.number for one in turns(other, 8, StandingRule(every=4, most=20))] == chosen
    assert len(chosen) == 20
    assert chosen == sorted(range(30), key=lambda n: (tried[n], n))[:20]


def test_bids_of_others_take_no_turn_from_an_owner() -> None:
    """What of one owner's bids is tried, and when, is the same whatever others have in the line."""
    rng = np.random.default_rng(6)
    rule = StandingRule(every=1, each=2)
    mine = [StandingBid(n, job(), tried=int(rng.integers(0, 8)), until=99, owner=1) for n in range(100, 105)]
    alone = [one.number for one in turns(mine, 8, rule)]
    assert len(alone) == 2
    for count in (0, 1, 50):
        others = [StandingBid(n, job(), tried=0, until=99, owner=2 + n % 3) for n in range(count)]
        found = [one.number for one in turns([*others, *mine], 8, rule)]
        assert [number for number in found if number >= 100] == alone
        assert len(found) == 2 + min(count, 6)
    few = [one.number for one in turns([*others, *mine], 8, replace(rule, most=3))]
    assert len(few) == 3, "a limit for all keeps the turn short"


@given(st.lists(st.integers(1, 6), max_size=40), st.integers(1, 12))
def test_owners_share_the_places_of_competitors_and_each_has_its_latest_bids(owners: list[int], most: int) -> None:
    standing = dict(enumerate(owners))
    chosen = competing(standing, most=most)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(most, len(owners))
    counts = Counter(standing[number] for number in chosen)
    for owner, count in Counter(owners).items():
        mine = [number for number in standing if standing[number] == owner]
        assert [number for number in chosen if standing[number] == owner] == mine[count - counts[owner] :]
        if counts[owner] < count:
            assert counts[owner] >= max(counts.values()) - 1


def test_a_turn_that_was_recorded_before_a_limit_was_a_parameter_is_read_without_it() -> None:
    recorded = {"every": 4, "most": 8, "longest": 0.5}
    assert StandingRule.from_json(recorded) == StandingRule(every=4, each=8, most=8, longest=0.5, per_age=0)
    assert StandingRule.from_json(recorded | {"each": 3}) == StandingRule(each=3, most=8, longest=0.5, per_age=0)
    for rule in (StandingRule(each=3), StandingRule(per_age=5)):
        assert StandingRule.from_json(rule.to_json()) == rule


def test_a_bid_has_no_second_turn_in_the_slot_in_which_it_was_decided() -> None:
    rule = StandingRule(every=2)
    line = [StandingBid(0, job(), tried=4, until=9, owner=0), StandingBid(1, job(), tried=3, until=9, owner=0)]
    assert [one.number for one in turns(line, 4, rule)] == [1]
    assert [one.number for one in turns(line, 6, rule)] == [1, 0]


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        (StandingRule(every=1, per_age=2), [7, 9, 13, 21, 37, 69, 133, 261]),
        (StandingRule(every=4, per_age=16), [*range(8, 69, 4), 76, 84, 92, 100, 108, 116]),
        (StandingRule(every=3, per_age=0), [*range(9, 400, 3)]),
    ],
)
def test_the_longer_a_bid_stands_the_less_often_it_is_tried(rule: StandingRule, first: list[int]) -> None:
    """From a bid that arrived in slot 5 and was decided in slot 6."""
    patient = StandingBid(0, replace(job(arrival=5), utility=Constant(5.0)), tried=6, until=999, owner=0)
    slots = []
    for now in range(6, 400):
        if turns([patient], now, rule):
            assert now == rule.next_try(arrival=5, tried=patient.tried)
            patient = replace(patient, tried=now)
            slots.append(now)
    assert slots[: len(first)] == first


def test_a_bid_stands_until_its_last_slot_or_until_it_is_worth_nothing() -> None:
    rule = StandingRule(every=1, longest=0.5)
    bid = replace(job(arrival=3), utility=Step(5.0, 4.0))
    assert rule.until(bid, horizon=20) == 13
    assert rule.until(bid, horizon=20, wanted=5) == 5
    assert rule.until(bid, horizon=20, wanted=50) == 13
    # Tried in slot 6 it is complete at slot 7 at the earliest, four slots after its arrival.
    worthless = StandingBid(0, bid, tried=3, until=13, owner=0)
    assert [now for now in range(4, 15) if turns([worthless], now, rule)] == [4, 5, 6]
    patient = replace(worthless, bid=replace(bid, utility=Constant(5.0)))
    assert [now for now in range(4, 15) if not patient.ended(now)] == list(range(4, 14))


@pytest.mark.parametrize(
    ("name", "value"),
    [("every", 0), ("most", 0), ("each", 0), ("longest", -0.5), ("every", 2.5), ("per_age", 1), ("per_age", -1)],
)
def test_a_rule_checks_itself(name: str, value: float) -> None:
    with pytest.raises(InvalidField, match=name):
        StandingRule(**{name: value})  # type: ignore[arg-type]
    assert StandingRule(**StandingRule(every=7).to_json()) == StandingRule(every=7)


def test_only_a_rejection_for_price_or_room_stands() -> None:
    rejected = {
        reason: stands(Decision.reject("job", reason, "It does not fit.", slot=0, density=())) for reason in Reason
    }
    assert {reason for reason, able in rejected.items() if able} == {Reason.PRICE, Reason.NO_ROOM}
    admitted = Decision.admit("job", None, "It waits.", slot=0, value=1.0, standalone_value=1.0, density=())
    assert not stands(admitted)


def standing_run(policy: Policy, seed: int, *, rule: StandingRule = HURRIED) -> tuple[list[Bid], Simulation]:
    drawn = world_for(policy, seed)
    bids = arriving(drawn, seed)
    run = Simulation(policy, RunningBook(Ledger(drawn.inventory, start=0, slots=SLOTS)), rule=rule)
    for bid in bids:
        run.advance(bid.arrival)
        run.arrive(bid)
    return bids, run


@each_policy
@quick
@given(seed=seeds)
def test_jobs_of_standing_bids_are_whole_and_counted_once(name: str, parameters: Json, seed: int) -> None:
    policy = make_policy(name, parameters)
    bids, run = standing_run(policy, seed)
    run.advance(120)
    assert not run.standing
    assert not run.book.jobs
    assert [decision.bid_id for decision in run.decisions] == [bid.id for bid in bids]
    assert sorted([d.bid_id for d in run.decisions if not d.admitted] + list(run.done)) == sorted(b.id for b in bids)
    assert run.book.decided == len(run.book.history) == len(run.book.offers) == len(bids)
    used = held_by(run.done.values(), run.book.ledger.inventory)
    assert (used <= run.book.ledger.inventory.capacity).all()
    for bid, decision in zip(bids, run.decisions, strict=True):
        if decision.admitted:
            assert_kept(run.done[bid.id], run.book.ledger.inventory, pause=policy.pause)
        if decision.admitted and policy.objective is Objective.WELFARE:
            assert decision.schedule is not None
            assert decision.schedule.start >= decision.slot >= bid.arrival
            complete_by = decision.due or decision.schedule.completion
            assert decision.value == bid.utility.at(complete_by - bid.arrival)
            assert 0 <= decision.payment < decision.value <= decision.standalone_value * (1 + 1e-12)


@each_auction
@pytest.mark.thorough
def test_some_bids_are_admitted_when_they_are_tried_again(name: str, parameters: Json) -> None:
    def is_admitted_later(seed: int) -> bool:
        bids, run = standing_run(make_policy(name, parameters), seed)
        run.advance(60)
        return any(d.admitted and d.slot > bid.arrival for bid, d in zip(bids, run.decisions, strict=True))

    assert any(map(is_admitted_later, range(12)))


@each_auction
@quick
@given(seed=seeds)
def test_a_try_is_the_decision_that_the_policy_makes_then(name: str, parameters: Json, seed: int) -> None:
    policy = make_policy(name, parameters)
    _, run = standing_run(policy, seed)
    run.advance(run.book.now + 1)
    view = run.view()
    for one in run.standing.values():
        decision, tried = policy.decide(one.bid, view), admissions_of(policy, view)(one.bid)
        event("admitted" if decision.admitted else "rejected")
        assert (tried is not None) == decision.admitted
        assert tried is None or tried == decision


def test_what_a_bid_offers_is_counted_once() -> None:
    policy, book = Dps(initial_low=4.6, initial_high=5.0), RunningBook(Ledger(INVENTORY, start=0, slots=8))
    bid = replace(job(9.0), utility=Table((9.0, 9.0, 9.0, 9.0, 8.0)))
    first = replace(policy.decide(bid, book.view()), offer_factors=(0.5, 0.5))
    assert first.reason is Reason.PRICE
    book.apply_decision(bid, first, bound=True)
    assert list(book.history) == [first.counted[0]] == [tuple(0.5 * one for one in first.density)]
    offered = list(book.history), list(book.offers), book.decided
    book.advance(1)
    admission = admissions_of(Dps(), book.view())(bid)
    assert admission is not None
    decision = with_first_offer(admission, first)
    book.apply_decision(bid, decision, bound=True, again=True)
    assert (list(book.history), list(book.offers), book.decided) == offered
    assert list(book.jobs) == ["job"]
    assert decision.counted == first.counted
    offer = {name: getattr(admission, name) for name in ("density", "offer_factors", "standalone_value")}
    assert replace(decision, **offer) == admission


def as_if_new(bid: Bid, now: int) -> Bid:
    """The same request, arriving now: what is left of its utility and of its upload delays."""
    waited = now - bid.arrival
    left = Table(tuple(bid.utility.at(waited + elapsed) for elapsed in range(SLOTS + 1)))
    return replace(bid, arrival=now, delay=tuple(max(0, delay - waited) for delay in bid.delay), utility=left)


@each_auction
@quick
@given(seed=seeds, waited=integers(1, 6))
def test_a_bid_that_has_waited_is_decided_like_a_new_one_with_what_is_left(
    name: str, parameters: Json, seed: int, waited: int
) -> None:
    policy = make_policy(name, parameters)
    drawn = world_for(policy, seed)
    book = RunningBook(Ledger(drawn.inventory, start=0, slots=SLOTS))
    for bid in drawn.bids[:-1]:
        book.apply_decision(bid, policy.decide(bid, book.view()), bound=policy.binding)
    book.advance(waited)
    # With strict starts a server can be used one slot after its delay, also if the delay has passed long ago.
    late = isinstance(policy, Dps) and policy.start_convention == "strict"
    bid = replace(
        drawn.bids[-1],
        delay=tuple(max(delay, waited) for delay in drawn.bids[-1].delay) if late else drawn.bids[-1].delay,
    )
    old, new = policy.decide(bid, book.view()), policy.decide(as_if_new(bid, waited), book.view())
    event("admitted" if old.admitted else "rejected")
    assert old.schedule == new.schedule
    assert (old.reason, old.payment, old.value) == (new.reason, new.payment, new.value)
    assert old.schedule is None or old.schedule.start >= waited


@each_policy
@quick
@given(seed=seeds, waited=integers(1, 6))
def test_no_policy_starts_a_bid_that_has_waited_before_now(name: str, parameters: Json, seed: int, waited: int) -> None:
    policy = make_policy(name, parameters)
    drawn = world_for(policy, seed)
    run = Simulation(policy, RunningBook(Ledger(drawn.inventory, start=0, slots=SLOTS)))
    run.advance(waited)
    for bid in drawn.bids:
        assert bid.arrival == 0
        run.arrive(bid)
    run.advance(200)
    for decision in run.decisions:
        if decision.admitted:
            start = run.done[decision.bid_id].start
            assert start is not None
            assert start >= waited
            assert_kept(run.done[decision.bid_id], drawn.inventory, pause=policy.pause)


@each_exact_auction
@quick
@given(seed=seeds, waited=integers(1, 6), factor=integers(1, 100).map(lambda tenths: tenths / 10))
def test_no_statement_in_a_single_try_earns_more_than_the_truth(
    name: str, parameters: Json, seed: int, waited: int, factor: float
) -> None:
    policy = make_policy(name, parameters)
    _, run = standing_run(policy, seed)
    run.advance(run.book.now + waited)
    for one in run.standing.values():
        payoffs = []
        for stated in (one.bid.utility, one.bid.utility.scaled(factor)):
            found = admissions_of(policy, run.book.view())(replace(one.bid, utility=stated))
            schedule = None if found is None else found.schedule
            won = 0.0 if schedule is None else one.bid.utility.at(schedule.completion - one.bid.arrival)
            payoffs.append(won - (0.0 if found is None else found.payment))
        assert payoffs[1] <= payoffs[0] + 1e-9 * one.bid.utility.value


FOUR_SLOTS = replace(job(), minibatches=2, utility=Constant(40.0))
"""Two workers need four slots."""


def payoff_of_stating(value: float) -> tuple[int | None, float]:
    """The slot in which a job that is worth 40 is admitted, and its payoff, if it states another value.

    One machine of each kind is held in slots 0 to 3, so these cost 3 a unit; the slots after them are free of charge.
    The horizon has four slots.
    """
    policy = Dps(price="paper", eta_worker=(16.0,), eta_ps=(16.0,))
    run = Simulation(policy, RunningBook(Ledger(INVENTORY, start=0, slots=4)), rule=StandingRule(every=4, longest=9.0))
    run.arrive(replace(FOUR_SLOTS, id="other", chunks=1, epochs=1, minibatches=4))
    stated = replace(FOUR_SLOTS, chunks=1, epochs=1, minibatches=4, utility=Constant(value))
    run.arrive(stated)
    run.advance(8)
    decision = run.decisions[1]
    return (decision.slot, 40.0 - decision.payment) if decision.admitted else (None, 0.0)


def test_a_sequence_of_tries_is_not_truthful() -> None:
    slot, earned = payoff_of_stating(40.0)
    assert slot == 0
    assert earned == pytest.approx(40.0 - 2 * 4 * 3.0)
    # Who states less is rejected first, and gets the slots that come into the horizon for nothing.
    assert payoff_of_stating(20.0) == (4, 40.0)


@quick
@given(seed=seeds, factor=integers(5, 100).map(lambda hundredths: hundredths / 100))
def test_at_given_prices_a_lower_statement_is_never_admitted_sooner(seed: int, factor: float) -> None:
    drawn = world(seed, kind="own")
    etas = (5.0,) * len(drawn.inventory.workers), (5.0,) * len(drawn.inventory.parameter_servers)
    policy = Dps(price="paper", eta_worker=etas[0], eta_ps=etas[1])
    bids = arriving(drawn, seed)
    slots = []
    for stated in (1.0, factor):
        run = Simulation(policy, RunningBook(Ledger(drawn.inventory, start=0, slots=SLOTS)), rule=HURRIED)
        for n, bid in enumerate(bids):
            run.advance(bid.arrival)
            run.arrive(replace(bid, utility=bid.utility.scaled(stated)) if n == 3 else bid)
        run.advance(60)
        decision = run.decisions[3]
        slots.append(decision.slot if decision.admitted else 1000)
    assert slots[1] >= slots[0]
