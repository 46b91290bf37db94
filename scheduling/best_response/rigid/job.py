"""The parts of a rigid search that all of it shares: a bid in slots, the counts worth looking at, what is sought."""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.rigid.compiled import Counts, greatest, inner
from scheduling.best_response.rigid.tables import Tables
from scheduling.model.types import Floats, Ints

PAYOFF, RATIO, LATEST = 0, 1, 2
"""What is sought: greatest payoff; least cost per unit of value; latest start with payoff above the threshold."""

WORST = -np.inf


class Job(NamedTuple):
    """One bid in slots counted from the ledger's start."""

    usable: Ints
    """First slot in which each server can be used, S."""
    worth: Floats
    """Value of completion at slot 0..T."""
    durations: Counts
    """Slots n workers need, together and spread, 2 x W x (types from `first_ps` on) x (N + 1); above T: hopeless."""
    first_ps: int
    """The first PS type it may use."""
    first: int
    """No start before this slot."""
    tail: int
    """Slots held after completion."""
    mode: int
    above: float


class Rows(NamedTuple):
    """The counts worth looking at: the fewest workers for each duration."""

    spread: Ints
    worker: Ints
    ps: Ints
    number: Ints
    duration: Ints


@inner
def is_ring(tables: Tables, p: int) -> bool:
    """Does a job with this PS type have none? The type then stands for a machine that demands nothing."""
    return bool(tables.wants[tables.cheap.shape[0] + p, 0] < 0)


@inner
def score(job: Job, start: int, completion: int, cost: float) -> float:
    """What is maximised; never rises with cost."""
    worth = job.worth[completion]
    if job.mode == RATIO:
        return -cost / worth if worth > 0.0 else WORST
    if job.mode == LATEST:
        return float(start) if worth - cost > job.above else WORST
    return float(worth - cost)


@inner
def list_rows(tables: Tables, job: Job) -> Rows:
    """Every (together or spread, worker type, PS type, fewest workers for a duration) that can end in time."""
    _, workers, pss, width = job.durations.shape
    slots = tables.room.shape[2]
    size = 2 * workers * pss * min(width, slots + 1)
    rows = Rows(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    i = 0
    for spread in range(2):
        for w in range(workers):
            largest = greatest(tables.most[w])
            for p in range(pss):
                shortest = slots - job.tail - job.first + 1
                # A ring of one worker is never spread.
                for n in range(2 if spread == 1 and is_ring(tables, job.first_ps + p) else 1, width):
                    if spread == 0 and n > largest:
                        break
                    d = job.durations[spread, w, p, n]
                    if d < shortest:
                        shortest = d
                        rows.spread[i], rows.worker[i], rows.ps[i], rows.number[i], rows.duration[i] = (
                            spread,
                            w,
                            job.first_ps + p,
                            n,
                            d,
                        )
                        i += 1
    return Rows(rows.spread[:i], rows.worker[:i], rows.ps[:i], rows.number[:i], rows.duration[:i])


@inner
def level_of(held: int) -> int:
    """The level of the sparse table two of whose windows cover `held` slots."""
    level = 0
    while (2 << level) <= held:
        level += 1
    return level
