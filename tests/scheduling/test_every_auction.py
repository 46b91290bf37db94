"""What holds for every auction: bids decided one after another against the same slots."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from scheduling.book.state import Job
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Reason, canonical, parse
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement
from scheduling.model.types import Floats, Json
from scheduling.model.utility import Step
from scheduling.policies.base import Policy
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.registry import make_policy
from tests.draws import integers, rounds
from tests.scheduling.policy_settings import (
    each_auction,
    each_auction_in_money,
    each_auction_of_machines,
    each_exact_auction,
)
from tests.scheduling.test_every_policy import assert_kept
from tests.scheduling.worlds import SLOTS, Run, World, world_for

seeds = integers(0, 2**32 - 1)
quick = settings(max_examples=rounds(1, longer=150))


def run(drawn: World, policy: Policy) -> tuple[Run, list[Decision]]:
    going = Run(drawn.ledger(), policy, [])
    return going, [going.decide(bid) for bid in drawn.bids]


def assert_whole(bid: Bid, decision: Decision, inventory: Inventory) -> None:
    schedule = decision.schedule
    assert schedule is not None
    assert schedule.completion <= SLOTS
    assert_kept(Job(bid, schedule.placements, schedule.completion), inventory, pause=0)


@each_auction
@quick
@given(seed=seeds)
def test_every_bid_is_either_admitted_at_a_profit_or_rejected_with_a_reason(
    name: str, parameters: Json, seed: int
) -> None:
    drawn = world_for(make_policy(name, parameters), seed)
    _, decisions = run(drawn, make_policy(name, parameters))
    assert [decision.bid_id for decision in decisions] == [bid.id for bid in drawn.bids]
    for decision in decisions:
        assert decision.explanation
        assert len(decision.density) == len(drawn.inventory.resources)
        if decision.admitted:
            assert decision.schedule is not None
            assert decision.reason is None
            assert decision.counter is None
            assert 0 <= decision.payment < decision.value <= decision.standalone_value * (1 + 1e-12)
            assert decision.payoff == decision.value - decision.payment
        else:
            assert decision.schedule is None
            assert decision.value == decision.payment == decision.payoff == 0
            # No amplitude helps a bid whose only schedules are complete when hardly any of the value is left.
            hopeless = "whatever value is stated" in decision.explanation
            assert (decision.counter is not None or hopeless) == (decision.reason is Reason.PRICE)


@each_auction_of_machines
@quick
@given(seed=seeds)
def test_the_payment_is_the_posted_price_of_what_is_held(name: str, parameters: Json, seed: int) -> None:
    drawn = world_for(make_policy(name, parameters), seed)
    going = Run(drawn.ledger(), make_policy(name, parameters), [])
    for bid in drawn.bids:
        prices = going.policy.prices(going.book())
        decision = going.decide(bid)
        placements = () if decision.schedule is None else decision.schedule.placements
        held = sum(posted_cost(placement, prices, going) for placement in placements)
        assert decision.payment == pytest.approx(held, rel=1e-12, abs=0)


def posted_cost(p: Placement, prices: Floats, going: Run) -> float:
    window = prices[p.start - going.ledger.start : p.end - going.ledger.start, p.server]
    return float(p.count * (window @ p.machine(going.ledger.inventory).demand).sum())


@each_auction
@quick
@given(seed=seeds)
def test_the_same_book_gives_the_same_bytes(name: str, parameters: Json, seed: int) -> None:
    receipts = []
    for _ in range(2):
        _, decisions = run(world_for(make_policy(name, parameters), seed), make_policy(name, parameters))
        receipts.append([canonical(decision.to_json()) for decision in decisions])
    assert receipts[0] == receipts[1]
    assert [canonical(Decision.from_json(parse(text)).to_json()) for text in receipts[0]] == receipts[0]


@each_auction
@quick
@given(seed=seeds)
def test_a_book_rebuilt_from_its_schedules_gives_the_same_bytes(name: str, parameters: Json, seed: int) -> None:
    drawn = world_for(make_policy(name, parameters), seed)
    going, decisions = run(replace(drawn, bids=drawn.bids[:-1]), make_policy(name, parameters))
    fresh = Run(drawn.ledger(), going.policy, list(going.past))
    fresh.ledger.restore(d.schedule for d in decisions if d.schedule is not None)
    last = drawn.bids[-1]
    assert canonical(fresh.decide(last).to_json()) == canonical(going.decide(last).to_json())


@each_auction
@quick
@given(seed=seeds, factor=integers(10, 500).map(lambda tenths: tenths / 10), deadline=integers(SLOTS // 2, SLOTS))
def test_the_payment_does_not_depend_on_the_stated_value_given_the_schedule(
    name: str, parameters: Json, seed: int, factor: float, deadline: int
) -> None:
    drawn = world_for(make_policy(name, parameters), seed)
    going, _ = run(replace(drawn, bids=drawn.bids[:-1]), make_policy(name, parameters))
    bid, book = drawn.bids[-1], going.book()
    # Worth the same until a deadline: the best schedule is then the cheapest in time, whatever the value.
    bid = replace(bid, utility=Step(bid.utility.value, float(deadline)))
    modest = going.policy.decide(bid, book)
    if not modest.admitted:
        modest = going.policy.decide(replace(bid, utility=bid.utility.scaled(1e6)), book)
    boasting = going.policy.decide(replace(bid, utility=bid.utility.scaled(factor * max(1.0, modest.value))), book)
    event("admitted" if modest.admitted else "does not fit")
    assert boasting.admitted == modest.admitted
    if modest.schedule is not None and boasting.schedule is not None:
        # Of schedules that cost the same, either may be granted.
        assert boasting.schedule.completion == modest.schedule.completion
    if boasting.due != modest.due:
        # A promise is what is sold. A later one costs at most this share of the greatest payoff.
        least = (1.0 - parameters["later"]) * (boasting.value - modest.payment)
        assert boasting.value - boasting.payment >= least - 1e-9 * boasting.value
        return
    # Payoffs are compared, which are as exact as doubles of the size of the value.
    assert boasting.payment == pytest.approx(modest.payment, rel=1e-9, abs=1e-15 * boasting.value)


@pytest.mark.thorough
@each_auction
def test_enough_of_those_bids_are_admitted(name: str, parameters: Json) -> None:
    admitted = 0
    for seed in range(20):
        if admitted == 5:
            return
        drawn = world_for(make_policy(name, parameters), seed)
        going, _ = run(replace(drawn, bids=drawn.bids[:-1]), make_policy(name, parameters))
        rich = replace(drawn.bids[-1], utility=Step(1e6, float(SLOTS)))
        admitted += going.policy.decide(rich, going.book()).admitted
    assert admitted == 5


@each_auction
@quick
@given(seed=seeds)
def test_renaming_servers_changes_no_payoff(name: str, parameters: Json, seed: int) -> None:
    drawn = world_for(make_policy(name, parameters), seed)
    order = np.random.default_rng(seed).permutation(len(drawn.inventory.servers))
    position = np.argsort(order)
    swapped = replace(
        drawn.inventory,
        servers=tuple(drawn.inventory.servers[s] for s in order),
        cloud=tuple(drawn.inventory.cloud[s] for s in order),
        capacity=drawn.inventory.capacity[order],
    )
    here = Run(drawn.ledger(), make_policy(name, parameters), [])
    there = Run(World(swapped, ()).ledger(), here.policy, here.past)
    for bid in drawn.bids:
        one = here.policy.decide(bid, here.book())
        other = here.policy.decide(replace(bid, delay=tuple(bid.delay[s] for s in order)), there.book())
        assert other.payoff == pytest.approx(one.payoff, rel=1e-9, abs=1e-9)
        assert other.standalone_value == pytest.approx(one.standalone_value)
        assert other.reason == one.reason
        # Both go on from the same schedule: of equally good ones they may choose different ones.
        here.past.append(one)
        if one.schedule is not None:
            here.ledger.commit(one.schedule)
            moved = [replace(p, server=int(position[p.server])) for p in one.schedule.placements]
            there.ledger.commit(replace(one.schedule, placements=tuple(moved)))


@each_auction_in_money
@quick
@given(seed=seeds, factor=integers(0, 3).map((0.25, 0.5, 2.0, 1024.0).__getitem__))
def test_in_another_currency_every_sum_is_the_same_money(name: str, parameters: Json, seed: int, factor: float) -> None:
    # Powers of two: with other factors a rounding may choose another of several optimal prices of a linear program.
    policy = make_policy(name, parameters)
    priors = {key: policy.to_json()[key] * factor for key in ("initial_low", "initial_high")}
    drawn = world_for(policy, seed)
    here = Run(drawn.ledger(), policy, [])
    there = Run(drawn.ledger(), make_policy(name, {**parameters, **priors}), [])
    for bid in drawn.bids:
        one = here.policy.decide(bid, here.book())
        other = there.policy.decide(replace(bid, utility=bid.utility.scaled(factor)), there.book())
        assert other.payoff == pytest.approx(one.payoff * factor, rel=1e-9, abs=1e-9 * factor)
        assert other.standalone_value == pytest.approx(one.standalone_value * factor, rel=1e-9)
        assert other.density == pytest.approx([x * factor for x in one.density], rel=1e-9)
        if one.payoff > 1e-9:
            assert other.admitted
        if one.schedule == other.schedule:
            assert other.payment == pytest.approx(one.payment * factor, rel=1e-9)
            assert other.value == pytest.approx(one.value * factor, rel=1e-9)
        # Both go on from the same schedule: a rounding may decide between equally good ones.
        here.past.append(one)
        there.past.append(other)
        if one.schedule is not None:
            here.ledger.commit(one.schedule)
            there.ledger.commit(one.schedule)


@each_auction_of_machines
@quick
@given(seed=seeds, slots=integers(1, 4))
@example(seed=28132062, slots=1)  # one price at all uses
def test_prices_are_finite_never_negative_and_rise_with_use(name: str, parameters: Json, seed: int, slots: int) -> None:
    drawn = world_for(make_policy(name, parameters), seed)
    policy = make_policy(name, parameters)
    assert isinstance(policy, PostedPricePolicy)
    going = Run(drawn.ledger(), policy, [])
    for bid in drawn.bids:
        book = going.book()
        before, used = policy.prices(book), going.ledger.used.copy()
        # It is the same at all uses once the reserve price is that of full capacity.
        growing = np.array(policy.price_function(book).log_growth) > 0
        decision = policy.decide(bid, book)
        if decision.schedule is not None:
            going.ledger.commit(decision.schedule)
        after = policy.prices(going.book())  # with the same past
        assert np.isfinite(after).all()
        assert (before >= 0).all()
        assert (after >= before * (1 - 1e-12)).all()  # but for the last digit
        if (growing & (going.ledger.used > used).any(axis=(0, 1))).any():
            assert (after > before).any()
        going.past.append(decision)
    going.ledger.advance(slots)
    assert policy.prices(going.book()).shape == after.shape


def true_payoff(bid: Bid, decision: Decision, inventory: Inventory) -> float:
    """What a decision on a misreport earns the bid's owner: worth only if the true job is complete by then."""
    if decision.schedule is None:
        return 0.0
    try:
        assert_whole(bid, decision, inventory)
    except AssertionError:
        return -decision.payment
    complete_by = decision.due or decision.schedule.completion
    return bid.utility.at(complete_by - bid.arrival) - decision.payment


@each_exact_auction
@quick
@given(seed=seeds, data=st.data())
def test_no_misreport_earns_more_than_the_truth(name: str, parameters: Json, seed: int, data: st.DataObject) -> None:
    drawn = world_for(make_policy(name, parameters), seed)
    going, _ = run(replace(drawn, bids=drawn.bids[:-1]), make_policy(name, parameters))
    bid, book = drawn.bids[-1], going.book()
    honest = going.policy.decide(bid, book)
    late = data.draw(st.integers(0, 3))
    lies = [
        replace(bid, utility=bid.utility.scaled(data.draw(st.floats(0.1, 10.0)))),
        replace(bid, utility=Step(bid.utility.value, float(data.draw(st.integers(0, SLOTS))))),
        replace(bid, chunks=data.draw(st.integers(1, 6))),
        replace(bid, chunks=bid.chunks * 2, minibatches=max(1, bid.minibatches // 2)),
        replace(bid, arrival=bid.arrival + late, delay=tuple(max(0, d - late) for d in bid.delay)),
        replace(bid, delay=tuple(d + late for d in bid.delay)),
    ]
    for lie in lies:
        misreported = going.policy.decide(lie, book)
        assert true_payoff(bid, misreported, drawn.inventory) <= honest.payoff + 1e-9 * bid.utility.value
