"""Compiled best-first search for the rigid best response over the tables of one ledger. Private: arrays only.

A candidate is (worker type, PS type, number of workers n, together or spread, start slot). Candidates are evaluated
exactly, best bound first, until no bound left can win; equal scores fall to the least (completion, start, n, worker
type, PS type, host).
"""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.base import PAYOFF
from scheduling.best_response.rigid.bounds import bound_option, rough_bounds
from scheduling.best_response.rigid.compiled import borrowing, inlined, kernel
from scheduling.best_response.rigid.job import WORST, Job, Options, list_options
from scheduling.best_response.rigid.placement import Scratch, describe, evaluate, make_scratch
from scheduling.best_response.rigid.tables import Tables
from scheduling.model.types import Floats, Ints

FIRST_TRIES = 32
"""Options evaluated exactly before all bounds are known."""


class Candidates(NamedTuple):
    """Candidates that may be optimal, as a heap: greatest bound first, then least key."""

    bound: Floats
    key: Ints
    row: Ints
    start: Ints
    heap: Ints


class Best(NamedTuple):
    """The best candidate so far; row -1 while there is none."""

    score: float
    key: int
    row: int
    start: int
    host: int
    near: int


@kernel
def search(tables: Tables, job: Job) -> tuple[Ints, Ints]:
    """Return the best candidate (spread, worker type, PS type, workers, duration, start, host, near) and its workers by
    server.

    The first array is empty when no candidate scores above the threshold.
    """
    options = list_options(tables, job)
    scratch = make_scratch(len(job.usable), job.durations.shape[3])
    # A negative key is never undercut, so the threshold itself does not win a tie.
    best = Best(float(job.above) if job.mode == PAYOFF else WORST, -1, -1, -1, -1, 0)
    size = len(options.number)
    order = np.empty(size)
    rough_bounds(tables, job, options, order)
    none, keys = np.zeros(size, np.int64), np.empty(size, np.int64)
    for i in range(size):
        keys[i] = tie_key(tables, options, i, options.first[i])  # of its earliest start: the least of the row
    rough = Candidates(order, keys, none, none, np.arange(size))
    heapify(rough)
    bounded, bounds = np.empty(size, np.int64), np.empty((size, tables.room.shape[2]))
    seen, tried = 0, 0
    while seen < size and may_win(order[rough.heap[0]], keys[rough.heap[0]], best):
        i = pop(rough, size - seen)
        greatest, a = bound_option(tables, job, options, i, bounds[seen])
        key = tie_key(tables, options, i, a)
        if tried < FIRST_TRIES and may_win(greatest, key, best):
            # Early exact scores keep most options from being bounded at and most candidates out of the heap.
            best = improve(tables, job, options, i, a, key, best, scratch)
            tried += 1
        bounded[seen] = i
        seen += 1
    c = collect(tables, job, options, bounds, bounded[:seen], best)
    best = exhaust(tables, job, options, c, best, scratch)
    if best.row < 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return describe(tables, job, options, best.row, best.start, best.host, best.near, scratch)


@inlined
def exhaust(tables: Tables, job: Job, options: Options, c: Candidates, best: Best, scratch: Scratch) -> Best:
    """Evaluate candidates, best bound first, until no bound can be optimal."""
    size = len(c.heap)
    while size > 0 and may_win(c.bound[c.heap[0]], c.key[c.heap[0]], best):
        x = pop(c, size)
        best = improve(tables, job, options, c.row[x], c.start[x], c.key[x], best, scratch)
        size -= 1
    return best


@borrowing
def may_win(bound: float, key: int, best: Best) -> bool:
    """Return whether a candidate of this bound and key can beat the best one; if not, no later one can."""
    return bool(bound > best.score or (bound == best.score and bound > WORST and key <= best.key))


@borrowing
def improve(tables: Tables, job: Job, options: Options, i: int, a: int, key: int, best: Best, scratch: Scratch) -> Best:
    """Evaluate one candidate exactly; return the better of it and the best so far."""
    got, host, near = evaluate(tables, job, options, i, a, best.score, scratch)
    tie = got == best.score and host >= 0 and best.row >= 0
    if tie and key == best.key:
        tie = 2 * host + options.spread[i] < 2 * best.host + options.spread[best.row]
    elif tie:
        tie = key < best.key
    if got > best.score or tie:
        return Best(float(got), int(key), int(i), int(a), int(host), int(near))
    return best


@inlined
def collect(tables: Tables, job: Job, options: Options, bounds: Floats, bounded: Ints, best: Best) -> Candidates:
    """Return every candidate of the bounded options that may beat the best so far."""
    size = 0
    for j in range(len(bounded)):
        for a in range(job.first, job.latest):
            if may_win(bounds[j, a], tie_key(tables, options, bounded[j], a), best):
                size += 1
    c = Candidates(
        np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64), np.arange(size)
    )
    x = 0
    for j in range(len(bounded)):
        i = bounded[j]
        for a in range(job.first, job.latest):
            key = tie_key(tables, options, i, a)
            if may_win(bounds[j, a], key, best):
                c.bound[x], c.key[x], c.row[x], c.start[x] = bounds[j, a], key, i, a
                x += 1
    heapify(c)
    return c


@borrowing
def tie_key(tables: Tables, options: Options, i: int, a: int) -> int:
    """Return (completion, start, workers, worker type, PS type) as one number in the same order."""
    workers, _, slots = tables.cheap.shape
    pss = len(tables.demand) - workers
    key = ((a + options.duration[i]) * (slots + 1) + a) * (1 << 24) + options.number[i]
    return int((key * workers + options.worker[i]) * pss + options.ps[i])


@borrowing
def precedes(c: Candidates, x: int, y: int) -> bool:
    """Is candidate x to be bounded at before y?"""
    if c.bound[x] != c.bound[y]:
        return bool(c.bound[x] > c.bound[y])
    if c.key[x] != c.key[y]:
        return bool(c.key[x] < c.key[y])
    return x < y


@borrowing
def heapify(c: Candidates) -> None:
    """Order all candidates as a heap."""
    for at in range(len(c.heap) // 2 - 1, -1, -1):
        sift_candidates(c, len(c.heap), at)


@borrowing
def pop(c: Candidates, size: int) -> int:
    """Remove the first of `size` candidates from the heap and return it."""
    top = c.heap[0]
    c.heap[0] = c.heap[size - 1]
    sift_candidates(c, size - 1, 0)
    return int(top)


@borrowing
def sift_candidates(c: Candidates, size: int, at: int) -> None:
    """Restore the heap order below position `at`."""
    item = c.heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and precedes(c, c.heap[child + 1], c.heap[child]):
            child += 1
        if precedes(c, item, c.heap[child]):
            break
        c.heap[at] = c.heap[child]
        at = child
    c.heap[at] = item
