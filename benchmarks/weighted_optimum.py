"""Weighted completion over its proven optimum on tiny instances. `python -m benchmarks.weighted_optimum`.

Two servers, two types of each machine, jobs that arrive in slots 1 to 4 with weights of 1 to 59.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from scheduling.bid import Architecture
from scheduling.instance_weighted import WeightedInstance
from scheduling.ledger import Ledger
from scheduling.simulation import simulate
from scheduling.weighted_completion import WeightedCompletion
from tests.scheduling.twins.weighted_cases import random_instance
from tests.scheduling.twins.weighted_optimum import least_total

SLOTS = 512
"""A horizon beyond every printed interval here."""
POLICIES = {
    "rolling": WeightedCompletion(),
    "by weight": WeightedCompletion(order="weight"),
    "by arrival": WeightedCompletion(order="arrival"),
    "lambda 10": WeightedCompletion(lambda_=10.0),
    "chained": WeightedCompletion(mode="interval", batches="chained"),
    "literal": WeightedCompletion(mode="interval"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weighted_optimum", description=__doc__)
    parser.add_argument("--instances", type=int, default=300, help="drawn for each row")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    for line in table(instances=arguments.instances, seed=arguments.seed):
        print(line, flush=True)


def table(*, instances: int, seed: int) -> Iterator[str]:
    """Mean and greatest total of weight x completion over the optimum, a row for each architecture and size."""
    yield f"{'':>5} {'jobs':>5} " + " ".join(f"{name:>12}" for name in POLICIES)
    for architecture in Architecture:
        for jobs in (3, 4, 5):
            rng = np.random.default_rng(seed)
            drawn = (random_instance(rng, architecture, jobs=jobs) for _ in range(instances))
            rows = np.array([ratios(instance) for instance in drawn])
            cells = zip(rows.mean(axis=0), rows.max(axis=0), strict=True)
            yield f"{architecture:>5} {jobs:>5} " + " ".join(f"{mean:5.3f} ({most:.2f})" for mean, most in cells)


def ratios(instance: WeightedInstance) -> list[float]:
    """The total of each policy over the optimum."""
    totals = [total(instance, policy) for policy in POLICIES.values()]
    least = least_total(instance.bids, instance.inventory, at_most=min(totals))
    return [one / least for one in totals]


def total(instance: WeightedInstance, policy: WeightedCompletion) -> float:
    """Weight x completion, of all jobs."""
    bids = sorted(instance.bids, key=lambda bid: bid.arrival)
    done = simulate(policy, bids, Ledger(instance.inventory, start=1, slots=SLOTS), until=4 * SLOTS).done
    return sum(bid.utility.value * (done[bid.id].completion or 0) for bid in bids)


if __name__ == "__main__":
    main()
