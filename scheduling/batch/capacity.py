"""Tables of how many machines fit on each server and in each window while a batch is planned. Private: in place.

Free capacity only decreases while a batch is planned, so what did not fit once never fits later. Old tables of bounds
therefore stay valid; they are recomputed only where an answer depends on them. Letters are those of
`scheduling.best_response.rigid.tables`.
"""

from typing import NamedTuple

import numpy as np

from scheduling.batch.compiled import borrowing, inlined, kernel
from scheduling.batch.options import MachineTypes, fit
from scheduling.best_response.rigid.compiled import Counts, copy, greatest
from scheduling.model.types import Ints

FAR = 1 << 30
"""A slot after every horizon."""
TABLED = 256
"""Largest count in the tables; larger counts use the bounds for this count."""
FIRST_BUILT = 16


class CapacityTables(NamedTuple):
    """Everything the planner knows about the cluster."""

    types: MachineTypes
    free: Ints
    """T x S x R."""
    room: Counts
    """Machines that fit in a slot, M x T x S, clipped. Like the other tables it has contents for the first slots
    only."""
    sums: Counts
    """First slot at which fewer than n fit all servers together in a window from slot t on, M x (N + 1) x T."""
    largest: Counts
    """The same for the server with the most room, M x (N + 1) x T."""
    total: Ints
    """Sum of `room` over servers, M x T."""
    seen: Ints
    """Step at which `sums` and `largest` were computed, M x T."""
    until: Ints
    """End of the longest window that was covered then, M x T."""
    touched: Ints
    """Last step at which a slot from t on changed, T."""
    clock: Ints
    """The current step, and the number of slots that the tables have contents for."""
    window: Counts
    """Scratch array, S."""


def make_tables(types: MachineTypes, free: Ints, *, most: int) -> CapacityTables:
    """Create tables for free capacity T x S x R and jobs of at most `most` workers; the array is kept and modified."""
    machines, (slots, servers, _) = len(types.demand), free.shape
    tabled = min(most, TABLED) + 1
    # Nothing is written to slots that no answer needs: of a long horizon, these are most.
    sums, largest = np.empty((2, machines, tabled, slots), np.int32)
    total, seen, until = np.empty((3, machines, slots), np.int64)
    return CapacityTables(
        types=types,
        free=free,
        room=np.empty((machines, slots, servers), np.int32),
        sums=sums,
        largest=largest,
        total=total,
        seen=seen,
        until=until,
        touched=np.empty(slots, np.int64),
        clock=np.zeros(2, np.int64),
        window=np.empty(servers, np.int32),
    )


@kernel
def release(free: Ints, demand: Ints, held: Ints) -> None:
    """Release held machines: rows of (start, end, machine type, server, count)."""
    for i in range(len(held)):
        start, end, m, s, count = held[i]
        for t in range(start, end):
            for r in range(free.shape[2]):
                free[t, s, r] += count * demand[m, r]


@kernel
def end_of_room(free: Ints, demand: Ints, start: int) -> int:
    """Return the end of the longest window from slot `start` on in which one server has room for a machine.

    `free` is T x S x R, `demand` M x R; the end is `start` if there is no room in that slot.
    """
    end = start
    for s in range(free.shape[1]):
        for m in range(len(demand)):
            t = start
            while t < len(free) and fit(free[t, s], demand[m]) > 0:
                t += 1
            end = max(end, t)
    return end


@borrowing
def build_until(tables: CapacityTables, end: int) -> None:
    """Fill the tables for the slots before `end`; the number of slots doubles each time, so early answers stay
    cheap."""
    built = tables.clock[1]
    if end <= built:
        return
    goal = min(len(tables.free), max(end, 2 * built, FIRST_BUILT))
    machines = len(tables.room)
    for m in range(machines):
        for t in range(built, goal):
            tables.total[m, t], tables.seen[m, t], tables.until[m, t] = 0, -1, 0
        for n in range(tables.sums.shape[1]):
            for t in range(built, goal):
                tables.sums[m, n, t] = tables.largest[m, n, t] = FAR
    for t in range(built, goal):
        for s in range(tables.free.shape[1]):
            same = t > 0 and _same(tables, s, t)
            for m in range(machines):
                most = tables.room[m, t - 1, s] if same else fit(tables.free[t, s], tables.types.demand[m])
                tables.room[m, t, s] = most
                tables.total[m, t] += most
    tables.clock[0] += 1
    tables.clock[1] = goal
    tables.touched[:goal] = tables.clock[0]


@inlined
def restore(tables: CapacityTables, base: CapacityTables, end: int) -> None:
    """Set slots before `end` back to `base`: tables of the same free capacity, in which nothing was held since."""
    build_until(base, int(tables.clock[1]))
    for t in range(end):
        for s in range(tables.free.shape[1]):
            for r in range(tables.free.shape[2]):
                tables.free[t, s, r] = base.free[t, s, r]
    for m in range(len(tables.room)):
        for t in range(end):
            tables.total[m, t] = base.total[m, t]
            for s in range(tables.free.shape[1]):
                tables.room[m, t, s] = base.room[m, t, s]
        for n in range(tables.sums.shape[1]):
            for t in range(end):
                tables.sums[m, n, t] = base.sums[m, n, t]
                tables.largest[m, n, t] = base.largest[m, n, t]
    mark_changed(tables, end)


@inlined
def refill(tables: CapacityTables, s: int, start: int, end: int) -> None:
    """Compute `room` of a server in slots [start, end) again; a slot like the one before it is copied."""
    for t in range(start, end):
        same = t > start and _same(tables, s, t)
        for m in range(len(tables.room)):
            most = tables.room[m, t - 1, s] if same else fit(tables.free[t, s], tables.types.demand[m])
            tables.total[m, t] += most - tables.room[m, t, s]
            tables.room[m, t, s] = most


@borrowing
def _same(tables: CapacityTables, s: int, t: int) -> bool:
    """Return whether as much of a server is free in slot t as in the slot before."""
    same = True
    for r in range(tables.free.shape[2]):
        same &= tables.free[t, s, r] == tables.free[t - 1, s, r]
    return same


@borrowing
def hold(tables: CapacityTables, s: int, start: int, end: int, m: int, count: int) -> None:
    """Hold machines on a server in slots [start, end); `refill` and `mark_changed` have to follow."""
    for t in range(start, end):
        for r in range(tables.free.shape[2]):
            tables.free[t, s, r] -= count * tables.types.demand[m, r]


@borrowing
def mark_changed(tables: CapacityTables, end: int) -> None:
    """Note that slots before `end` changed."""
    tables.clock[0] += 1
    tables.touched[:end] = tables.clock[0]


@inlined
def fits_all(tables: CapacityTables, m: int, n: int, start: int, end: int) -> bool:
    """Return False only if n machines cannot fit all servers together in slots [start, end)."""
    row = min(n, tables.sums.shape[1] - 1)
    if tables.sums[m, row, start] < end:
        return False
    if _is_old(tables, m, start, end):
        for t in range(end - 1, start - 1, -1):
            if tables.total[m, t] < n:
                if row == n:
                    for a in range(start, t + 1):
                        tables.sums[m, row, a] = min(tables.sums[m, row, a], t)
                return False
        recompute(tables, m, start, end)
    return bool(tables.sums[m, row, start] >= end)


@borrowing
def fits_one(tables: CapacityTables, m: int, n: int, start: int, end: int) -> bool:
    """Return False only if n machines cannot fit one server in slots [start, end)."""
    row = min(n, tables.largest.shape[1] - 1)
    if tables.largest[m, row, start] < end:
        return False
    if _is_old(tables, m, start, end):
        recompute(tables, m, start, end)
        if row == n and tables.largest[m, row, start] < end:
            _rule_out(tables, m, n, start)
    return bool(tables.largest[m, row, start] >= end)


@inlined
def _rule_out(tables: CapacityTables, m: int, n: int, start: int) -> None:
    """Lower the bounds of windows from later slots if no server has room in the slot that ends the one from `start`."""
    largest = tables.largest[m, n]
    first = end = largest[start]
    while end < tables.clock[1] and greatest(tables.room[m, end]) < n:
        end += 1
    if end > first:
        for a in range(start + 1, end):
            largest[a] = min(largest[a], max(a, first))


@borrowing
def _is_old(tables: CapacityTables, m: int, start: int, end: int) -> bool:
    return bool(tables.seen[m, start] < tables.touched[start] or tables.until[m, start] < end)


@borrowing
def recompute(tables: CapacityTables, m: int, start: int, end: int) -> None:
    """Recompute `sums` and `largest` of one machine type for windows that start in slot `start` and end by `end`."""
    window = tables.window
    copy(tables.room[m, start], window)
    n_sum = n_top = tables.sums.shape[1] - 1
    # Cover longer windows too, so that longer options of the same job seldom recompute.
    until = min(tables.clock[1], end + (end - start))
    for t in range(start, until):
        total, top = narrow(window, tables.room[m, t])
        while n_sum > total:
            tables.sums[m, n_sum, start] = t
            n_sum -= 1
        while n_top > top:
            tables.largest[m, n_top, start] = t
            n_top -= 1
        if top == 0:
            until = FAR
            break
    tables.seen[m, start] = tables.clock[0]
    tables.until[m, start] = until


@borrowing
def narrow(window: Counts, room: Counts) -> tuple[int, int]:
    """Keep the smaller count of each server in `window`; return the sum and the maximum."""
    total, top = 0, np.int32(0)
    for s in range(len(window)):
        least = min(window[s], room[s])
        window[s] = least
        total += least
        top = max(top, least)
    return total, int(top)


@inlined
def load(tables: CapacityTables, m: int, start: int, end: int, usable: Ints, out: Counts) -> int:
    """Write to `out` (S) how many machines fit each server throughout [start, end); return their sum."""
    copy(tables.room[m, start], out)
    for s in range(len(out)):
        if usable[s] > start:
            out[s] = 0
    total = 0
    for t in range(start, end):
        total, _ = narrow(out, tables.room[m, t])
    return total
