"""Cost of an event while thousands of jobs wait: `python -m benchmarks.overload [--quick]`.

Jobs as in a week of Philly (`benchmarks/philly_rows.py`), all there at once, on 48 GPUs. An event is a job that ends,
an arrival, or a slot that passes; its cost is the plan and its entry in the book. A policy that plans batches at the
ends of intervals has a last number: the slot in which the next interval ends, with the jobs that its batch places.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from benchmarks import philly_rows
from cluster.traces.formats import read_trace
from cluster.traces.records import TraceJob
from scheduling.batch.intervals import next_end
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Cause
from scheduling.kernels import warm_up_all
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision
from scheduling.model.inventory import Inventory
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.weighted_completion import WeightedCompletion
from scheduling.preemptive.queues import Queues
from scheduling.registry import make_policy
from studies.workloads.simulation.replay import horizon_for
from studies.workloads.traces.machines import gpu_cluster
from studies.workloads.traces.mapping import Rules, to_bids

GPUS, SLOT_S = 48, 600
SIZES, QUICK_SIZES = (500, 1000, 2000, 4000), (500, 2000)
LIMITED, LIMIT_MS = 2000, 20.0
"""Number of waiting jobs at which the median cost of each event has a limit, and the limit."""
ROUNDS = 7
TWIN = "rolling"
LARGEST_TWIN = 2000
"""The twin plans every job at every event; with more jobs it takes too long."""
POLICIES: Mapping[str, tuple[str, Json]] = {
    "search": ("weighted_completion", {}),
    TWIN: ("weighted_completion", {"mode": "rolling"}),
    **{
        name: (name, {})
        for name in ("fifo", "srtf", "tiresias", "tiresias_l", "antman", "drf", "preemptive", "rrh", "dorm")
    },
    "batch_sche": ("batch_sche", {}),
}
UNLIMITED = {
    TWIN: "plans every job",
    "dorm": "solves an integer program over `considered` jobs",
}
"""Policies without a limit, and why."""


@dataclass(frozen=True)
class Costs:
    """Milliseconds of one core, one number for each event."""

    ended: Sequence[float]
    arrived: Sequence[float]
    slot: Sequence[float]
    batch: tuple[float, int] | None
    """The slot in which the next interval ends, and the jobs that its batch places; None without intervals."""

    @property
    def medians(self) -> tuple[float, ...]:
        """Medians of the three events."""
        return tuple(float(np.median(times)) for times in (self.ended, self.arrived, self.slot))


def load(seed: int) -> tuple[tuple[Bid, ...], Inventory, int]:
    """Return the jobs, the cluster and the horizon."""
    rows = philly_rows.draw_jobs(philly_rows.WEEK, np.random.default_rng(philly_rows.WEEK.seed))
    inventory = gpu_cluster(GPUS)
    jobs = read_trace(philly_rows.text_of(rows).splitlines(), TraceJob).rows[: max(SIZES) + 1000]
    traced = to_bids(jobs, inventory, Rules(slot_s=SLOT_S), np.random.default_rng(seed))
    slots = horizon_for(traced, slot_s=SLOT_S)
    return tuple(replace(bid, arrival=0) for bid in traced.bids), inventory, slots


def table(*, quick: bool, seed: int) -> Iterator[str]:
    """One line for each policy and length of the line."""
    bids, inventory, slots = load(seed)
    yield f"one event while jobs wait, {GPUS} GPUs, horizon {slots} slots: ms of one core, median of {ROUNDS}"
    yield f"{'policy':>10} {'waiting':>8} {'a job ends':>11} {'arrival':>8} {'slot':>8} {'most':>8}"
    for name, (policy, parameters) in POLICIES.items():
        for waiting in QUICK_SIZES if quick else SIZES:
            if name == TWIN and waiting > LARGEST_TWIN:
                continue
            found = measure(make_policy(policy, parameters), bids, inventory, slots, waiting)
            ended, arrived, slot = found.medians
            most = max((*found.ended, *found.arrived, *found.slot))
            line = f"{name:>10} {waiting:8,d} {ended:11.1f} {arrived:8.1f} {slot:8.1f} {most:8.1f}"
            if waiting == LIMITED:
                kept = "kept" if max(found.medians) <= LIMIT_MS else "BROKEN"
                line += f"  {UNLIMITED[name]}" if name in UNLIMITED else f"  <= {LIMIT_MS:g}: {kept}"
            if found.batch is not None:
                line += f"  an interval ends: {found.batch[0]:.1f} for {found.batch[1]} jobs"
            yield line


def measure(policy: Policy, bids: Sequence[Bid], inventory: Inventory, slots: int, waiting: int) -> Costs:
    """Fill the line, then let jobs end and arrive, and slots pass."""
    queues = Queues(inventory, now=0) if policy.queues else None
    book = RunningBook(Ledger(inventory, start=0, slots=slots), queues=queues)
    coming = iter(bids)
    for bid in islice(coming, waiting):
        admitted = Decision.admit(bid.id, None, "", slot=0, value=0.0, standalone_value=0.0, density=(0.0, 0.0))
        book.apply_decision(bid, admitted, bound=False)
    _plan(book, policy, Cause.CHANGED)
    ended, arrived, passed = [], [], []
    for _ in range(ROUNDS):
        book.end(_running(book, policy, slots))
        ended.append(_plan(book, policy, Cause.ENDED))
        arrived.append(_arrive(book, policy, replace(next(coming), arrival=book.now)))
        passed.append(_pass_slot(book, policy))
    return Costs(ended, arrived, passed, _next_batch(book, policy))


def _running(book: RunningBook, policy: Policy, slots: int) -> str:
    """Return a job that runs; if none does yet, slots pass first."""
    for _ in range(slots):
        for name, job in book.jobs.items():
            if job.start is not None and job.start <= book.now:
                return name
        _pass_slot(book, policy)
    raise RuntimeError(f"expected a job that runs within {slots} slots, got none")


def _next_batch(book: RunningBook, policy: Policy) -> tuple[float, int] | None:
    """Let slots pass until the next interval ends; return what that slot costs and how many jobs it places."""
    if not isinstance(policy, WeightedCompletion) or policy.mode != "interval":
        return None
    last = next_end(book.now, slots=book.ledger.end - book.now, alpha=policy.alpha)
    while book.now < last:
        _pass_slot(book, policy)
    waiting = len(book.view().waiting)
    cost = _pass_slot(book, policy)
    return cost, waiting - len(book.view().waiting)


def _pass_slot(book: RunningBook, policy: Policy) -> float:
    over = book.advance(book.now + 1)
    return _plan(book, policy, Cause.ENDED if over else Cause.SLOT)


def _plan(book: RunningBook, policy: Policy, cause: Cause) -> float:
    began = time.thread_time()
    book.apply(policy.plan(book.view(), cause))
    return 1e3 * (time.thread_time() - began)


def _arrive(book: RunningBook, policy: Policy, bid: Bid) -> float:
    began = time.thread_time()
    book.apply_decision(bid, policy.decide(bid, book.view()), bound=policy.binding)
    return 1e3 * (time.thread_time() - began)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer lengths of the line")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warm_up_all()
    for line in table(quick=options.quick, seed=options.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
