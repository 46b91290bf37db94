"""Compiled rough plans: jobs in one order share the capacity of the whole cluster. Private: arrays only.

A rough plan knows no servers. Its time is cut into cells of some slots, those of now of one slot each. In a cell a job
runs for as many slots as its machines are free for, all of them or none in each slot. Slots count from now.
"""

import math
from typing import NamedTuple

import numpy as np

from scheduling.competition.compiled import borrowing, kernel
from scheduling.model.types import Floats, Ints

NEVER = -1
"""Completion of a job that is not in the plan."""
BROKEN = -np.inf
"""Total of a plan that breaks a promise."""
LEAST_GAIN = 1e-9
"""Share of the total by which a change of the order has to be better."""
ROUNDING = 1e-9
"""Share of what a job takes that may be missing, as sums are rounded."""


class Entries(NamedTuple):
    """J jobs with R resources in T slots: those with a promise, and bids."""

    demand: Floats
    """Units that each job takes in a slot, J x R."""
    length: Ints
    """Slots that each job needs, J."""
    first: Ints
    """First cell in which each job may run, J."""
    due: Ints
    """The number of cells in which each job has to be complete, J; NEVER for a bid, which need not be in the plan."""
    most: Floats
    """No value of each job is above this, J."""
    scarce: Ints
    """The resource of which most is asked for, one number."""
    least: Floats
    """The least units of it that a job takes, if it takes any, one number."""
    value: Floats
    """Value of each job if it is complete at a slot, J x (T + 1); a bid that would be worth nothing is left out."""


class Cells(NamedTuple):
    """Capacity and time: C cells."""

    capacity: Floats
    """Unit-slots of each resource, C x R."""
    begin: Ints
    """First slot of each cell, C."""
    width: Ints
    """Slots of each cell, C."""


class Rough(NamedTuple):
    """Scratch of rough plans, and the result of the last one."""

    free: Floats
    """Unit-slots that are free, C x R."""
    runs: Ints
    """Slots of each cell in which the job placed last runs, C."""
    end: Ints
    """Completion of each job, J; NEVER if it is not in the plan."""
    begins: Ints
    """The first cell in which each job runs, J; NEVER if it is not in the plan."""
    effort: Ints
    """Cells of jobs that may still be looked at, one number."""


@kernel
def improve(order: Ints, moves: Ints, cells: Cells, entries: Entries, rough: Rough) -> float:
    """Improve an order of jobs in place by moving one job at a time; return the total value of its plan.

    Row (a, b) of `moves` takes the job at place a and puts it at place b, if that is better. It ends early when the
    effort is used up.
    """
    best = total(order, cells, entries, BROKEN, rough)
    other = order.copy()
    for k in range(len(moves)):
        if rough.effort[0] <= 0:
            break
        _move(order, moves[k, 0], moves[k, 1], other)
        found = total(other, cells, entries, best, rough)
        if found > best + LEAST_GAIN * abs(best) or (best == BROKEN and found > best):
            best = found
            order[:] = other
    return total(order, cells, entries, BROKEN, rough)


@kernel
def best_place(order: Ints, job: int, places: Ints, cells: Cells, entries: Entries, rough: Rough) -> int:
    """Return the one of these places, in an order that does not have this job, with the greatest total.

    The first place counts if every plan breaks a promise.
    """
    longer = np.empty(len(order) + 1, np.int64)
    most, found = BROKEN, places[0]
    for at in places:
        longer[:at] = order[:at]
        longer[at] = job
        longer[at + 1 :] = order[at:]
        worth = total(longer, cells, entries, most, rough)
        if worth > most:
            most, found = worth, at
    return int(found)


@kernel
def best_of(orders: Ints, cells: Cells, entries: Entries, rough: Rough) -> int:
    """Return the row of `orders` whose plan has the greatest total."""
    most, row = BROKEN, 0
    for i in range(len(orders)):
        found = total(orders[i], cells, entries, most, rough)
        if found > most:
            most, row = found, i
    return row


@borrowing
def _move(order: Ints, a: int, b: int, into: Ints) -> None:
    """Write the order to `into` with the job at place a moved to place b."""
    job, at = order[a], 0
    for i in range(len(order)):
        if i != a:
            if at == b:
                at += 1
            into[at] = order[i]
            at += 1
    into[b] = job


@borrowing
def total(order: Ints, cells: Cells, entries: Entries, least: float, rough: Rough) -> float:
    """Make the plan of an order; return the total value of all that is in it, BROKEN if a promise is broken.

    A plan that can no longer have a total above `least` is given up, and what it has so far is returned.
    """
    count = len(cells.width)
    for c in range(count):
        for r in range(cells.capacity.shape[1]):
            rough.free[c, r] = cells.capacity[c, r]
    for j in range(len(rough.end)):
        rough.end[j] = NEVER
        rough.begins[j] = NEVER
    hope = 0.0
    for i in range(len(order)):
        hope += entries.most[order[i]]
    rough.effort[0] -= count
    worth, full, scarce, least_units = 0.0, 0, entries.scarce[0], entries.least[0]
    for i in range(len(order)):
        j = order[i]
        while full < count and rough.free[full, scarce] < least_units:
            full += 1  # no job fits any more
        promised = entries.due[j] != NEVER
        first = max(full, entries.first[j]) if entries.demand[j, scarce] > 0.0 else entries.first[j]
        last = _fill(j, first, entries.due[j] if promised else count, entries, cells, rough)
        end = NEVER if last == NEVER else _completion(last, cells, rough, scarce)
        hope -= entries.most[j]
        if end == NEVER and promised:
            return BROKEN
        if end != NEVER and (promised or entries.value[j, end] > 0.0):
            _take(j, first, last, entries, rough)
            rough.end[j] = end
            worth += entries.value[j, end]
        if worth + hope <= least:
            return worth
    return worth


@borrowing
def _fill(j: int, first: int, latest: int, entries: Entries, cells: Cells, rough: Rough) -> int:
    """Write for how many slots of each cell a job runs until it is complete; return the cell in which it is."""
    left, c = entries.length[j], first
    while c < latest:
        slots = min(left, cells.width[c])
        for r in range(rough.free.shape[1]):
            if entries.demand[j, r] > 0.0:
                slots = min(slots, int(rough.free[c, r] / entries.demand[j, r] + ROUNDING))
        rough.runs[c] = slots
        left -= slots
        if left <= 0:
            rough.effort[0] -= c - first
            return c
        c += 1
    rough.effort[0] -= max(0, latest - first)
    return NEVER


@borrowing
def _completion(c: int, cells: Cells, rough: Rough, scarce: int) -> int:
    """Return the slot in which a job is complete that ends in a cell: after what others take of it."""
    width = cells.width[c]
    if width == 1 or cells.capacity[c, scarce] <= 0.0:
        return int(cells.begin[c] + width)
    taken = width * (1.0 - rough.free[c, scarce] / cells.capacity[c, scarce])
    return int(cells.begin[c] + min(width, math.ceil(taken - ROUNDING) + rough.runs[c]))


@borrowing
def _take(j: int, first: int, last: int, entries: Entries, rough: Rough) -> None:
    """Hold what a job takes in the cells from its first one to its last one."""
    for c in range(first, last + 1):
        if rough.runs[c] > 0:
            if rough.begins[j] == NEVER:
                rough.begins[j] = c
            for r in range(rough.free.shape[1]):
                rough.free[c, r] -= rough.runs[c] * entries.demand[j, r]


def warm_up() -> None:
    """Compile every kernel, or load it from disk."""
    whole, one = np.zeros(1, np.int64), np.ones(1)
    cells = Cells(np.ones((1, 1)), whole, whole + 1)
    entries = Entries(np.ones((1, 1)), whole + 1, whole, whole + NEVER, one, whole, one, np.ones((1, 2)))
    rough = Rough(np.ones((1, 1)), whole.copy(), whole.copy(), whole.copy(), whole.copy())
    order, moves = whole.copy(), np.zeros((0, 2), np.int64)
    improve(order, moves, cells, entries, rough)
    best_place(order[:0], 0, whole, cells, entries, rough)
    best_of(np.zeros((1, 1), np.int64), cells, entries, rough)
