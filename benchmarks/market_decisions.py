"""Cost of a decision under each market on 300 servers: `python -m benchmarks.market_decisions [--bids 1200]`.

Synthetic bids over 150 slots by the ranges of the papers: for DPS, completions and competition 300 edge servers and a
cloud, for OASiS 150 servers with workers and 150 with parameter servers. Every market begins idle and without a past,
with its defaults; rejected bids stand where they do, and the horizon of 150 slots rolls. A decision is that of an
arriving bid with its entry in the book and refits of prices; a slot is all that happens as one passes: ends, plans,
and tries of standing bids. Milliseconds of one core.
"""

import argparse
import time
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.arguments import count
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.kernels import warm_up_all
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import rule_for
from scheduling.registry import make_policy
from studies.workloads.generated import dps, oasis
from studies.workloads.generated.system import Workload

POLICIES = ("dps", "oasis", "completions", "competition")
SERVERS, SLOTS = 300, 150
P50_MS, P99_MS = 5.0, 30.0
"""Limits of the time of one decision."""


def drawn(policy: str, bids: int, seed: int) -> Workload:
    """Return servers and bids by the ranges of the policy's paper, those of DPS for policies without a paper."""
    rng = np.random.default_rng(seed)
    if policy == "oasis":
        return oasis.draw(oasis.Setting(servers=SERVERS // 2, slots=SLOTS, jobs=bids, arrivals=1.0), rng)
    return dps.draw(dps.Setting(servers=SERVERS, slots=SLOTS, jobs=bids, arrivals=1.0), rng)


def measure(policy: str, work: Workload) -> tuple[list[float], list[float], int]:
    """Return the milliseconds of each decision and of each slot, and the number of bids that are admitted."""
    made = make_policy(policy, {})
    going = Simulation(made, RunningBook(Ledger(work.inventory, start=0, slots=SLOTS)), rule=rule_for(made))
    decisions, slots = [], []
    for bid in work.bids:
        while going.book.now < bid.arrival:
            began = time.thread_time()
            going.advance(going.book.now + 1)
            slots.append(1e3 * (time.thread_time() - began))
        began = time.thread_time()
        going.arrive(bid)
        decisions.append(1e3 * (time.thread_time() - began))
    return decisions, slots, sum(decision.admitted for decision in going.decisions)


def table(policies: Sequence[str], *, bids: int, seed: int) -> Iterator[str]:
    """A line for each policy."""
    yield f"{'policy':>12} {'bids':>6} {'admitted':>8} " + " ".join(
        f"{name + ' ' + what:>13}" for name in ("decision", "slot") for what in ("p50", "p99", "max")
    )
    for policy in policies:
        decisions, slots, admitted = measure(policy, drawn(policy, bids, seed))
        cells = " ".join(f"{value:13.1f}" for times in (decisions, slots) for value in quantiles(times))
        p50, p99, _ = quantiles(decisions)
        kept = "kept" if p50 <= P50_MS and p99 <= P99_MS else "BROKEN"
        yield f"{policy:>12} {bids:6,d} {admitted:8,d} {cells}  p50 <= {P50_MS:g}, p99 <= {P99_MS:g}: {kept}"


def quantiles(times: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, what 99 of 100 stay within, and the most."""
    median, high = np.quantile(times, (0.5, 0.99))
    return float(median), float(high), max(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.market_decisions", description=__doc__)
    parser.add_argument("--bids", type=count, default=1200, help="bids over 150 slots")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=POLICIES, default=POLICIES, help="these policies")
    options = parser.parse_args()
    warm_up_all()
    for line in table(options.only, bids=options.bids, seed=options.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
