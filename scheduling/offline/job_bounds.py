"""A lower bound on the total time of jobs that looks at whole jobs: edge or cloud, and when complete at the edge."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy

from scheduling.model.bid import Bid
from scheduling.model.errors import SchedulingError
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints
from scheduling.preemptive.workers import TICKS, Task, Workers

PARTS = (0, 1, 2, 3, 4, 6)
"""Parameters of the dual feasible functions; 0 is the identity."""
AT_ONCE = 30
"""Largest number of cuts that are added in a round."""
INTEGER_ROUNDS = 12
"""Largest number of rounds with integers; each gives a bound."""


@dataclass(frozen=True)
class _Job:
    """A job that the edge can complete before the cloud; times in ticks."""

    first: int
    """The first of its uploads is over."""
    earliest: int
    """Completion at the edge, if it were there alone."""
    cloud: int
    """Completion in the cloud."""
    chunks: int
    each: int


@dataclass(frozen=True)
class _Choices:
    """Choices of jobs: complete at the edge in [from, until); one row for each, N."""

    owner: Ints
    first: Ints
    until: Ints
    each: Ints
    chunks: Ints
    saving: Ints
    """Ticks sooner than in the cloud, at most."""

    def within(self, intervals: Ints) -> Ints:
        """Return the ticks in which a chunk is at least processed on its worker in intervals [begin, end), I x N."""
        begin, end = intervals[:, :1], intervals[:, 1:]
        inside = np.maximum(0, np.minimum(end, self.until) - np.maximum(begin, self.first))
        needed: Ints = np.maximum(0, self.each - (self.until - self.first - inside))
        return needed


def least_jct(
    bids: Sequence[Bid], inventory: Inventory, *, step: float = 0.5, ticks: int = TICKS, seconds: float = 1.0
) -> float:
    """Compute a lower bound on the total time from arrival to completion of all jobs, slots.

    No schedule that processes each chunk on one worker or in the cloud is below it, preemptive or not, with all
    arrivals known. Who has a chunk in the cloud is complete no sooner than if the whole job were there. So each job is
    all at the edge or all in the cloud, and the edge saves some jobs some time. At the edge a job is complete no sooner
    than if it were alone, and a chunk that is uploaded at f and complete by c is processed in any interval for at
    least its length less what of [f, c) is outside. The chunks of a worker fit in every interval, and so do their
    lengths under every dual feasible function (half an interval counts as half, and more as all of it, and so on): W
    workers hold no more than W of them. Completions are rounded down to a step. What such an integer program saves at
    most is subtracted from the times in the cloud.

    Parameters
    ----------
    bids
        Jobs, all of which run.
    inventory
        With a cloud; its size, parameter servers and storage are not limits here.
    step
        Slots between choices of a completion; a shorter one gives a higher bound.
    ticks
        In a slot.
    seconds
        For each integer program; a longer time may give a higher bound.

    Raises
    ------
    SchedulingError
        If a job has nowhere to run, or no cloud.
    """
    workers = Workers(inventory, ticks)
    total, by_type = 0, dict[int, list[_Job]]()
    for bid in bids:
        task = workers.task(bid)
        if task is None or not workers.count[workers.clouds, task.worker].any():
            raise SchedulingError(f"expected a cloud with workers for job {bid.id}, got none")
        delay = np.array(bid.delay, dtype=np.int64)
        away = int(delay[workers.clouds[workers.count[workers.clouds, task.worker] > 0]].min()) * ticks + task.alone
        total += away
        job = _at_edge(bid, task, workers, delay, away)
        if job is not None and job.earliest < job.cloud:
            by_type.setdefault(task.worker, []).append(job)
    saved = sum(
        _most(jobs, len(workers.of_type[kind]), max(1, int(step * ticks)), ticks, seconds)
        for kind, jobs in by_type.items()
    )
    return total / ticks - saved


def _at_edge(bid: Bid, task: Task, workers: Workers, delay: Ints, away: int) -> _Job | None:
    """Return the job as one of the edge; None if no worker there has its type."""
    ready = delay[workers.server[workers.of_type[task.worker]]] * workers.ticks
    if not len(ready):
        return None
    arrival = bid.arrival * workers.ticks
    rounds = np.arange(1, bid.chunks + 1, dtype=np.int64) * task.each
    ends = np.sort((ready[:, None] + rounds[None, : max(1, away // task.each)]).ravel())
    earliest = int(ends[bid.chunks - 1]) if len(ends) >= bid.chunks else away
    return _Job(arrival + int(ready.min()), arrival + earliest, arrival + away, bid.chunks, task.each)


def _choices(jobs: Sequence[_Job], step: int) -> _Choices:
    rows = []
    for j, job in enumerate(jobs):
        ends = [job.earliest, *range((job.earliest // step + 1) * step, job.cloud, step), job.cloud]
        rows += [(j, job.first, until, job.each, job.chunks, job.cloud - end) for end, until in pairwise(ends)]
    return _Choices(*np.array(rows, dtype=np.int64).T)


def _most(jobs: Sequence[_Job], workers: int, step: int, ticks: int, seconds: float) -> float:
    """Return the most slots that the edge can save these jobs, all of one type, by cuts until none is violated."""
    choices = _choices(jobs, step)
    n = len(choices.owner)
    once = scipy.sparse.csr_array((np.ones(n), (choices.owner, np.arange(n))), shape=(len(jobs), n))
    begins, ends = np.unique(choices.first), np.unique(choices.until)
    intervals = np.array([(begin, end) for begin in begins.tolist() for end in ends.tolist() if end > begin])
    cuts: dict[tuple[int, int], Floats] = {}
    best, rounds = np.inf, 0
    integer = False
    while rounds < INTEGER_ROUNDS:
        rows = scipy.sparse.vstack([once, scipy.sparse.csr_array(np.array([*cuts.values()]))]) if cuts else once
        result = scipy.optimize.milp(
            -choices.saving / ticks,
            constraints=scipy.optimize.LinearConstraint(
                rows, -np.inf, np.concatenate([np.ones(len(jobs)), np.full(len(cuts), float(workers))])
            ),
            integrality=np.full(n, int(integer)),
            bounds=scipy.optimize.Bounds(0, 1),
            options={"time_limit": seconds, "mip_rel_gap": 1e-3} if integer else {},
        )
        bound = (result.mip_dual_bound if integer else result.fun) if result.x is not None else None
        best = best if bound is None else min(best, -bound)
        if result.x is None:
            break
        new = _violated(choices, result.x, workers, intervals, cuts)
        if not new and integer:
            break
        rounds += integer
        integer = integer or not new
        cuts |= new
    return float(best)


def _violated(
    choices: _Choices, x: Floats, workers: int, intervals: Ints, cuts: dict[tuple[int, int], Floats]
) -> dict[tuple[int, int], Floats]:
    """Return the most violated cuts, by interval and function."""
    chosen = np.flatnonzero(x > 1e-9)
    part = _Choices(*(column[chosen] for column in vars(choices).values()))
    needed, weight = part.within(intervals), part.chunks * x[chosen]
    found = []
    for m in PARTS:
        excess = _measure(needed, intervals, m) @ weight - workers
        over = np.flatnonzero(excess > 1e-6 * workers).tolist()
        found += [(float(excess[i]), i, m) for i in over if (i, m) not in cuts]
    worst = [(i, m) for _, i, m in sorted(found, reverse=True)[:AT_ONCE]]
    rows = {i: intervals[i : i + 1] for i, _ in worst}
    return {(i, m): choices.chunks * _measure(choices.within(rows[i]), rows[i], m)[0] for i, m in worst}


def _measure(needed: Ints, intervals: Ints, m: int) -> Floats:
    """Return a dual feasible function of needed / length, I x N: if some are at most 1 together, so are their values.

    With x (m + 1) rounded down, divided by m, and x itself if nothing is rounded (m = 0: always x).

    References
    ----------
    Fekete and Schepers, New classes of fast lower bounds for bin packing problems, Mathematical Programming 91 (2001).
    """
    length = intervals[:, 1:] - intervals[:, :1]
    share = needed / length
    if m == 0:
        return share
    whole, rest = np.divmod(needed * (m + 1), length)
    values: Floats = np.where(rest == 0, share, whole / m)
    return values
