"""Compiled rough plans: jobs in one order share the capacity of the whole cluster. Private: arrays only.

A rough plan knows no servers. Its time is cut into cells of some slots, those of now of one slot each. In a cell a job
runs for as many slots as its machines are free for, all of them or none in each slot: beside jobs that run in all slots
of the cell it runs only if there are machines for all of them at once. Slots count from now.
"""

import math
from typing import NamedTuple

import numpy as np

from scheduling.competition.compiled import borrowing, kernel
from scheduling.model.types import Floats, Ints

NEVER = -1
"""Completion of a job that is not in the plan."""
BREAKS = -2
"""Completion of a job whose promise cannot be kept."""
BROKEN = -np.inf
"""Total of a plan that breaks a promise."""
LEAST_GAIN = 1e-9
"""Share of the total by which a change of the order has to be better."""
ROUNDING = 1e-9
"""Share of what a job takes that may be missing, as sums are rounded."""
ENOUGH = 1e-6
"""Share of what a job takes by which less may be free in all cells than it takes, as sums of all cells are rounded."""


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
    part: Ints
    """Slots of the last of these cells in which each job with a promise may run, J."""
    latest: Ints
    """The number of cells in which each job is worth something, J; `due` for a job with a promise."""
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
    """Scratch of rough plans, and the result of the last one that was kept."""

    free: Floats
    """Unit-slots that are free, C x R."""
    steady: Floats
    """Units that no job holds in all slots of a cell, C x R."""
    runs: Ints
    """Slots of each cell in which the job placed last runs, C."""
    end: Ints
    """Completion of each job, J; NEVER if it is not in the plan."""
    begins: Ints
    """The first cell in which each job runs, J; NEVER if it is not in the plan."""
    effort: Ints
    """Cells of jobs that may still be looked at, one number."""


class Kept(NamedTuple):
    """A plan before each of its places, so that a plan with the same first jobs begins behind them."""

    free: Floats
    """Unit-slots that are free, (places + 1) x C x R."""
    steady: Floats
    """Units that no job holds in all slots of a cell, (places + 1) x C x R."""
    full: Ints
    """The cells before this one have no room for any job, places + 1."""
    room: Floats
    """Unit-slots of the scarce resource that are free in the other cells, places + 1."""
    total: Floats
    """Value of the jobs before, places + 1."""
    hope: Floats
    """No value of the jobs from here on is above this, places + 1."""
    known: Ints
    """The number of places before which the plan is known, one number: places + 1, or fewer if a promise is broken."""


@kernel
def improve(order: Ints, moves: Ints, cells: Cells, entries: Entries, rough: Rough) -> float:
    """Improve an order of jobs in place by moving one job at a time; return the total value of its plan.

    Row (a, b) of `moves` takes the job at place a and puts it at place b, if that is better. It ends early when the
    effort is used up, or when all jobs have their greatest values.
    """
    kept = _nothing_kept(len(order), cells)
    best = _plan(order, 0, cells, entries, rough, kept)
    other = order.copy()
    # Few jobs have few moves, which are drawn again and again: one that did not help does not until the order changes.
    tried, changes = np.zeros((len(order), len(order)), np.int64), 1
    for k in range(len(moves)):
        needed = BROKEN if best == BROKEN else best + LEAST_GAIN * best
        if rough.effort[0] <= 0 or kept.hope[0] <= needed:
            break
        a, b = moves[k, 0], moves[k, 1]
        place = min(a, b)
        if a == b or place >= kept.known[0] or tried[a, b] == changes:
            continue  # the same plan, or one that breaks the same promise, or one that was made already
        tried[a, b] = changes
        if abs(a - b) == 1:
            tried[b, a] = changes
        _move(order, a, b, other)
        if _total(other, place, max(a, b) + 1, needed, cells, entries, rough, kept) > needed:
            order[:] = other
            best = _plan(order, place, cells, entries, rough, kept)
            changes += 1
    return best


@kernel
def best_place(order: Ints, job: int, places: Ints, cells: Cells, entries: Entries, rough: Rough) -> int:
    """Return the one of these places, in an order that does not have this job, with the greatest total.

    The first place counts if every plan breaks a promise.
    """
    kept = _nothing_kept(len(order), cells)
    _plan(order, 0, cells, entries, rough, kept)
    longer = np.empty(len(order) + 1, np.int64)
    most, found = BROKEN, places[0]
    for at in places:
        if at >= kept.known[0]:
            continue
        longer[:at] = order[:at]
        longer[at] = job
        longer[at + 1 :] = order[at:]
        # This job may be worth something beside those of the order.
        least = most - max(0.0, entries.most[job])
        worth = _total(longer, at, NEVER, least, cells, entries, rough, kept)
        if worth > most:
            most, found = worth, at
    return int(found)


@kernel
def best_of(orders: Ints, cells: Cells, entries: Entries, rough: Rough) -> int:
    """Return the row of `orders` whose plan has the greatest total."""
    kept = _nothing_kept(0, cells)
    most, row = BROKEN, 0
    for i in range(len(orders)):
        _begin(orders[i], cells, entries, kept)
        found = _total(orders[i], 0, NEVER, most, cells, entries, rough, kept)
        if found > most:
            most, row = found, i
    return row


@kernel
def discount(value: Floats, least: Floats, factor: Floats) -> Ints:
    """Multiply each value of each row by the factor of its slot, in place, and those below the row's least by 0.

    Return the last slot before the first one without value, J; 0 if there is none.
    """
    last = np.zeros(len(value), np.int64)
    for j in range(len(value)):
        slots = 0
        for t in range(value.shape[1]):
            value[j, t] = value[j, t] * factor[t] if value[j, t] >= least[j] else 0.0
            if slots == t and value[j, t] > 0.0:
                slots += 1
        last[j] = max(0, slots - 1)
    return last


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


@kernel
def _nothing_kept(places: int, cells: Cells) -> Kept:
    """Return the memory for an order with this number of places."""
    many = places + 1
    shape = many, cells.capacity.shape[0], cells.capacity.shape[1]
    full, known = np.zeros(many, np.int64), np.zeros(1, np.int64)
    return Kept(np.empty(shape), np.empty(shape), full, np.zeros(many), np.zeros(many), np.zeros(many), known)


@borrowing
def _begin(order: Ints, cells: Cells, entries: Entries, kept: Kept) -> None:
    """Keep the empty plan, before the first place of an order."""
    kept.full[0], kept.room[0], kept.total[0], kept.hope[0] = 0, 0.0, 0.0, 0.0
    for c in range(cells.capacity.shape[0]):
        kept.room[0] += cells.capacity[c, entries.scarce[0]]
        for r in range(cells.capacity.shape[1]):
            kept.free[0, c, r] = cells.capacity[c, r]
            kept.steady[0, c, r] = cells.capacity[c, r] / cells.width[c]
    for i in range(len(order)):
        kept.hope[0] += entries.most[order[i]]


@borrowing
def _plan(order: Ints, place: int, cells: Cells, entries: Entries, rough: Rough, kept: Kept) -> float:
    """Make the plan of an order, and keep it, where it is kept already before a place.

    Return the total value of all that is in it, BROKEN if a promise is broken.
    """
    if place == 0:
        _begin(order, cells, entries, kept)
        for j in range(len(rough.end)):
            rough.end[j] = rough.begins[j] = NEVER
    for i in range(place, len(order)):
        rough.end[order[i]] = rough.begins[order[i]] = NEVER
    full, room, worth, hope = _before(place, rough, kept)
    kept.known[0] = len(order) + 1
    for i in range(place, len(order)):
        j = order[i]
        full, room = _pass_full(full, room, cells, entries, rough)
        end, first, room = _place(j, full, room, cells, entries, rough)
        hope -= entries.most[j]
        if end == BREAKS:
            kept.known[0] = i + 1
            return BROKEN
        if end != NEVER:
            rough.end[j] = end
            rough.begins[j] = first
            while rough.runs[rough.begins[j]] == 0:
                rough.begins[j] += 1
            worth += entries.value[j, end]
        for c in range(cells.capacity.shape[0]):
            for r in range(cells.capacity.shape[1]):
                kept.free[i + 1, c, r] = rough.free[c, r]
                kept.steady[i + 1, c, r] = rough.steady[c, r]
        kept.full[i + 1], kept.room[i + 1], kept.total[i + 1], kept.hope[i + 1] = full, room, worth, hope
    return worth


@borrowing
def _total(
    order: Ints, place: int, meets: int, least: float, cells: Cells, entries: Entries, rough: Rough, kept: Kept
) -> float:
    """Return the total value of the plan of an order that has the kept one before a place; BROKEN if it breaks a
    promise.

    The kept order has the same jobs from place `meets` on, NEVER if it has not: if the same is free there, the rest of
    the plan is the same. A plan that can no longer have a total above `least` is given up.
    """
    full, room, worth, hope = _before(place, rough, kept)
    for i in range(place, len(order)):
        if i == meets and i < kept.known[0] and _is_free_as(i, rough, kept):
            return worth + kept.total[len(order)] - kept.total[i] if kept.known[0] > len(order) else BROKEN
        if worth + hope <= least:
            return BROKEN
        j = order[i]
        full, room = _pass_full(full, room, cells, entries, rough)
        end, _, room = _place(j, full, room, cells, entries, rough)
        hope -= entries.most[j]
        if end == BREAKS:
            return BROKEN
        if end != NEVER:
            worth += entries.value[j, end]
    return worth


@borrowing
def _before(place: int, rough: Rough, kept: Kept) -> tuple[int, float, float, float]:
    """Go back to the kept plan before a place."""
    for c in range(rough.free.shape[0]):
        for r in range(rough.free.shape[1]):
            rough.free[c, r] = kept.free[place, c, r]
            rough.steady[c, r] = kept.steady[place, c, r]
    rough.effort[0] -= rough.free.shape[0]
    return kept.full[place], kept.room[place], kept.total[place], kept.hope[place]


@borrowing
def _is_free_as(place: int, rough: Rough, kept: Kept) -> bool:
    """Return whether the same is free as in the kept plan before a place."""
    for c in range(rough.free.shape[0]):
        for r in range(rough.free.shape[1]):
            if abs(rough.free[c, r] - kept.free[place, c, r]) > ROUNDING:
                return False
            if abs(rough.steady[c, r] - kept.steady[place, c, r]) > ROUNDING:
                return False
    return True


@borrowing
def _pass_full(full: int, room: float, cells: Cells, entries: Entries, rough: Rough) -> tuple[int, float]:
    """Pass over cells in which no job fits any more; return the first other one, and what is free from there on."""
    scarce = entries.scarce[0]
    while full < len(cells.width) and rough.free[full, scarce] < entries.least[0]:
        room -= rough.free[full, scarce]
        full += 1
    return full, room


@borrowing
def _place(j: int, full: int, room: float, cells: Cells, entries: Entries, rough: Rough) -> tuple[int, int, float]:
    """Hold what a job takes, with its slots of each cell in `runs`.

    Return the slot in which it is complete, the cell from which on it may run, and the room that is left. The slot is
    NEVER if the job is not in the plan, and BREAKS if it has a promise and cannot be complete in time.
    """
    scarce, promised = entries.scarce[0], entries.due[j] != NEVER
    first, least = entries.first[j], entries.demand[j, scarce]
    if least > 0.0:
        first = max(full, first)
    last = NEVER
    if least <= 0.0 or least * entries.length[j] * (1.0 - ENOUGH) <= room:
        last = _fill(j, first, entries, cells, rough)
    if last == NEVER:
        return BREAKS if promised else NEVER, first, room
    end = _completion(last, cells, rough, scarce)
    if not promised and entries.value[j, end] <= 0.0:
        return NEVER, first, room
    _take(j, first, last, cells, entries, rough)
    return end, first, room - entries.length[j] * least


@borrowing
def _fill(j: int, first: int, entries: Entries, cells: Cells, rough: Rough) -> int:
    """Write for how many slots of each cell a job runs until it is complete; return the cell in which it is."""
    left, c, latest = entries.length[j], first, entries.latest[j]
    while c < latest:
        slots = min(left, cells.width[c] if c < latest - 1 else entries.part[j])
        for r in range(rough.free.shape[1]):
            demand = entries.demand[j, r]
            if demand <= 0.0:
                continue  # less than nothing may be free, as sums are rounded
            if demand * (1.0 - ROUNDING) > rough.steady[c, r]:
                slots = 0
            elif demand * slots > rough.free[c, r]:
                slots = max(0, int(rough.free[c, r] / demand + ROUNDING))
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
def _take(j: int, first: int, last: int, cells: Cells, entries: Entries, rough: Rough) -> None:
    """Hold what a job takes in the cells from its first one to its last one."""
    for c in range(first, last + 1):
        if rough.runs[c] > 0:
            for r in range(rough.free.shape[1]):
                rough.free[c, r] -= rough.runs[c] * entries.demand[j, r]
                if rough.runs[c] == cells.width[c]:
                    rough.steady[c, r] -= entries.demand[j, r]


def warm_up() -> None:
    """Compile every kernel, or load it from disk."""
    whole, one = np.zeros(1, np.int64), np.ones(1)
    cells = Cells(np.ones((1, 1)), whole, whole + 1)
    entries = Entries(
        np.ones((1, 1)), whole + 1, whole, whole + NEVER, whole + 1, whole + 1, one, whole, one, np.ones((1, 2))
    )
    rough = Rough(np.ones((1, 1)), np.ones((1, 1)), whole.copy(), whole.copy(), whole.copy(), whole.copy())
    order, moves = whole.copy(), np.zeros((0, 2), np.int64)
    improve(order, moves, cells, entries, rough)
    best_place(order[:0], 0, whole, cells, entries, rough)
    best_of(np.zeros((1, 1), np.int64), cells, entries, rough)
    discount(np.ones((1, 2)), one, np.ones(2))
