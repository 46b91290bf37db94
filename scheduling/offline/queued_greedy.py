"""Good schedules of jobs whose chunks never move: jobs one after another, each as early as the others allow."""

from bisect import bisect_left
from collections.abc import Sequence

from scheduling.offline.queued_job import QueuedJob
from scheduling.solvers.time_limit import Left

TRIALS = 100_000
"""Largest number of trials of a job on a worker, over all orders."""
AWAY = -1
"""No worker: in the cloud."""


def queued_greedy(jobs: Sequence[QueuedJob], slots: int, left: Left) -> list[int]:
    """The completions of the best schedule found; the least sum is the best.

    Parameters
    ----------
    jobs
        Of one worker type.
    slots
        Those that are looked at; a job that finds none is complete one later.

    Notes
    -----
    In a given order each job takes the slots that those before it left, chunk by chunk where the chunk is complete
    first, which is as early as can be; or the cloud. A job that comes later may run before and between them, so that is
    preemption. Orders are improved by moving one job, for as long as that helps.
    """
    order = sorted(range(len(jobs)), key=lambda j: jobs[j].earliest)
    best = _ends(jobs, order, slots)
    tried, better = 0, True
    offers = sum(len(job.ready) + 1 for job in jobs)
    while better:
        better = False
        for j in range(len(jobs)):
            for to in range(len(jobs)):
                if left() <= 0.0 or tried >= TRIALS:
                    return best
                other = [i for i in order if i != j]
                other.insert(to, j)
                if other == order:
                    continue
                tried += offers
                ends = _ends(jobs, other, slots)
                if sum(ends) < sum(best):
                    best, order, better = ends, other, True
    return best


def _ends(jobs: Sequence[QueuedJob], order: Sequence[int], slots: int) -> list[int]:
    """Completions in this order."""
    free = {w: list(range(slots)) for job in jobs for w in job.ready}
    ends = [slots + 1] * len(jobs)
    for j in order:
        job = jobs[j]
        first = {w: bisect_left(free[w], ready) for w, ready in job.ready.items()}
        chunks = [
            (free[w][last] + 1, w)
            for w, since in first.items()
            for last in range(since + job.each - 1, min(len(free[w]), since + job.chunks * job.each), job.each)
        ]
        if job.cloud is not None:
            chunks += [(job.cloud + job.each, AWAY)] * job.chunks
        chosen = sorted(chunks)[: job.chunks]
        end = chosen[-1][0] if len(chosen) == job.chunks else slots + 1
        if job.cloud is not None and job.cloud + job.alone <= min(end, slots):
            ends[j] = job.cloud + job.alone
        elif end <= slots:
            ends[j] = end
            for _, w in chosen:
                if w != AWAY:
                    del free[w][first[w] : first[w] + job.each]
    return ends
