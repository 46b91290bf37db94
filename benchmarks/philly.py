"""Replays of a day and a week of Microsoft's Philly: `python -m benchmarks.philly [--traces DIR]`.

The day has 3,022 jobs for 160 GPUs, the week 12,751 for 320, in slots of 10 minutes; values are drawn from a seed. The
traces are not part of the project: by default they are looked for beside it.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cluster.traces.formats import open_trace
from cluster.traces.records import TraceJob
from scheduling.kernels import warm_up
from scheduling.registry import make_policy
from studies.replays.replay import Plan, Replayed, horizon_for, replay
from studies.traces.machines import gpu_cluster
from studies.traces.mapping import Rules, to_bids

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces" / "philly"
SLOT_S = 600
P50_MS, P95_MS = 5.0, 20.0
"""What a decision may take."""


@dataclass(frozen=True)
class Slice:
    """A file, the GPUs it is replayed on, and what FIFO is to decide of it in a second of the processor."""

    name: str
    file: str
    gpus: int
    fifo: float


DAY = Slice("day", "philly_day_2017-10-12.csv", 160, 2000.0)
WEEK = Slice("week", "philly_week_2017-10-09_15.csv", 320, 1500.0)
PRICING = 300.0
"""What any pricing policy is to decide in a second of the processor."""
BASELINE = 300.0
"""What a baseline is to decide in a second of the processor: as many as public simulators of SRTF and Tiresias do."""
PRICED = ("dps", "oasis")
BASELINES = ("srtf", "tiresias", "tiresias_l", "antman")
AT_ONCE = ("drf", "rrh")
"""These share out or forecast all jobs at every event: only their decisions have a target. So does Dorm, by an integer
programme: it takes hours, and is not run here."""
RUNS = ((DAY, "fifo"), (WEEK, "fifo"), *((DAY, name) for name in (*PRICED, *BASELINES, *AT_ONCE)))
QUICK = RUNS[:1]


def wanted_of(cut: Slice, policy: str) -> float:
    """What a policy is to decide of a slice in a second of the processor, at least."""
    if policy == "fifo":
        return cut.fifo
    if policy in AT_ONCE:
        return 0.0
    return PRICING if policy in PRICED else BASELINE


def measure(cut: Slice, policy: str, *, folder: Path, seed: int) -> Replayed:
    """Replay a slice under a policy with its defaults."""
    trace = open_trace(folder / cut.file, TraceJob)
    inventory = gpu_cluster(cut.gpus, apart=policy == "oasis")
    traced = to_bids(trace.rows, inventory, Rules(slot_s=SLOT_S), np.random.default_rng(seed))
    return replay(traced, make_policy(policy, {}), inventory, Plan(SLOT_S, horizon_for(traced, slot_s=SLOT_S)))


def table(*, folder: Path, quick: bool, seed: int) -> Iterator[str]:
    """One line a run: what was decided in a second of the processor, and how long decisions took by the clock."""
    yield "replays of Philly, slots of 10 minutes; values synthetic, arrivals/sizes real"
    quantiles = f"{'p50 ms':>7} {'p95 ms':>7} {'p99 ms':>7}"
    yield f"{'slice':>5} {'jobs':>6} {'GPUs':>5} {'policy':>10} {'jobs/CPU-s':>11} {quantiles}"
    if not folder.is_dir():
        yield f"not measured: no traces in {folder.name}; --traces says where they are"
        return
    for cut, policy in QUICK if quick else RUNS:
        found = measure(cut, policy, folder=folder, seed=seed)
        jobs, timing = found.outcome.jobs, found.timing
        p50, p95, p99 = (float("nan") if ms is None else ms for ms in timing.decisions_ms)
        rate, wanted = timing.jobs_per_cpu_s or 0.0, wanted_of(cut, policy)
        kept = rate >= wanted and p50 <= P50_MS and p95 <= P95_MS
        asked = f"wanted {wanted:,.0f}, " if wanted else ""
        verdict = f"{asked}p50 {P50_MS:g}, p95 {P95_MS:g}: {'kept' if kept else 'BROKEN'}"
        size = f"{cut.name:>5} {jobs.submitted:6,d} {cut.gpus:5d} {policy:>10}"
        yield f"{size} {rate:11,.0f} {p50:7.2f} {p95:7.2f} {p99:7.2f}  {verdict}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="the folder with Philly's slices")
    parser.add_argument("--quick", action="store_true", help="only the day under FIFO")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warm_up()
    for line in table(folder=options.traces, quick=options.quick, seed=options.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
