"""The worth of rejected jobs on machines that stay idle. `python -m benchmarks.market_on_traces.unsold`.

A product for jobs that may be stopped at any time, cheaper than a promise, could sell idle machines to jobs that a
market rejects. On the samples of the project, at loads of 1 and more, this prints the value of what could be sold over
the market's welfare: the mean and the greatest value over samples. Jobs are taken in order of value per GPU-slot and
put into the first idle slots that hold their whole run, so it is an estimate and no bound.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from benchmarks.arguments import count
from benchmarks.market_on_traces.contenders import Contender
from benchmarks.market_on_traces.idle import IdleGpus
from benchmarks.market_on_traces.workloads import FAMILIES, Workload, make_workload, own_sources
from scheduling.kernels import warm_up_all
from scheduling.policies.standing import StandingRule
from studies.workloads.simulation.outcome import outcome_of
from studies.workloads.simulation.replay import run_trace

LOADS = (1.0, 2.0, 4.0)
SOLD_BY = ("dps", "completions")
"""Markets without servers of their own for parameter servers, as OASiS has them."""
JOBS = 100


def main() -> None:
    """Print a row for each market and family of values."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.market_on_traces.unsold", description=__doc__)
    parser.add_argument("--jobs", type=count, default=JOBS, help="largest number of jobs of a sample")
    jobs = parser.parse_args().jobs
    warm_up_all()
    for line in lines(jobs):
        print(line, flush=True)


def lines(jobs: int) -> Iterator[str]:
    """Yield the rows of a table in Markdown."""
    yield f"| market | values | {' | '.join(f'load {load:g}: mean (most)' for load in LOADS)} |"
    yield f"| --- | --- |{' --- |' * len(LOADS)}"
    for market in SOLD_BY:
        for family in FAMILIES:
            cells = []
            for load in LOADS:
                works = [make_workload(one, load, family, 0, seeds=1, jobs=jobs) for one in own_sources()]
                shares = [unsold(work, market) for work in works]
                cells.append(f"{np.mean(shares):.1%} ({max(shares):.1%})")
            yield f"| {market} | {family} | {' | '.join(cells)} |"


def unsold(work: Workload, market: str) -> float:
    """Return the value that rejected jobs would have on idle machines, over the welfare of a market.

    Raises
    ------
    ValueError
        If `market` is not one of `SOLD_BY`.
    """
    if market not in SOLD_BY:
        raise ValueError(f"market: expected {' or '.join(SOLD_BY)}, got {market!r}")
    contender = Contender(market, market, {}, StandingRule())
    run, _ = run_trace(work.traced, contender.make(), work.inventory, work.plan, standing=contender.standing)
    idle = IdleGpus(run, work.traced, work.inventory, slot_s=work.plan.slot_s)
    rejected = [bid for bid in work.traced.bids if bid.id not in idle.jobs]
    rejected.sort(key=lambda bid: -bid.utility.value / (bid.chunks * idle.lengths[bid.id]))
    value = sum(bid.utility.at(end - bid.arrival) for bid in rejected if (end := idle.take(bid)) is not None)
    welfare = outcome_of(run, work.traced, slot_s=work.plan.slot_s).welfare
    return value / welfare if welfare > 0 else 0.0


if __name__ == "__main__":
    main()
