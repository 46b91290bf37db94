"""Quality of the orders and modes of weighted completion. `python -m benchmarks.weighted_quality`.

Over the proven optimum on tiny instances: two servers, two types of each machine, jobs that arrive in slots 1 to 4 with
weights of 1 to 59. "known jobs" plans the jobs that are there optimally at every arrival. Over rolling at the ranges of
the paper's Section 7 with 50 servers.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from benchmarks.arguments import count
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats
from scheduling.policies.simulation import simulate
from scheduling.policies.weighted_completion import WeightedCompletion
from studies.workloads.generated.weighted_completion import Setting, draw
from tests.scheduling.twins.weighted_cases import random_instance
from tests.scheduling.twins.weighted_optimum import least_total, total_without_foresight

ROLLING_SLOTS, INTERVAL_SLOTS = 300, 1600
"""Horizons: the paper's, and one beyond every printed interval here."""
POLICIES = {
    "search": WeightedCompletion(),
    "rescaled": WeightedCompletion(rescaled=8),
    "rolling": WeightedCompletion(mode="rolling"),
    "by weight": WeightedCompletion(mode="rolling", order="weight"),
    "by arrival": WeightedCompletion(mode="rolling", order="arrival"),
    "lambda 10": WeightedCompletion(mode="rolling", lambda_=10.0),
    "chained": WeightedCompletion(mode="interval", batches="chained"),
    "literal": WeightedCompletion(mode="interval"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weighted_quality", description=__doc__)
    parser.add_argument("--instances", type=count, default=300, help="tiny instances drawn for each row")
    parser.add_argument("--seeds", type=count, default=5, help="runs at the paper's ranges for each row")
    arguments = parser.parse_args()
    for lines in (over_optimum(arguments.instances, seed=7), over_rolling(arguments.seeds)):
        for line in lines:
            print(line, flush=True)
        print()


def over_optimum(instances: int, *, seed: int) -> Iterator[str]:
    """Mean and greatest total of weight x completion over the optimum, a row for each architecture and size."""
    yield f"{'over optimum':>11} " + " ".join(f"{name:>12}" for name in (*POLICIES, "known jobs"))
    for architecture in Architecture:
        for jobs in (3, 4, 5):
            rng = np.random.default_rng(seed)
            rows = []
            for _ in range(instances):
                drawn = random_instance(rng, architecture, jobs=jobs)
                found = totals(drawn.bids, drawn.inventory, POLICIES)
                found = np.append(found, total_without_foresight(drawn.bids, drawn.inventory))
                # Rescaled jobs can be better than this optimum, which stops none; the first total is without them.
                rows.append(found / least_total(drawn.bids, drawn.inventory, at_most=float(found[0])))
            cells = zip(np.mean(rows, axis=0), np.max(rows, axis=0), strict=True)
            yield f"{architecture:>5} {jobs:>5} " + " ".join(f"{mean:5.3f} ({most:.2f})" for mean, most in cells)


def over_rolling(seeds: int) -> Iterator[str]:
    """Mean total of weight x completion over that of rolling, a row for each architecture and load."""
    unpriced = [name for name, policy in POLICIES.items() if policy.lambda_ == 1]
    yield f"{'over rolling':>17} " + " ".join(f"{name:>12}" for name in unpriced)
    for architecture in Architecture:
        for jobs, slots in ((100, 150), (100, 50), (60, 1)):
            setting = Setting(jobs=jobs, slots=slots, servers=50, architecture=architecture)
            rows = []
            for seed in range(1, seeds + 1):
                drawn = draw(setting, np.random.default_rng(seed))
                found = totals(drawn.bids, drawn.inventory, unpriced)
                rows.append(found / found[unpriced.index("rolling")])
            yield f"{architecture:>5} {jobs:>5} {slots:>5} " + " ".join(f"{x:12.3f}" for x in np.mean(rows, axis=0))


def totals(bids: Sequence[Bid], inventory: Inventory, names: Iterable[str]) -> Floats:
    """Weight x completion of all jobs under each policy."""
    in_order = sorted(bids, key=lambda bid: bid.arrival)
    found = []
    for policy in (POLICIES[name] for name in names):
        slots = INTERVAL_SLOTS if policy.mode == "interval" else ROLLING_SLOTS
        done = simulate(policy, in_order, Ledger(inventory, start=0, slots=slots), until=10 * slots).done
        found.append(sum(bid.utility.value * (done[bid.id].completion or 0) for bid in bids))
    return np.array(found)


if __name__ == "__main__":
    main()
