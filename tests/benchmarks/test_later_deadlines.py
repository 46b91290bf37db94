"""Bidders of `benchmarks.later_deadlines`: they pay no more than with the truth, and nothing else changes before."""

from math import ceil

import pytest

from benchmarks.later_deadlines import World, gains, payoff, run, with_deadlines
from benchmarks.market_on_traces.workloads import make_workload, own_sources


@pytest.fixture(scope="module")
def world() -> World:
    (source,) = (one for one in own_sources() if one.name == "philly/day.csv")
    work = make_workload(source, 2.0, "by_size", 0, seeds=1, jobs=16)
    runs = {bid.id: ceil(work.traced.runs_s[bid.id] / work.plan.slot_s) for bid in work.traced.bids}
    horizon = work.plan.horizon
    return World(with_deadlines(work.traced.bids, runs, horizon=horizon, seed=5), work.inventory, horizon)


def test_a_bidder_who_knows_the_offers_pays_no_more_when_it_is_decided(world: World) -> None:
    truth = run(world)
    for number in range(3, len(world.bids), 4):
        lie = run(world, liar=number)
        assert lie.decisions[:number] == truth.decisions[:number]
        if truth.decisions[number].admitted:
            assert lie.decisions[number].payment <= truth.decisions[number].payment + 1e-9


def test_gains_are_differences_of_true_payoffs(world: World) -> None:
    truth, gain = gains(world)
    base = run(world)
    assert truth.tolist() == [payoff(base, world, number) for number in range(3, len(world.bids), 4)]
    assert (truth + gain)[0] == payoff(run(world, liar=3), world, 3)
