"""Replays of a day and a week in the format of Philly: `python -m benchmarks.philly [--day FILE] [--week FILE]`.

The day has 3,022 jobs for 160 GPUs, the week 12,751 for 320, in slots of 10 minutes; values are drawn from a seed. By
default their rows are synthetic (`benchmarks/philly_rows.py`). FILE is another trace of jobs, such as the published
day of 2017-10-12 and the week from 2017-10-09 on: docs/users/traces.md says how to get them.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import philly_rows
from benchmarks.arguments import trace_of_jobs
from cluster.traces.formats import open_trace, read_trace
from cluster.traces.records import TraceJob
from scheduling.kernels import warm_up_all
from scheduling.registry import make_policy
from studies.workloads.simulation.replay import Replayed, ReplayParameters, horizon_for, replay
from studies.workloads.traces.machines import gpu_cluster
from studies.workloads.traces.mapping import Rules, to_bids

SLOT_S = 600
P50_MS, P95_MS = 5.0, 20.0
"""Limits of the time of one decision."""


@dataclass(frozen=True)
class Slice:
    """A part of the trace, its number of GPUs, and the target number of FIFO's decisions per processor second."""

    name: str
    drawn: philly_rows.Slice
    """Settings from which its rows are drawn if no file is named."""
    gpus: int
    fifo: float


DAY = Slice("day", philly_rows.DAY, 160, 2000.0)
WEEK = Slice("week", philly_rows.WEEK, 320, 1500.0)
Files = Mapping[str, Path | None]
"""The file of each slice by its name; None or nothing for rows that are drawn."""
PRICING = 300.0
"""Target number of decisions of a pricing policy in a second of processor time."""
BASELINE = 300.0
"""Target number of decisions of a baseline in a second of processor time, as in public simulators."""
PRICED = ("dps", "oasis")
BASELINES = ("srtf", "tiresias", "tiresias_l", "antman")
AT_ONCE = ("drf", "rrh")
"""These share out or forecast all jobs at every event: only their decisions have a target. So does Dorm, by an integer
program: it takes hours, and is not run here."""
RUNS = ((DAY, "fifo"), (WEEK, "fifo"), *((DAY, name) for name in (*PRICED, *BASELINES, *AT_ONCE)))
QUICK = RUNS[:1]


def wanted_of(cut: Slice, policy: str) -> float:
    """Return the target number of a policy's decisions on a slice in a second of processor time."""
    if policy == "fifo":
        return cut.fifo
    if policy in AT_ONCE:
        return 0.0
    return PRICING if policy in PRICED else BASELINE


def jobs_of(cut: Slice, path: Path | None) -> tuple[TraceJob, ...]:
    """The jobs of a file, or drawn ones, which are read as a file would be."""
    if path is not None:
        return open_trace(path, TraceJob).rows
    drawn = philly_rows.draw_jobs(cut.drawn, np.random.default_rng(cut.drawn.seed))
    return read_trace(philly_rows.text_of(drawn).splitlines(), TraceJob).rows


def source_of(cut: Slice, path: Path | None) -> str:
    """Return a description of a slice, and which of its figures are real."""
    if path is not None:
        return f"{cut.name}: {path.name}, arrivals and sizes as there, values synthetic"
    return f"{cut.name}: synthetic rows in the format of Philly, values synthetic, too"


def measure(cut: Slice, policy: str, *, jobs: Sequence[TraceJob], seed: int) -> Replayed:
    """Replay a slice under a policy with its defaults."""
    inventory = gpu_cluster(cut.gpus, apart=policy == "oasis")
    traced = to_bids(jobs, inventory, Rules(slot_s=SLOT_S), np.random.default_rng(seed))
    return replay(
        traced, make_policy(policy, {}), inventory, ReplayParameters(SLOT_S, horizon_for(traced, slot_s=SLOT_S))
    )


def table(*, files: Files, quick: bool, seed: int) -> Iterator[str]:
    """One line a run: what was decided in a second of the processor, and how long decisions took by the clock."""
    runs = QUICK if quick else RUNS
    yield "replays of a trace, slots of 10 minutes"
    rows: dict[str, Sequence[TraceJob]] = {}
    for cut, _ in runs:
        if cut.name not in rows:
            rows[cut.name] = jobs_of(cut, files.get(cut.name))
            yield source_of(cut, files.get(cut.name))
    quantiles = f"{'p50 ms':>7} {'p95 ms':>7} {'p99 ms':>7}"
    yield f"{'slice':>5} {'jobs':>6} {'GPUs':>5} {'policy':>10} {'jobs/CPU-s':>11} {quantiles}"
    for cut, policy in runs:
        found = measure(cut, policy, jobs=rows[cut.name], seed=seed)
        jobs, timing = found.outcome.jobs, found.timing
        p50, p95, p99 = (float("nan") if ms is None else ms for ms in timing.decisions_ms)
        rate, wanted = timing.jobs_per_cpu_s or 0.0, wanted_of(cut, policy)
        kept = rate >= wanted and p50 <= P50_MS and p95 <= P95_MS
        target = f"target {wanted:,.0f}, " if wanted else ""
        verdict = f"{target}p50 {P50_MS:g}, p95 {P95_MS:g}: {'kept' if kept else 'BROKEN'}"
        size = f"{cut.name:>5} {jobs.submitted:6,d} {cut.gpus:5d} {policy:>10}"
        yield f"{size} {rate:11,.0f} {p50:7.2f} {p95:7.2f} {p99:7.2f}  {verdict}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.philly", description=__doc__)
    parser.add_argument("--day", type=trace_of_jobs, metavar="FILE", help="a trace of jobs to replay as the day")
    parser.add_argument("--week", type=trace_of_jobs, metavar="FILE", help="a trace of jobs to replay as the week")
    parser.add_argument("--quick", action="store_true", help="only the day under FIFO")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warm_up_all()
    files = {"day": options.day, "week": options.week}
    for line in table(files=files, quick=options.quick, seed=options.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
