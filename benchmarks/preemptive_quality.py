"""`python -m benchmarks.preemptive_quality`: total time of jobs over the no-migration optimum, on tiny instances.

Two draws. *wide*: the cloud takes from 1 slot to as long as a server for a chunk. *near*: it saves at most 2, what
transfers cost, which are the ranges of the random instances that the tests read.
"""

import argparse
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.arguments import count
from scheduling.instances.answer_preemptive import run
from scheduling.instances.preemptive import read_preemptive
from tests.scheduling.twins.preemptive_milp import optimum

LIMITS = {"marginal": 1.015, "jobmax": 1.02, "paper": 1.07}
"""Largest mean ratio, by rule."""


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """Two to five jobs of one to four chunks on up to three servers and a cloud, in whole slots."""
    kinds = int(rng.integers(1, 3))
    servers = [
        {"workers": rng.integers(0, kinds, rng.integers(1, 3)).tolist(), "pss": [0]} for _ in range(rng.integers(1, 4))
    ]
    arrivals = np.cumsum(rng.integers(0, 4, rng.integers(2, 6))).tolist()
    jobs = []
    for i, arrival in enumerate(arrivals):
        slow = int(rng.integers(1, 6))
        jobs.append(
            {
                "id": i,
                "r": arrival,
                "D": int(rng.integers(1, 5)),
                "worker_type": int(rng.integers(kinds)),
                "p0": slow,
                "p1": int(rng.integers(1, slow + 1)),
                "delta": rng.integers(0, 4, len(servers)).tolist(),
                "delta_cloud": int(rng.integers(4, 9)),
            }
        )
    return {"servers": servers, "cloud": True, "jobs": jobs}


def draw_near(rng: np.random.Generator) -> dict[str, Any]:
    """Three or four jobs of one to three chunks on two or three servers and a cloud, in whole slots."""
    servers = [
        {"workers": rng.integers(0, 2, rng.integers(1, 3)).tolist(), "pss": [0]} for _ in range(rng.integers(2, 4))
    ]
    jobs = []
    for i, arrival in enumerate(sorted(rng.integers(0, 6, rng.integers(3, 5)).tolist())):
        fast = int(rng.integers(1, 5))
        jobs.append(
            {
                "id": i,
                "r": arrival,
                "D": int(rng.integers(1, 4)),
                "worker_type": int(rng.integers(2)),
                "p0": fast + int(rng.integers(0, 3)),
                "p1": fast,
                "delta": rng.integers(0, 4, len(servers)).tolist(),
                "delta_cloud": int(rng.integers(4, 7)),
            }
        )
    return {"servers": servers, "cloud": True, "jobs": jobs}


Draw = Callable[[np.random.Generator], dict[str, Any]]
DRAWS: dict[str, Draw] = {"wide": draw, "near": draw_near}


def total(document: dict[str, Any], rule: str) -> Fraction:
    """Sum of completion - arrival under a rule, slots."""
    instance = read_preemptive(document)
    ends = run(instance, rule).completion
    pairs = zip(ends, document["jobs"], strict=True)
    return sum((end - Fraction(job["r"]) for end, job in pairs if end is not None), Fraction(0))


def ratios(rng: np.random.Generator, instances: int, draw: Draw = draw) -> dict[str, list[float]]:
    """Total over the optimum of every instance, by rule."""
    found: dict[str, list[float]] = {rule: [] for rule in LIMITS}
    for _ in range(instances):
        document = draw(rng)
        totals = {rule: total(document, rule) for rule in LIMITS}
        # In a schedule that is no worse in total, no job takes longer than all do together here.
        horizon = int(document["jobs"][-1]["r"] + min(totals.values()) - len(document["jobs"]) + 1)
        best = optimum(document, horizon)
        for rule, value in totals.items():
            found[rule].append(float(value) / best)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preemptive_quality", description=__doc__)
    parser.add_argument("--instances", type=count, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draw", choices=sorted(DRAWS), default="wide")
    arguments = parser.parse_args()
    found = ratios(np.random.default_rng(arguments.seed), arguments.instances, DRAWS[arguments.draw])
    drawn = f"{arguments.instances} tiny instances, {arguments.draw}, seed {arguments.seed}"
    print(f"total time over the no-migration optimum, {drawn}")
    for rule, values in found.items():
        mean, limit = np.mean(values), LIMITS[rule]
        said = f"  mean <= {limit:g}: {'kept' if mean <= limit else 'BROKEN'}"
        best = np.mean(np.array(values) < 1 + 1e-9)
        print(f"{rule:>8}: mean {mean:.4f}, max {max(values):.3f}, best in {best:.0%}{said}")


if __name__ == "__main__":
    main()
