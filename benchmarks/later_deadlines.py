"""Payoff of bidders who state a later deadline under `completions`. `python -m benchmarks.later_deadlines`.

A promise of a later slot costs less, and the job may be complete just as early by the plan of that moment. Jobs may be
moved to as late as their promised slots, so a bidder who states a later deadline may have a completion after the true
one.

In each world every fourth bidder in turn, and nobody else, states another deadline than the true one: of 1, 1.25, 1.5,
2, 3 and 5 times the true time and no deadline at all, the one with the least payment whose planned completion is in
time. Such a bidder knows what each statement would cost, as a quote says it. Printed is what all of them gain:
true value at the real completion less payment, less the same of the world in which everybody states the truth.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from benchmarks.arguments import count
from benchmarks.market_on_traces.workloads import make_workload, own_sources
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats
from scheduling.model.utility import Constant, Step
from scheduling.policies.completions import Completions
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import StandingRule

SOURCES = ("philly/day.csv", "shockwave/dynamic.trace", "gavel/steady.trace")
LOADS = (1.0, 2.0)
TIMES = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Deadlines that may be stated, over the true one."""
TOLERANCE = 1e-6


@dataclass(frozen=True)
class World:
    """Bids with deadlines, servers, and slots."""

    bids: Sequence[Bid]
    inventory: Inventory
    horizon: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.later_deadlines", description=__doc__)
    parser.add_argument("--seeds", type=count, default=2, help="worlds of each trace and load")
    parser.add_argument("--jobs", type=count, default=50, help="jobs of each world")
    arguments = parser.parse_args()
    for line in table(seeds=arguments.seeds, jobs=arguments.jobs):
        print(line, flush=True)


def table(*, seeds: int, jobs: int) -> Iterator[str]:
    """Yield a line for each world, and one for all."""
    yield (
        f"{'trace':>24} {'load':>5} {'seed':>4} {'liars':>5} {'gain':>4} {'lose':>4} {'truth':>8} {'lie':>8}"
        f" {'best':>7} {'worst':>7}"
    )
    sources = {source.name: source for source in own_sources()}
    rows, truths = [], 0.0
    for name in SOURCES:
        for load in LOADS:
            for seed in range(seeds):
                work = make_workload(sources[name], load, "by_size", seed, seeds=seeds, jobs=jobs)
                runs = {bid.id: ceil(work.traced.runs_s[bid.id] / work.plan.slot_s) for bid in work.traced.bids}
                bids = with_deadlines(work.traced.bids, runs, horizon=work.plan.horizon, seed=5 + seed)
                truth, gain = gains(World(bids, work.inventory, work.plan.horizon))
                rows.append(gain)
                truths += float(truth.sum())
                yield f"{name:>24} {load:>5} {seed:>4} {_row(gain, float(truth.sum()))}"
    yield f"{'all worlds':>24} {'':>5} {len(rows):>4} {_row(np.concatenate(rows), truths)}"


def with_deadlines(bids: Sequence[Bid], runs: dict[str, int], *, horizon: int, seed: int) -> list[Bid]:
    """Return the bids with deadlines of 1.5 to 6 times their run times, and two slots more."""
    rng = np.random.default_rng(seed)
    return [
        replace(bid, utility=Step(bid.utility.value, min(horizon - 1, int(runs[bid.id] * rng.uniform(1.5, 6)) + 2)))
        for bid in bids
    ]


def gains(world: World) -> tuple[Floats, Floats]:
    """Return the payoffs of every fourth bidder if everybody states the truth, and what a later deadline adds."""
    base, chosen = run(world), range(3, len(world.bids), 4)
    truth = np.array([payoff(base, world, number) for number in chosen])
    lie = np.array([payoff(run(world, liar=number), world, number) for number in chosen])
    return truth, lie - truth


def run(world: World, *, liar: int | None = None) -> Simulation:
    """Run a world in which this bidder, by the place of the bid, states the cheapest deadline."""
    ledger = Ledger(world.inventory, start=0, slots=world.horizon)
    found = Simulation(Completions(), RunningBook(ledger), rule=StandingRule())
    for number, bid in enumerate(world.bids):
        found.advance(bid.arrival)
        found.arrive(cheapest(bid, found, world.horizon) if number == liar else bid)
    end = found.book.now + world.horizon
    while found.book.jobs and found.book.now < end:
        found.advance(found.book.now + 1)
    return found


def cheapest(bid: Bid, now: Simulation, horizon: int) -> Bid:
    """Return the bid with the statement that costs least among those whose planned completion is in time."""
    if not isinstance(bid.utility, Step):
        raise TypeError(f"expected a deadline, got {bid.utility}")
    value, deadline = bid.utility.value, bid.utility.deadline
    stated = [replace(bid, utility=Step(value, min(horizon, int(deadline * times)))) for times in TIMES]
    stated.append(replace(bid, utility=Constant(value)))
    offers = []
    for place, one in enumerate(stated):
        decision = now.policy.decide(one, now.book.view())
        schedule = decision.schedule
        if schedule is not None and bid.utility.at(schedule.completion - bid.arrival) > 0:
            offers.append((decision.payment, place))
    return stated[min(offers)[1]] if offers else bid


def payoff(found: Simulation, world: World, number: int) -> float:
    """Return the true value of a bid at its real completion, less what it pays."""
    bid, decision = world.bids[number], found.decisions[number]
    job = found.done.get(bid.id)
    worth = 0.0 if job is None or job.completion is None else bid.utility.at(job.completion - bid.arrival)
    return worth - decision.payment


def _row(gain: Floats, truth: float) -> str:
    more, less = int((gain > TOLERANCE).sum()), int((gain < -TOLERANCE).sum())
    return (
        f"{len(gain):>5} {more:>4} {less:>4} {truth:>8.2f} {truth + gain.sum():>8.2f}"
        f" {gain.max():>7.3f} {gain.min():>7.3f}"
    )


if __name__ == "__main__":
    main()
