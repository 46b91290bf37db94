"""Tables of how many machines fit on each server and in each window while a batch is planned. Private: in place.

Free capacity only decreases while a batch is planned, so what did not fit once never fits later. Old tables of bounds
therefore stay valid; they are recomputed only where an answer depends on them. In most of a long horizon slots are like
the ones before them, so one slot of each run of equal slots is read. Letters are those of
`scheduling.best_response.rigid.tables`.
"""

from typing import NamedTuple

import numpy as np

from scheduling.batch.compiled import borrowing, inlined, kernel
from scheduling.batch.options import MachineTypes, fit
from scheduling.best_response.rigid.compiled import Counts, Flags, copy, greatest
from scheduling.model.types import Ints

FAR = 1 << 30
"""A slot after every horizon."""
TABLED = 256
"""Largest count in the tables; larger counts use the bounds for this count."""
FIRST_BUILT = 16


class CapacityTables(NamedTuple):
    """Everything the planner knows about the cluster."""

    types: MachineTypes
    used: Ints
    """Units that were in use at first, T x S x R, read-only."""
    freed: Ints
    """Machines of these that count as free: rows of (start, end, machine type, server, count)."""
    free: Ints
    """Units that are free now, T x S x R. Like the other tables it has contents for the first slots only."""
    room: Counts
    """Machines that fit in a slot, M x T x S, clipped."""
    sums: Counts
    """First slot at which fewer than n fit all servers together in a window from slot t on, M x T x (N + 1)."""
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
    next_change: Ints
    """A slot after t, at most the number of slots with contents: up to there as much is free as in slot t, T."""
    bounded: Flags
    """Whether `sums` or `largest` have a bound for windows from slot t on, T."""
    clock: Ints
    """The current step, and the number of slots that the tables have contents for."""
    usable: Ints
    """First slot in which the job that is being placed can use each server, S."""
    window: Counts
    """Scratch array, S."""


def make_tables(types: MachineTypes, used: Ints, freed: Ints, *, most: int) -> CapacityTables:
    """Create tables for jobs of at most `most` workers; `used` (T x S x R) and the rows of `freed` are kept."""
    machines, (slots, servers, _) = len(types.demand), used.shape
    # Kernels are compiled once more for arrays that can be written.
    used = used.view()
    used.flags.writeable = False
    tabled = min(most, TABLED) + 1
    # Nothing is written to slots that no answer needs: of a long horizon, these are most.
    sums, largest = np.empty((2, machines, slots, tabled), np.int32)
    total, seen, until = np.empty((3, machines, slots), np.int64)
    return CapacityTables(
        types=types,
        used=used,
        freed=freed,
        free=np.empty(used.shape, np.int64),
        room=np.empty((machines, slots, servers), np.int32),
        sums=sums,
        largest=largest,
        total=total,
        seen=seen,
        until=until,
        touched=np.empty(slots, np.int64),
        next_change=np.empty(slots, np.int64),
        bounded=np.empty(slots, np.bool_),
        clock=np.zeros(2, np.int64),
        usable=np.empty(servers, np.int64),
        window=np.empty(servers, np.int32),
    )


@kernel
def release(free: Ints, demand: Ints, held: Ints) -> None:
    """Release held machines: rows of (start, end, machine type, server, count)."""
    _release(free, demand, held, 0, len(free))


@borrowing
def _release(free: Ints, demand: Ints, held: Ints, low: int, high: int) -> None:
    """Release held machines in slots [low, high)."""
    for i in range(len(held)):
        start, end, m, s, count = held[i]
        for t in range(max(start, low), min(end, high)):
            for r in range(free.shape[2]):
                free[t, s, r] += count * demand[m, r]


@kernel
def end_of_room(types: MachineTypes, used: Ints, start: int) -> int:
    """Return the end of the longest window from slot `start` on in which one server has room for a worker.

    `used` is T x S x R; the end is `start` if there is no room in that slot.
    """
    end = start
    for s in range(used.shape[1]):
        for m in range(types.pss.shape[0]):
            t = start
            while t < len(used) and _has_room(types, used, t, s, m):
                t += 1
            end = max(end, t)
    return end


@borrowing
def _has_room(types: MachineTypes, used: Ints, t: int, s: int, m: int) -> bool:
    """Return whether a server has room for a machine in slot t."""
    room = True
    for r in range(used.shape[2]):
        room = room and types.demand[m, r] <= max(types.capacity[s, r] - used[t, s, r], 0)
    return room


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
            tables.seen[m, t], tables.until[m, t] = -1, 0
            for n in range(tables.sums.shape[2]):
                tables.sums[m, t, n] = tables.largest[m, t, n] = FAR
    _fill(tables, built, goal)
    tables.clock[0] += 1
    tables.clock[1] = goal
    tables.touched[:goal] = tables.clock[0]


@inlined
def _fill(tables: CapacityTables, built: int, goal: int) -> None:
    """Fill `free`, `room`, `total` and the runs of equal slots for slots [built, goal)."""
    _begin(tables, built, goal)
    for t in range(built, goal):
        tables.bounded[t], tables.next_change[t] = False, t + 1
        _begin_slot(tables, t)
        changed = False
        for s in range(tables.free.shape[1]):
            if t > 0 and _same(tables, s, t):
                continue
            changed = True
            for m in range(len(tables.room)):
                most = fit(tables.free[t, s], tables.types.demand[m])
                tables.total[m, t] += most - tables.room[m, t, s]
                tables.room[m, t, s] = most
        if not changed and t > built:
            tables.next_change[t - 1] = goal
    # So far the slots before the last one of a run have `goal`.
    for t in range(goal - 2, built - 1, -1):
        if tables.next_change[t] == goal:
            tables.next_change[t] = tables.next_change[t + 1]


@borrowing
def _begin(tables: CapacityTables, built: int, goal: int) -> None:
    """Fill `free` for slots [built, goal)."""
    for t in range(built, goal):
        for s in range(tables.free.shape[1]):
            for r in range(tables.free.shape[2]):
                tables.free[t, s, r] = tables.types.capacity[s, r] - tables.used[t, s, r]
    _release(tables.free, tables.types.demand, tables.freed, built, goal)


@borrowing
def _begin_slot(tables: CapacityTables, t: int) -> None:
    """Fill `total` and `room` of a slot as in the slot before; nothing fits before the first slot."""
    for m in range(len(tables.room)):
        tables.total[m, t] = tables.total[m, t - 1] if t > 0 else 0
        for s in range(tables.free.shape[1]):
            tables.room[m, t, s] = tables.room[m, t - 1, s] if t > 0 else 0


@inlined
def restore(tables: CapacityTables, base: CapacityTables, end: int) -> None:
    """Set slots before `end` back to `base`: tables of the same free capacity, in which nothing was held since."""
    built = tables.clock[1]
    build_until(base, int(built))
    # The tables may end a run sooner than `base` does: then it also ends there for the slots before `end`.
    last = tables.next_change[end] if end < built else built
    for t in range(end):
        tables.next_change[t] = min(base.next_change[t], last)
        for s in range(tables.free.shape[1]):
            for r in range(tables.free.shape[2]):
                tables.free[t, s, r] = base.free[t, s, r]
    for m in range(len(tables.room)):
        for t in range(end):
            tables.total[m, t] = base.total[m, t]
            for s in range(tables.free.shape[1]):
                tables.room[m, t, s] = base.room[m, t, s]
    for t in range(end):
        if tables.bounded[t]:
            _forget_bounds(tables, t)


@borrowing
def _forget_bounds(tables: CapacityTables, t: int) -> None:
    """Forget what is known of windows from slot t on."""
    tables.bounded[t] = False
    for m in range(len(tables.room)):
        tables.seen[m, t] = -1
        for n in range(tables.sums.shape[2]):
            tables.sums[m, t, n] = tables.largest[m, t, n] = FAR


@borrowing
def mark_change(tables: CapacityTables, slot: int) -> None:
    """Note that from this slot on more or less may be free than before it."""
    t = slot - 1
    while t >= 0 and tables.next_change[t] > slot:
        tables.next_change[t] = slot
        t -= 1


@inlined
def refill(tables: CapacityTables, s: int, start: int, end: int) -> None:
    """Compute `room` of a server in slots [start, end) again, once for each run of equal slots."""
    t = start
    while t < end:
        after = min(tables.next_change[t], end)
        same = t > start and _same(tables, s, t)
        for m in range(len(tables.room)):
            most = tables.room[m, t - 1, s] if same else fit(tables.free[t, s], tables.types.demand[m])
            more = most - tables.room[m, t, s]
            if more != 0:
                for u in range(t, after):
                    tables.total[m, u] += more
                    tables.room[m, u, s] = most
        t = after


@borrowing
def _same(tables: CapacityTables, s: int, t: int) -> bool:
    """Return whether as much of a server is free in slot t as in the slot before."""
    same = True
    for r in range(tables.free.shape[2]):
        same &= tables.free[t, s, r] == tables.free[t - 1, s, r]
    return same


@borrowing
def hold(tables: CapacityTables, s: int, start: int, end: int, m: int, count: int) -> None:
    """Hold machines on a server in slots [start, end).

    `mark_change` of both slots has to come before it, `refill` and `mark_changed` after it.
    """
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
    row = min(n, tables.sums.shape[2] - 1)
    if tables.sums[m, start, row] < end:
        return False
    if _is_old(tables, m, start, end):
        short, t = -1, start
        while t < end:
            after = tables.next_change[t]
            if tables.total[m, t] < n:
                short = min(after, end) - 1
            t = after
        if short >= 0:
            if row == n:
                a = start
                while a <= short:
                    tables.sums[m, a, row] = min(tables.sums[m, a, row], short)
                    tables.bounded[a] = True
                    a = tables.next_change[a]
            return False
        recompute(tables, m, start, end)
    return bool(tables.sums[m, start, row] >= end)


@borrowing
def fits_one(tables: CapacityTables, m: int, n: int, start: int, end: int) -> bool:
    """Return False only if n machines cannot fit one server in slots [start, end)."""
    row = min(n, tables.largest.shape[2] - 1)
    if tables.largest[m, start, row] < end:
        return False
    if _is_old(tables, m, start, end):
        recompute(tables, m, start, end)
        if row == n and tables.largest[m, start, row] < end:
            _rule_out(tables, m, n, start)
    return bool(tables.largest[m, start, row] >= end)


@inlined
def _rule_out(tables: CapacityTables, m: int, n: int, start: int) -> None:
    """Lower the bounds of windows from later slots if no server has room in the slot that ends the one from `start`."""
    largest = tables.largest[m, :, n]
    first = largest[start]
    end = int(first)
    while end < tables.clock[1] and greatest(tables.room[m, end]) < n:
        end = int(tables.next_change[end])
    if end > first:
        a = tables.next_change[start]
        while a < end:
            largest[a] = min(largest[a], max(a, first))
            tables.bounded[a] = True
            a = tables.next_change[a]


@borrowing
def _is_old(tables: CapacityTables, m: int, start: int, end: int) -> bool:
    return bool(tables.seen[m, start] < tables.touched[start] or tables.until[m, start] < end)


@borrowing
def recompute(tables: CapacityTables, m: int, start: int, end: int) -> None:
    """Recompute `sums` and `largest` of one machine type for windows that start in slot `start` and end by `end`."""
    window = tables.window
    copy(tables.room[m, start], window)
    n_sum = n_top = tables.sums.shape[2] - 1
    # Cover longer windows too, so that longer options of the same job seldom recompute.
    until, t = min(tables.clock[1], end + (end - start)), start
    while t < until:
        total, top = narrow(window, tables.room[m, t])
        while n_sum > total:
            tables.sums[m, start, n_sum] = t
            n_sum -= 1
        while n_top > top:
            tables.largest[m, start, n_top] = t
            n_top -= 1
        if top == 0:
            until = FAR
        t = tables.next_change[t] if top > 0 else FAR
    tables.bounded[start] = True
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
def load(tables: CapacityTables, m: int, start: int, end: int, usable: Ints, out: Counts) -> tuple[int, int]:
    """Write to `out` (S) how many machines fit each server throughout [start, end); return the sum and the maximum."""
    copy(tables.room[m, start], out)
    for s in range(len(out)):
        if usable[s] > start:
            out[s] = 0
    total, top, t = 0, 0, start
    while t < end:
        total, top = narrow(out, tables.room[m, t])
        t = tables.next_change[t]
    return total, top
