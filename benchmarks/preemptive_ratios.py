"""`python -m benchmarks.preemptive_ratios`: both competitive ratios, with and without speed augmentation.

Jobs and servers as in the paper's Fig. 12 and 13, where its problem (4) is small enough to be solved. *Fractional*:
fractional flow time over the least there is (ILP 4 relaxed). *JCT*: time of jobs over the same relaxation and half a
chunk's time for each chunk, which no schedule without migration is below. Last, the share of jobs whose dual variable
alpha is not feasible as printed, so that Lemma 2 is wrong there.
"""

import argparse
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from benchmarks.arguments import count
from scheduling.preemptive.bounds import least
from studies.papers.preemptive_comparison import competitive_ratios
from studies.workloads.generated.preemptive import Setting, draw

SIZES = ((5, 25), (15, 25), (25, 25), (25, 5), (25, 45))
"""Jobs and servers."""
SPEEDS = (Fraction(1), Fraction(6, 5), Fraction(3, 2))
SPAN, STEP = 30, 0.5


def table(seeds: range, *, rules: Sequence[str]) -> Iterator[str]:
    """A line for each rule, size and speed: means over seeds."""
    yield f"{'rule':>7} {'jobs':>5} {'servers':>8} {'speed':>6} {'fractional':>11} {'JCT':>7} {'Lemma 2 fails':>14}"
    for jobs, servers in SIZES:
        works = [draw(Setting(jobs=jobs, servers=servers, span=SPAN), np.random.default_rng(seed)) for seed in seeds]
        bounds = [least(work.bids, work.inventory, step=STEP) for work in works]
        for rule in rules:
            for speed in SPEEDS:
                rows = []
                for work, bound in zip(works, bounds, strict=True):
                    found = competitive_ratios(work, bound, rule=rule, speed=speed)
                    rows.append((found.fractional, found.jct, found.infeasible))
                fractional, jct, fails = np.mean(rows, axis=0)
                numbers = f"{fractional:11.3f} {jct:7.3f} {fails:14.0%}"
                yield f"{rule:>7} {jobs:>5} {servers:>8} {float(speed):>6.1f} {numbers}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preemptive_ratios", description=__doc__)
    parser.add_argument("--seeds", type=count, default=3, help="workloads drawn for each size")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    arguments = parser.parse_args()
    for line in table(range(arguments.seed, arguments.seed + arguments.seeds), rules=("jobmax", "paper")):
        print(line, flush=True)


if __name__ == "__main__":
    main()
