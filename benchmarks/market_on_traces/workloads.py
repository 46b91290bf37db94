"""The workloads: a window of a trace, a number of GPUs for a load, and values of one of two families.

**Windows.** A trace of more than `jobs` jobs is cut to a window of consecutive jobs that spans at least `WINDOW_S` and
holds at least `jobs` jobs; if it holds more, every k-th of them is taken. Seed k of n takes the k-th of n windows that
are spread evenly over the trace, and begins to count at the k-th job.

**Loads.** On an unlimited cluster every job would run at once. Up to the time at which nine jobs of ten would be
complete, a mean number of GPUs would be busy. The load is this number over the GPUs of the cluster. Jobs with more GPUs
than the cluster are left out, so the load that is reached can be lower; every cell states it.

**Slots** are the shortest of `SLOTS_S` with which twice the longest run of these jobs takes at most `LONGEST` slots.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from cluster.traces.formats import FORMATS, UnknownFormat, open_trace, recognise
from cluster.traces.records import Throughput, TraceJob
from scheduling.model.inventory import Inventory
from scheduling.model.utility import Sigmoid
from studies.workloads.simulation.replay import ReplayParameters, horizon_for
from studies.workloads.traces.machines import gpu_cluster
from studies.workloads.traces.mapping import SECONDS_PER_HOUR, Rules, TracedBids, to_bids
from studies.workloads.traces.profiles import Profile, StepTimes

OWN: Final = Path(__file__).parents[2] / "tests/data/traces"
TUNING: Final = (
    "gavel/drawn.trace",
    "gavel/few.trace",
    "gavel/steady.trace",
    "philly/day.csv",
    "philly/tenant.csv",
    "philly/week.csv",
    "shockwave/dynamic.trace",
    "tiresias/jobs.csv",
)
"""The samples on which defaults are tuned. Every trace of jobs in another folder is one to judge by."""
LOADS: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
SEEDS: Final = 3
JOBS: Final = 200
"""Largest number of jobs in a window."""
WINDOW_S: Final = 48 * SECONDS_PER_HOUR
SLOTS_S: Final = (1, 5, 10, 30, 60, 300, 600, 1200, 1800, 2400, 3600, 7200, 14_400, 28_800)
LONGEST: Final = 1200
"""Largest horizon, slots."""
BY_SIZE, EQUAL = "by_size", "equal"
FAMILIES: Final = (BY_SIZE, EQUAL)
"""Values in proportion to a job's GPU-hours, as elsewhere; or drawn from the same range for jobs of all sizes."""


@dataclass(frozen=True)
class Source:
    """A trace of jobs, and the profiles of the models that it names."""

    name: str
    sha256: str
    rows: tuple[TraceJob, ...]
    profiles: Mapping[str, Profile]

    def window(self, number: int, *, windows: int, jobs: int) -> tuple[TraceJob, ...]:
        """Return the jobs of window `number` of `windows`, in order of submission, at most `jobs`."""
        rows = self.rows
        if len(rows) <= jobs:
            return rows
        submitted = np.array([row.submitted_s for row in rows])
        last = min(len(rows) - jobs, int(np.searchsorted(submitted, submitted[-1] - WINDOW_S, side="right")))
        first = 0 if windows == 1 else max(0, last) * number // (windows - 1)
        end = max(first + jobs, int(np.searchsorted(submitted, submitted[first] + WINDOW_S)))
        consecutive = rows[first:end]
        step = -(-len(consecutive) // jobs)
        return consecutive[number % step :: step]


@dataclass(frozen=True)
class Workload:
    """Jobs, servers and slots of a cell."""

    traced: TracedBids
    inventory: Inventory
    apart: Inventory
    """The same GPUs with parameter servers on servers of their own, as OASiS requires."""
    plan: ReplayParameters
    gpus: int
    load: float
    """The load that is reached."""
    left_out: int
    """Jobs with more GPUs than the cluster."""

    @cached_property
    def traced_apart(self) -> TracedBids:
        """The jobs for the servers of `apart`."""
        delay = (0,) * len(self.apart.servers)
        return replace(self.traced, bids=tuple(replace(bid, delay=delay) for bid in self.traced.bids))

    @property
    def end(self) -> int:
        """The slot up to which bounds look at slots one by one."""
        return self.traced.bids[-1].arrival + self.plan.horizon


class NoTraces(ValueError):
    """A folder has no trace of jobs."""


def own_sources() -> list[Source]:
    """Return the samples that are tuned on."""
    return [source for source in sources(OWN) if source.name in TUNING]


def sources(folder: Path) -> list[Source]:
    """Return every trace of jobs in a folder; models have the throughputs of a file in the same folder, if any.

    Raises
    ------
    NoTraces
        If the folder has no trace, or does not exist: a command with nothing to replay is a mistake.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and _kind(path) is TraceJob:
            trace = open_trace(path, TraceJob)
            rows = tuple(sorted(trace.rows, key=lambda row: row.submitted_s))
            found.append(Source(path.relative_to(folder).as_posix(), trace.sha256, rows, _profiles(path.parent)))
    if not found:
        raise NoTraces(f"expected a folder with traces of jobs, got {folder}, which has none")
    return found


def make_workload(
    source: Source, load: float, family: str, seed: int, *, seeds: int = SEEDS, jobs: int = JOBS
) -> Workload:
    """Make the workload of a cell; values are drawn from the seed, which also chooses the window."""
    rows = source.window(seed, windows=seeds, jobs=jobs)
    run_s = {row.line: run for row, run in _runs(source, rows)}
    busy, until_s = _busy(rows, run_s)
    gpus = max(1, math.ceil(busy / load))
    kept = [row for row in rows if row.gpus <= gpus]
    longest_s = max(run_s[row.line] for row in kept if row.line in run_s)
    slot_s = next((s for s in SLOTS_S if 2 * longest_s <= s * LONGEST), SLOTS_S[-1])
    inventory = gpu_cluster(gpus)
    traced = to_bids(kept, inventory, Rules(slot_s=slot_s, profiles=source.profiles), np.random.default_rng(seed))
    if family == EQUAL:
        traced = equal_values(traced)
    horizon = min(LONGEST, horizon_for(traced, slot_s=slot_s))
    reached = _busy(kept, run_s, until_s)[0] / gpus
    plan = ReplayParameters(slot_s, horizon)
    return Workload(traced, inventory, gpu_cluster(gpus, apart=True), plan, gpus, reached, len(rows) - len(kept))


def equal_values(traced: TracedBids) -> TracedBids:
    """Return the bids with values that do not grow with their size: each rate times the mean GPU-hours of a job."""
    hours = {bid.id: traced.runs_s[bid.id] * bid.chunks / SECONDS_PER_HOUR for bid in traced.bids}
    mean = sum(hours.values()) / len(hours)
    bids = []
    for bid in traced.bids:
        utility = bid.utility
        if not isinstance(utility, Sigmoid):
            raise TypeError(f"expected a sigmoid, got {utility}")
        bids.append(replace(bid, utility=replace(utility, g1=utility.g1 * mean / hours[bid.id])))
    return replace(traced, bids=tuple(bids))


def _kind(path: Path) -> type | None:
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline().rstrip("\r\n")
    try:
        return FORMATS[recognise(first)].record
    except UnknownFormat:
        return None


def _profiles(folder: Path) -> Mapping[str, Profile]:
    for path in sorted(folder.glob("*.json")):
        if _kind(path) is Throughput:
            return StepTimes.of(open_trace(path, Throughput).rows).by_model("v100")
    return {}


def _runs(source: Source, rows: Sequence[TraceJob]) -> Iterator[tuple[TraceJob, float]]:
    """Yield each job with its run time alone on its own GPUs, s."""
    traced = to_bids(rows, gpu_cluster(1), Rules(slot_s=1, profiles=source.profiles), np.random.default_rng(0))
    by_line = {bid.id: traced.runs_s[bid.id] for bid in traced.bids}
    for row in rows:
        if str(row.line) in by_line:
            yield row, by_line[str(row.line)]


def _busy(rows: Sequence[TraceJob], run_s: Mapping[int, float], until_s: float | None = None) -> tuple[float, float]:
    """Return the mean number of busy GPUs on an unlimited cluster, and the end of the time over which it is taken."""
    known = [row for row in rows if row.line in run_s]
    begins = np.array([row.submitted_s for row in known])
    ends = begins + [run_s[row.line] for row in known]
    first = float(begins.min(initial=math.inf))
    until = float(np.quantile(ends, 0.9)) if until_s is None else until_s
    gpus = np.array([row.gpus for row in known])
    work = gpus @ (np.minimum(ends, until) - np.minimum(begins, until)) if known else 0.0
    return float(work) / max(1.0, until - first), until
