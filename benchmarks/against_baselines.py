"""Weighted completion against other schedulers. `python -m benchmarks.against_baselines [--quick]`.

Measured are `search`, the default; `rescaled`, which stops at most 8 running jobs at an event; and `rolling`.

Twelve settings at the ranges of the paper's Section 7, each drawn again from several seeds: numbers of jobs, numbers of
servers and slots of arrival, with parameter servers and as rings. `--quick` divides jobs and servers by five; capacity
is a share of what the jobs drawn would ideally take, so the load stays the same. `--burst 10` lets them arrive in a
tenth of the time: the paper's setting leaves much of a cluster idle, and few jobs meet.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from scheduling.analysis.fluid_drf import fluid_drf
from scheduling.model.bid import Architecture
from scheduling.model.types import Floats
from scheduling.policies.weighted_completion import WeightedCompletion
from studies.papers.weighted_completion_comparison import BASELINES, completions, horizon, sums
from studies.workloads.generated.system import Workload
from studies.workloads.generated.weighted_completion import Setting, draw

SIZES = ((50, 150, 300), (100, 150, 300), (150, 150, 300), (100, 50, 150), (100, 150, 150), (100, 150, 100))
"""Jobs, servers, slots in which they arrive; Figures 2, 3, 5 and 6 vary the first two."""
SETTINGS = tuple(
    Setting(jobs=jobs, servers=servers, slots=slots, architecture=architecture)
    for architecture in Architecture
    for jobs, servers, slots in SIZES
)
OURS: Mapping[str, WeightedCompletion] = {
    "search": WeightedCompletion(),
    "rescaled": WeightedCompletion(rescaled=8),
    "rolling": WeightedCompletion(mode="rolling"),
}
FLUID = "drf fluid"
NAMES = (*BASELINES, FLUID)
MEASURES = ("completion", "flow")
WANTED = 11
"""Number of the twelve settings in which each of `OURS` has to be better than each of `BASELINES`."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against_baselines", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the jobs and servers, two seeds")
    parser.add_argument("--seeds", type=int, default=3, help="workloads drawn for each setting")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--burst", type=int, default=1, help="factor by which the time of arrivals is shortened")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + (2 if arguments.quick else arguments.seeds))
    for line in table(seeds, scale=5 if arguments.quick else 1, burst=arguments.burst):
        print(line, flush=True)


def table(seeds: range, *, scale: int, burst: int) -> Iterator[str]:
    """Lines of each setting: totals of ours over each other's, and in how many settings they are less."""
    yield "our sum of weight x completion (of weight x flow) over that of each other; below 1 ours is better"
    yield f"{'arch':>4} {'jobs':>5} {'servers':>7} {'slots':>5} {'ours':>8} " + " ".join(
        f"{name:>13}" for name in NAMES
    )
    ratios = []
    for setting in SETTINGS:
        jobs, servers = setting.jobs // scale, setting.servers // scale
        smaller = replace(setting, jobs=jobs, servers=servers, slots=setting.slots // burst)
        drawn = [totals(draw(smaller, np.random.default_rng(seed))) for seed in seeds]
        total = np.sum(drawn, axis=0)
        ratios.append(total[: len(OURS), None] / total[None, len(OURS) :])
        place = f"{setting.architecture:>4} {smaller.jobs:>5} {smaller.servers:>7} {smaller.slots:>5}"
        for name, row in zip(OURS, ratios[-1], strict=True):
            cells = " ".join(f"{completion:5.2f} ({flow:5.2f})" for completion, flow in row)
            yield f"{place} {name:>8} {cells}"
    better = (np.array(ratios) < 1).sum(axis=0)
    for ours, counted in zip(OURS, better, strict=True):
        for i, measure in enumerate(MEASURES):
            kept = bool((counted[: len(BASELINES), i] >= WANTED).all())
            counts = ", ".join(f"{name} {count}" for name, count in zip(NAMES, counted[:, i], strict=True))
            verdict = f"; wanted {WANTED} but for fluid: {'kept' if kept else 'BROKEN'}"
            yield f"{ours}, weighted {measure}: better than {counts} of {len(SETTINGS)}{verdict}"


def totals(work: Workload) -> Floats:
    """Sums of weight x completion and of weight x flow: ours, the others, fluid; policies x 2."""
    slots = horizon(work)
    rows = [completions(policy, work, slots) for policy in (*OURS.values(), *BASELINES.values())]
    rows.append(fluid_drf(work.bids, work.inventory))
    found = (sums(row, work) for row in rows)
    return np.array([(one.completion, one.flow) for one in found])


if __name__ == "__main__":
    main()
