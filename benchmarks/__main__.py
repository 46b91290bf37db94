"""`python -m benchmarks [--quick]`: prints tables of what a decision costs; writes nothing."""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks import elastic, offline, overload, philly, preemptive, split_learning, weighted
from benchmarks.arguments import trace_of_jobs
from benchmarks.decision import Measurement, measure
from benchmarks.twin import compare
from scheduling.kernels import warm_up_all
from scheduling.policies.dps import Dps
from studies.workloads.generated.dps import PAPER, Setting

MEDIAN_MS, P99_MS, SATURATED_P99_MS = 10.0, 60.0, 250.0
"""Limits of the time of one decision at the paper's scale, on one core."""
HEADER = (
    f"{'T':>5} {'S':>5} {'jobs':>5} {'price':>8} {'median':>8} {'p99':>8}"
    f" {'max':>8} {'wall p99':>9} {'admitted':>9} {'used':>6}"
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds, smaller samples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--day", type=trace_of_jobs, metavar="FILE", help="a trace of jobs to replay instead of a drawn day"
    )
    parser.add_argument(
        "--week", type=trace_of_jobs, metavar="FILE", help="a trace of jobs to replay instead of a drawn week"
    )
    arguments = parser.parse_args()
    began = time.perf_counter()
    warm_up_all()
    print(f"kernels ready after {time.perf_counter() - began:.1f} s (paid once per process, before any request)\n")
    quick, seed = arguments.quick, arguments.seed
    files = {"day": arguments.day, "week": arguments.week}
    tables = (
        decision_table(sample=30 if quick else 200, quick=quick, seed=seed),
        compare(decisions=5 if quick else 20, seed=seed),
        elastic.table(decisions=15 if quick else 60, quick=quick, seed=seed),
        elastic.compare(decisions=3 if quick else 10, quick=quick, seed=seed),
        weighted.tables(quick=quick, seed=seed),
        preemptive.tables(quick=quick, seed=seed),
        split_learning.tables(quick=quick, seed=seed),
        offline.tables(quick=quick, seed=seed),
        philly.table(files=files, quick=quick, seed=seed),
        overload.table(quick=quick, seed=seed),
    )
    for table in tables:
        for line in table:
            print(line, flush=True)
        print()


def decision_table(*, sample: int, quick: bool, seed: int) -> Iterator[str]:
    """One line a setting: the two with a limit first, then cost against T, S and jobs."""
    yield "one DPS decision with counter-offer, commit and index refresh: ms of one core (wall: by the clock)"
    yield HEADER
    for price in ("quantile", "paper"):
        for filled, limits in ((150, (MEDIAN_MS, P99_MS)), (600, (float("inf"), SATURATED_P99_MS))):
            run = measure(PAPER, Dps(price=price), filled=filled, measured=sample, seed=seed)
            kept = run.quantile(0.5) <= limits[0] and run.quantile(0.99) <= limits[1]
            wanted = f"p99 <= {limits[1]:g}" + (f", median <= {limits[0]:g}" if filled == 150 else "")
            yield line_of(PAPER, price, run) + f"  {wanted}: {'kept' if kept else 'BROKEN'}"
    scales = [] if quick else [replace(PAPER, slots=t) for t in (50, 300)]
    scales += [replace(PAPER, servers=s) for s in ((50,) if quick else (50, 100, 600))]
    for setting in scales:
        yield line_of(setting, "quantile", measure(setting, Dps(), filled=150, measured=sample // 2, seed=seed))
    for filled in (0,) if quick else (0, 50, 300, 1200):
        run = measure(PAPER, Dps(), filled=filled, measured=sample // 2, seed=seed)
        yield line_of(PAPER, "quantile", run)
    run = measure(PAPER, Dps(), filled=20 if quick else 150, measured=sample // 2, seed=seed, per_slot=2.0)
    yield line_of(PAPER, "quantile", run) + "  the horizon rolls, 2 bids a slot"


def line_of(setting: Setting, price: str, run: Measurement) -> str:
    """One row of the table."""
    times = f"{run.quantile(0.5):8.1f} {run.quantile(0.99):8.1f} {run.milliseconds.max():8.1f}"
    times += f" {np.quantile(run.wall, 0.99):9.1f}"
    admitted = f"{run.admitted}/{len(run.milliseconds)}"
    size = f"{setting.slots:5d} {setting.servers + 1:5d} {run.filled:5d}"
    return f"{size} {price:>8} {times} {admitted:>9} {run.full:6.0%}"


if __name__ == "__main__":
    main()
