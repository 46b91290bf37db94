"""Compiled best-first search for the rigid best response over the tables of one ledger. Private: arrays only.

A candidate is (worker type, PS type, number of workers n, together or spread, start slot). Its bound takes the
cheapest n workers of every single slot and the cheapest host of every single slot, so it is O(1) by prefix sums and
never above what the candidate really costs. Candidates are evaluated exactly, best bound first, until no bound left
can win; equal payoffs fall to the least (completion, start, n, worker type, PS type, host).
"""

from typing import NamedTuple

import numpy as np

from scheduling.arrays import Floats, Ints
from scheduling.rigid_tables import Counts, Tables, kernel, make_heap, sift

PAYOFF, RATIO, LATEST = 0, 1, 2
"""What is sought: greatest payoff; least cost per unit of value; latest start with payoff above the threshold."""

WORST = -np.inf
FEW_HOSTS = 4
FAR = 1 << 60


class Job(NamedTuple):
    """One bid in slots counted from the ledger's start."""

    usable: Ints
    """First slot in which each server can be used, S."""
    worth: Floats
    """Value of completion at slot 0..T."""
    durations: Counts
    """Slots n workers need, together and spread, 2 x W x P x (N + 1); more than T where hopeless."""
    first: int
    """No start before this slot."""
    tail: int
    """Slots held after completion."""
    mode: int
    above: float


class Rows(NamedTuple):
    """The counts worth looking at: the fewest workers for each duration."""

    spread: Counts
    worker: Counts
    ps: Counts
    number: Counts
    duration: Counts


class Scratch(NamedTuple):
    """Arrays of one evaluation, S each, and the cost of the cheapest u workers, for any u that was needed."""

    cost: Ints
    room: Counts
    ps_cost: Ints
    ps_room: Counts
    heap: Counts
    first_unit: Ints
    cumulative: Ints


@kernel
def durations(work: Ints, parts: Ints, most: int, longest: int) -> Counts:
    """max(1, ceil(work / (parts n))) for n = 1..most (DPS eq. 8), clipped to `longest`; K rows of work, parts."""
    out = np.empty((len(work), most + 1), dtype=np.int32)
    for i in range(len(work)):
        out[i, 0] = longest
        for n in range(1, most + 1):
            out[i, n] = min(longest, max(1, -(-work[i] // (parts[i] * n))))
    return out


@kernel
def score(job: Job, start: int, completion: int, cost: float) -> float:
    """What is maximised; never rises with cost."""
    worth = job.worth[completion]
    if job.mode == RATIO:
        return -cost / worth if worth > 0.0 else WORST
    if job.mode == LATEST:
        return float(start) if worth - cost > job.above else WORST
    return float(worth - cost)


@kernel
def list_rows(tables: Tables, job: Job) -> Rows:
    """Every (together or spread, worker type, PS type, fewest workers for a duration) that can end in time."""
    _, workers, pss, width = job.durations.shape
    slots = tables.room.shape[2]
    size = 2 * workers * pss * min(width, slots + 1)
    rows = Rows(
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
    )
    i = 0
    for spread in range(2):
        for w in range(workers):
            largest = tables.most[w].max()
            for p in range(pss):
                shortest = slots - job.tail - job.first + 1
                for n in range(1, width):
                    if spread == 0 and n > largest:
                        break
                    d = job.durations[spread, w, p, n]
                    if d < shortest:
                        shortest = d
                        rows.spread[i], rows.worker[i], rows.ps[i], rows.number[i], rows.duration[i] = spread, w, p, n, d
                        i += 1
    return Rows(rows.spread[:i], rows.worker[:i], rows.ps[:i], rows.number[:i], rows.duration[:i])


@kernel
def bound_row(tables: Tables, job: Job, rows: Rows, i: int, out: Floats) -> float:
    """Upper bounds of the score for every start of one row, into `out` (T); returns the greatest."""
    w, p, n, d = rows.worker[i], rows.ps[i], rows.number[i], rows.duration[i]
    slots = tables.room.shape[2]
    tabled = min(n, tables.cheap.shape[1] - 1)
    cheap, lasts = tables.cheap[w, tabled], tables.lasts[w, tabled]
    quantum, held = tables.quantum[w], d + job.tail
    out[:] = WORST
    greatest = WORST
    for c in range(2):
        k = pss_needed(tables, rows, i, c)
        if k == 0:
            continue
        tabled_k = min(k, tables.ps_cheap.shape[2] - 1)
        ps_cheap, ps_lasts = tables.ps_cheap[p, c, tabled_k], tables.ps_lasts[p, c, tabled_k]
        ps_quantum = tables.quantum[tables.cheap.shape[0] + p]
        for a in range(job.first, slots - held + 1):
            b = a + held
            if lasts[a] >= b and ps_lasts[a] >= b:
                workers = cheap[b] - cheap[a]
                if tabled < n:
                    workers = workers // tabled * n
                cost = quantum * workers + ps_quantum * (k * (ps_cheap[b] - ps_cheap[a]))
                got = score(job, a, a + d, cost)
                if got > out[a]:
                    out[a] = got
                    greatest = max(greatest, got)
    return greatest


@kernel
def pss_needed(tables: Tables, rows: Rows, i: int, c: int) -> int:
    """The least number of PSs a host of size class `c` must take, 0 if no host of that class can."""
    w, p, n = rows.worker[i], rows.ps[i], rows.number[i]
    pss = tables.most_in[tables.cheap.shape[0] + p, c]
    near = tables.most_in[w, c]
    if pss == 0:
        return 0
    if rows.spread[i] == 0:
        return 1 if near >= n else 0
    k = tables.pss[w, p, n - min(near, n - 1)]
    return k if k <= pss else 0


@kernel
def load_window(tables: Tables, job: Job, rows: Rows, i: int, a: int, scratch: Scratch) -> None:
    """Room and price of workers and PSs on every server over the window of a candidate, by sparse table and sums."""
    w, m = rows.worker[i], tables.cheap.shape[0] + rows.ps[i]
    held = rows.duration[i] + job.tail
    b = a + held
    level = 0
    while (2 << level) <= held:
        level += 1
    c = b - (1 << level)
    left, right = tables.room[w, level, a], tables.room[w, level, c]
    ps_left, ps_right = tables.room[m, level, a], tables.room[m, level, c]
    before, after = tables.price[w, a], tables.price[w, b]
    ps_before, ps_after = tables.price[m, a], tables.price[m, b]
    for s in range(len(job.usable)):
        usable = 1 if job.usable[s] <= a else 0
        scratch.room[s] = min(left[s], right[s]) * usable
        scratch.ps_room[s] = min(ps_left[s], ps_right[s]) * usable
        scratch.cost[s] = after[s] - before[s]
        scratch.ps_cost[s] = ps_after[s] - ps_before[s]


@kernel
def fits_together(tables: Tables, rows: Rows, i: int, a: int, held: int, s: int, near: int, pss: int) -> bool:
    """Do `near` workers and `pss` PSs fit one server through the window, resource by resource?"""
    w, p = rows.worker[i], rows.ps[i]
    if not tables.shared[w, p]:
        return True
    demand = near * tables.demand[w] + pss * tables.demand[tables.cheap.shape[0] + p]
    for t in range(a, a + held):
        for r in range(len(demand)):
            if tables.free[t, s, r] < demand[r]:
                return False
    return True


@kernel
def evaluate_together(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, least: float, scratch: Scratch
) -> tuple[float, int, int]:
    """Best (score, host, workers on it) with everything on one server; only scores of at least `least` matter."""
    w, n, d = rows.worker[i], rows.number[i], rows.duration[i]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + rows.ps[i]]
    best, host = WORST, -1
    load_window(tables, job, rows, i, a, scratch)
    for h in range(len(job.usable)):
        if scratch.room[h] < n or scratch.ps_room[h] < 1:
            continue
        cost = quantum * (n * scratch.cost[h]) + ps_quantum * scratch.ps_cost[h]
        got = score(job, a, a + d, cost)
        if got > best and got >= least and fits_together(tables, rows, i, a, d + job.tail, h, n, 1):
            best, host = got, h
    return best, host, n


@kernel
def cheapest_host(tables: Tables, rows: Rows, i: int, scratch: Scratch) -> int:
    """Least cost of the PSs of a spread candidate on any host, as if its workers were free to move; -1 if none."""
    pss = tables.pss[rows.worker[i], rows.ps[i]]
    n = rows.number[i]
    best = -1
    for h in range(len(scratch.room)):
        if scratch.ps_room[h] > 0:
            k = pss[n - min(scratch.room[h], n - 1)]
            cost = k * scratch.ps_cost[h]
            if k <= scratch.ps_room[h] and (best < 0 or cost < best):
                best = cost
    return best


@kernel
def take_cheapest(scratch: Scratch, size: int, have: int, units: int) -> tuple[int, int]:
    """Go on taking the cheapest workers until `units` are there or none is left; returns (heap size, workers)."""
    while size > 0 and have < units:
        s = scratch.heap[0]
        scratch.first_unit[s] = have
        for _ in range(scratch.room[s]):
            scratch.cumulative[have + 1] = scratch.cumulative[have] + scratch.cost[s]
            have += 1
            if have + 1 >= len(scratch.cumulative):
                break
        size -= 1
        scratch.heap[0] = scratch.heap[size]
        sift(scratch.heap, size, 0, scratch.cost)
    return size, have


@kernel
def evaluate_spread(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, least: float, scratch: Scratch
) -> tuple[float, int, int]:
    """Best (score, host, workers on it) with one PS host and workers anywhere; only scores >= `least` matter."""
    w, n, d = rows.worker[i], rows.number[i], rows.duration[i]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + rows.ps[i]]
    load_window(tables, job, rows, i, a, scratch)
    ps_cost = cheapest_host(tables, rows, i, scratch)
    if ps_cost < 0 or scratch.room.sum() < n:
        return WORST, -1, 0
    scratch.first_unit[:] = FAR
    scratch.room[:] = np.minimum(scratch.room, n)
    scratch.cumulative[0] = 0
    size = make_heap(scratch.heap, scratch.cost, scratch.room)
    size, have = take_cheapest(scratch, size, 0, n)
    if score(job, a, a + d, quantum * scratch.cumulative[n] + ps_quantum * ps_cost) < least:
        return WORST, -1, 0
    size, have = take_cheapest(scratch, size, have, 2 * n)
    return best_host(tables, job, rows, i, a, least, have, scratch)


@kernel
def best_host(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, least: float, have: int, scratch: Scratch
) -> tuple[float, int, int]:
    """Try every PS host with every number of workers beside the PSs; the others are the cheapest elsewhere."""
    w, n, d = rows.worker[i], rows.number[i], rows.duration[i]
    pss = tables.pss[w, rows.ps[i]]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + rows.ps[i]]
    best, host, near = WORST, -1, 0
    for h in range(len(job.usable)):
        most = min(scratch.room[h], n - 1)
        k = pss[n - most]
        if k > scratch.ps_room[h]:
            continue
        floor = quantum * scratch.cumulative[n] + ps_quantum * (k * scratch.ps_cost[h])
        if score(job, a, a + d, floor) < max(least, best):
            continue
        for g in range(most + 1):
            k, m = pss[n - g], n - g
            if k > scratch.ps_room[h]:
                continue
            rest = workers_elsewhere(scratch, h, m, have)
            if rest < 0:
                continue
            cost = quantum * (rest + g * scratch.cost[h]) + ps_quantum * (k * scratch.ps_cost[h])
            got = score(job, a, a + d, cost)
            if got > best and got >= least and fits_together(tables, rows, i, a, d + job.tail, h, g, k):
                best, host, near = got, h, g
    return best, host, near


@kernel
def workers_elsewhere(scratch: Scratch, h: int, m: int, have: int) -> int:
    """Cost of the m cheapest workers not on server h, -1 if there are not so many."""
    if scratch.first_unit[h] >= m:
        return scratch.cumulative[m] if m <= have else -1
    beyond = m + scratch.room[h]
    return scratch.cumulative[beyond] - scratch.room[h] * scratch.cost[h] if beyond <= have else -1


class Candidates(NamedTuple):
    """Candidates that may win, as a heap: greatest bound first, then least key."""

    bound: Floats
    key: Ints
    row: Counts
    start: Counts
    heap: Ints


@kernel
def tie_key(tables: Tables, rows: Rows, i: int, a: int) -> int:
    """(completion, start, workers, worker type, PS type) as one number in the same order."""
    workers, _, slots = tables.cheap.shape
    pss = len(tables.demand) - workers
    key = ((a + rows.duration[i]) * (slots + 1) + a) * (1 << 24) + rows.number[i]
    return int((key * workers + rows.worker[i]) * pss + rows.ps[i])


@kernel
def precedes(c: Candidates, x: int, y: int) -> bool:
    """Is candidate x to be looked at before y?"""
    if c.bound[x] != c.bound[y]:
        return bool(c.bound[x] > c.bound[y])
    if c.key[x] != c.key[y]:
        return bool(c.key[x] < c.key[y])
    return x < y


@kernel
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


@kernel
def collect(tables: Tables, rows: Rows, bounds: Floats, greatest: Floats, least: float) -> Candidates:
    """Every candidate whose bound is at least `least`."""
    size = 0
    for i in range(len(greatest)):
        if greatest[i] >= least:
            for a in range(bounds.shape[1]):
                if bounds[i, a] >= least and bounds[i, a] > WORST:
                    size += 1
    c = Candidates(
        np.empty(size), np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int32), np.arange(size)
    )
    x = 0
    for i in range(len(greatest)):
        if greatest[i] >= least:
            for a in range(bounds.shape[1]):
                if bounds[i, a] >= least and bounds[i, a] > WORST:
                    c.bound[x], c.key[x], c.row[x], c.start[x] = bounds[i, a], tie_key(tables, rows, i, a), i, a
                    x += 1
    for at in range(size // 2 - 1, -1, -1):
        sift_candidates(c, size, at)
    return c


@kernel
def evaluate(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, least: float, scratch: Scratch
) -> tuple[float, int, int]:
    """Best (score, host, workers on it) of one candidate."""
    if rows.spread[i] == 0:
        return evaluate_together(tables, job, rows, i, a, least, scratch)
    return evaluate_spread(tables, job, rows, i, a, least, scratch)


@kernel
def make_scratch(servers: int, width: int) -> Scratch:
    """Room for one evaluation."""
    return Scratch(
        np.empty(servers, np.int64),
        np.empty(servers, np.int32),
        np.empty(servers, np.int64),
        np.empty(servers, np.int32),
        np.empty(servers, np.int32),
        np.empty(servers, np.int64),
        np.empty(3 * width + 2, np.int64),
    )


@kernel
def search(tables: Tables, job: Job) -> tuple[Ints, Ints]:
    """The best candidate: (spread, worker type, PS type, workers, duration, start, host, near), workers by server.

    The first array is empty when no candidate scores above the threshold.
    """
    rows = list_rows(tables, job)
    slots = tables.room.shape[2]
    bounds = np.empty((len(rows.number), slots))
    greatest = np.empty(len(rows.number))
    for i in range(len(greatest)):
        greatest[i] = bound_row(tables, job, rows, i, bounds[i])
    scratch = make_scratch(len(job.usable), job.durations.shape[3])
    best = job.above if job.mode == PAYOFF else WORST
    best_key, found, where, host, near = -1, -1, -1, -1, 0
    if len(greatest) > 0:
        # One exact evaluation first: its score keeps most candidates out of the heap.
        i = greatest.argmax()
        a = bounds[i].argmax()
        if bounds[i, a] > best:
            got, h, g = evaluate(tables, job, rows, i, a, best, scratch)
            if got > best:
                best, best_key, found, where, host, near = got, tie_key(tables, rows, i, a), i, a, h, g
    c = collect(tables, rows, bounds, greatest, best)
    size = len(c.heap)
    while size > 0:
        x = c.heap[0]
        if c.bound[x] < best:
            break
        if c.bound[x] > best or c.key[x] <= best_key:
            i, a = c.row[x], c.start[x]
            got, h, g = evaluate(tables, job, rows, i, a, best, scratch)
            tie = got == best and (c.key[x] < best_key or (c.key[x] == best_key and h < host)) and h >= 0
            if got > best or tie:
                best, best_key, found, where, host, near = got, c.key[x], i, a, h, g
        size -= 1
        c.heap[0] = c.heap[size]
        if size > 0:
            sift_candidates(c, size, 0)
    if found < 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return describe(tables, job, rows, found, where, host, near, scratch)


@kernel
def describe(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, host: int, near: int, scratch: Scratch
) -> tuple[Ints, Ints]:
    """The chosen candidate, with the number of workers on each server."""
    load_window(tables, job, rows, i, a, scratch)
    counts = np.zeros(len(job.usable), np.int64)
    counts[host] = near
    left = rows.number[i] - near
    scratch.room[host] = 0
    size = make_heap(scratch.heap, scratch.cost, scratch.room)
    while left > 0:
        s = scratch.heap[0]
        counts[s] = min(left, scratch.room[s])
        left -= counts[s]
        size -= 1
        scratch.heap[0] = scratch.heap[size]
        sift(scratch.heap, size, 0, scratch.cost)
    chosen = np.array(
        [rows.spread[i], rows.worker[i], rows.ps[i], rows.number[i], rows.duration[i], a, host, near], dtype=np.int64
    )
    return chosen, counts
