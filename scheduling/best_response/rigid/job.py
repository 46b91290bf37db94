"""Types that the parts of the rigid search share: a bid in slots, its options, and the objective."""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.base import LATEST, RATIO
from scheduling.best_response.rigid.compiled import Counts, borrowing, inlined
from scheduling.best_response.rigid.tables import Tables
from scheduling.model.types import Floats, Ints

WORST = -np.inf
NEVER = 1 << 60
"""A slot beyond all others."""


class Job(NamedTuple):
    """One bid in slots counted from the ledger's start."""

    usable: Ints
    """First slot in which each server can be used, S."""
    order: Ints
    """The servers, those that can be used first in front, S."""
    values: Floats
    """Value of completion at slot 0..T."""
    durations: Counts
    """Slots that n workers need, together and spread, 2 x W x (PS types from `first_ps`) x (N + 1); above T: never."""
    first_ps: int
    """The first PS type that the job may use."""
    first: int
    """First slot in which the job may start."""
    latest: int
    """Last slot of completion that leaves enough of the value and lies within the horizon; a later one cannot win."""
    tail: int
    """Slots held after completion."""
    mode: int
    above: float


class Options(NamedTuple):
    """Options of a job: for each pair of types and each duration, the fewest workers that suffice."""

    spread: Ints
    worker: Ints
    ps: Ints
    number: Ints
    duration: Ints
    first: Ints
    """No earlier start is possible."""


@borrowing
def is_ring(tables: Tables, p: int) -> bool:
    """Return whether this PS type stands for the missing PS of a ring, which demands nothing."""
    return bool(tables.demanded[tables.cheap.shape[0] + p, 0] < 0)


@borrowing
def score(job: Job, start: int, completion: int, cost: float) -> float:
    """Return the score that the search maximises; it never rises with cost."""
    value = job.values[completion]
    if job.mode == RATIO:
        return -cost / value if value > 0.0 else WORST
    if job.mode == LATEST:
        return float(start) if value - cost > job.above else WORST
    return float(value - cost)


@inlined
def usable_workers(tables: Tables, job: Job) -> Ints:
    """Return the first slots in which n workers could start on the empty cluster, on one server and on all servers.

    2 x W x (N + 1) numbers; NEVER if they never can.
    """
    workers, width = tables.cheap.shape[0], job.durations.shape[3]
    first = np.full((2, workers, width), NEVER)
    for w in range(workers):
        alone, all_together = 0, 0  # numbers whose slots are known
        for s in job.order:
            usable, most = max(job.first, job.usable[s]), tables.most[w, s]
            while alone < min(most, width - 1):
                alone += 1
                first[0, w, alone] = usable
            for _ in range(min(most, width - 1 - all_together)):
                all_together += 1
                first[1, w, all_together] = usable
    return first


@borrowing
def earliest_host(tables: Tables, job: Job, spread: int, w: int, p: int, n: int) -> int:
    """Return a slot before which no server can host n workers, even on the empty cluster; NEVER if none ever can.

    More workers never start earlier.
    """
    if n <= tables.hosted[spread, 0, w, p]:
        return job.first
    first = NEVER
    for h in range(len(tables.hubs)):
        if n <= tables.hosted[spread, 1 + h, w, p]:
            first = min(first, max(job.first, job.usable[tables.hubs[h]]))
    return first


@inlined
def list_options(tables: Tables, job: Job) -> Options:
    """List every (together or spread, worker type, PS type, fewest workers for a duration) that can end in time."""
    _, workers, pss, width = job.durations.shape
    slots = tables.room.shape[2]
    size = 2 * workers * pss * min(width, slots + 1)
    options = Options(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    ready = usable_workers(tables, job)
    i = 0
    for spread in range(2):
        for w in range(workers):
            for p in range(pss):
                shortest = job.latest - job.first + 1
                # A ring of one worker is never spread.
                for n in range(2 if spread == 1 and is_ring(tables, job.first_ps + p) else 1, width):
                    d = job.durations[spread, w, p, n]
                    if d < shortest:
                        first = max(ready[spread, w, n], earliest_host(tables, job, spread, w, job.first_ps + p, n))
                        if first == NEVER:
                            break
                        shortest = d
                        if first + d <= job.latest:
                            options.spread[i], options.worker[i], options.ps[i] = spread, w, job.first_ps + p
                            options.number[i], options.duration[i], options.first[i] = n, d, first
                            i += 1
    return Options(
        options.spread[:i],
        options.worker[:i],
        options.ps[:i],
        options.number[:i],
        options.duration[:i],
        options.first[:i],
    )


@borrowing
def level_of(held: int) -> int:
    """Return the level of the sparse table of which two windows cover `held` slots."""
    level = 0
    while (2 << level) <= held:
        level += 1
    return level
