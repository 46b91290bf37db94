"""Weighted completion against other schedulers. `python -m benchmarks.against_baselines [--quick]`.

Measured are `search`, the default; `rescaled`, which stops at most 8 running jobs at an event; and `rolling`.

Twelve settings at the ranges of the paper's Section 7, each drawn again from several seeds: numbers of jobs, numbers of
servers and slots of arrival, with parameter servers and as rings. `--quick` divides jobs and servers by five; capacity
is a share of what the jobs drawn would ideally take, so the load stays the same. `--burst 10` lets them arrive in a
tenth of the time: the paper's setting leaves much of a cluster idle, and few jobs meet.

`--drf` compares with DRF alone, as the mean over seeds of each seed's ratio, with half its 95 % interval. *alone* has
the completions of jobs that each have the whole cluster: no plan of gangs that keep their machines is below it.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from benchmarks.arguments import count
from scheduling.analysis.fluid_drf import fluid_drf
from scheduling.batch.planner import plan_alone
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture
from scheduling.model.types import Floats
from scheduling.policies.weighted_completion import WeightedCompletion
from studies.experiments.intervals import half_width
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
PLACED, FLUID, ALONE = "drf placed", "drf fluid", "alone"
NAMES = (*BASELINES, FLUID)
MEASURES = ("completion", "flow")
WANTED = 11
"""Number of the twelve settings in which each of `OURS` has to be better than each of `BASELINES`."""

DRF_ROWS = ("search", "rescaled", ALONE)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against_baselines", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the jobs and servers, two seeds")
    parser.add_argument("--seeds", type=count, default=3, help="workloads drawn for each setting")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--burst", type=int, default=1, help="factor by which the time of arrivals is shortened")
    parser.add_argument("--drf", action="store_true", help="compare with DRF alone, with 95 %% intervals")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + (2 if arguments.quick else arguments.seeds))
    lines = drf_table if arguments.drf else table
    for line in lines(seeds, scale=5 if arguments.quick else 1, burst=arguments.burst):
        print(line, flush=True)


def table(seeds: range, *, scale: int, burst: int) -> Iterator[str]:
    """Lines of each setting: totals of ours over each other's, and in how many settings they are less."""
    yield "our sum of weight x completion (of weight x flow) over that of each other; below 1 ours is better"
    yield f"{'arch':>4} {'jobs':>5} {'servers':>7} {'slots':>5} {'ours':>8} " + " ".join(
        f"{name:>13}" for name in NAMES
    )
    ratios = []
    for setting in SETTINGS:
        smaller = shrunk(setting, scale=scale, burst=burst)
        drawn = [totals(draw(smaller, np.random.default_rng(seed))) for seed in seeds]
        total = np.sum(drawn, axis=0)
        ratios.append(total[: len(OURS), None] / total[None, len(OURS) :])
        place = place_of(smaller)
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


def drf_table(seeds: range, *, scale: int, burst: int) -> Iterator[str]:
    """Lines of each setting: ours over DRF by weight x completion, and in how many settings the mean is below 1."""
    others = (PLACED, FLUID)
    yield "our sum of weight x completion over that of DRF; below 1 ours is better"
    yield f"{'arch':>4} {'jobs':>5} {'servers':>7} {'slots':>5} {'ours':>8} " + " ".join(f"{n:>16}" for n in others)
    means, highs = [], []
    for setting in SETTINGS:
        smaller = shrunk(setting, scale=scale, burst=burst)
        ratios = np.stack([drf_ratios(draw(smaller, np.random.default_rng(seed))) for seed in seeds], axis=-1)
        half = half_width(ratios)
        if half is None:
            raise SystemExit("expected at least two seeds, got one")
        means.append(ratios.mean(axis=-1))
        highs.append(means[-1] + half)
        for name, mean_row, half_row in zip(DRF_ROWS, means[-1], half, strict=True):
            cells = " ".join(f"{mean:.3f} +- {more:.3f}" for mean, more in zip(mean_row, half_row, strict=True))
            yield f"{place_of(smaller)} {name:>8} {cells}"
    for i, name in enumerate(DRF_ROWS):
        for j, other in enumerate(others):
            ahead = sum(bool(mean[i, j] < 1) for mean in means)
            surely = sum(bool(high[i, j] < 1) for high in highs)
            yield f"{name}: ahead of {other} in {ahead} of {len(means)} settings, with the whole interval in {surely}"


def drf_ratios(work: Workload) -> Floats:
    """Sums of weight x completion of `DRF_ROWS` over those of placed and of fluid DRF, 3 x 2."""
    slots = horizon(work)
    rows = [completions(OURS[name], work, slots) for name in DRF_ROWS if name != ALONE]
    rows.append(alone(work, slots))
    others = [completions(BASELINES[PLACED], work, slots), fluid_drf(work.bids, work.inventory)]
    ours, theirs = (np.array([sums(row, work).completion for row in found]) for found in (rows, others))
    ratios: Floats = ours[:, None] / theirs
    return ratios


def alone(work: Workload, slots: int) -> dict[str, float]:
    """Completion of each job if it had the whole cluster for itself, within `slots` of its arrival."""
    done = {}
    for bid in work.bids:
        schedule = plan_alone(bid, Ledger(work.inventory, start=bid.arrival, slots=slots))
        if schedule is None:
            raise ValueError(f"expected a schedule of job {bid.id} alone within {slots} slots, got none")
        done[bid.id] = float(schedule.completion)
    return done


def shrunk(setting: Setting, *, scale: int, burst: int) -> Setting:
    """Return the setting with jobs and servers divided by `scale`, and the time of arrivals by `burst`."""
    jobs, servers = setting.jobs // scale, setting.servers // scale
    return replace(setting, jobs=jobs, servers=servers, slots=setting.slots // burst)


def place_of(setting: Setting) -> str:
    """Return the first cells of a row."""
    return f"{setting.architecture:>4} {setting.jobs:>5} {setting.servers:>7} {setting.slots:>5}"


if __name__ == "__main__":
    main()
