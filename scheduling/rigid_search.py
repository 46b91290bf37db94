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
FIRST_TRIES = 8
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
def glance(tables: Tables, job: Job, rows: Rows, least: Ints, order: Floats) -> None:
    """A rough upper bound of each row's score, from the least price of its machines in any slot (`least`, M)."""
    slots = tables.room.shape[2]
    for i in range(len(order)):
        w, m = rows.worker[i], tables.cheap.shape[0] + rows.ps[i]
        held = rows.duration[i] + job.tail
        cost = tables.quantum[w] * (rows.number[i] * held * least[w]) + tables.quantum[m] * (held * least[m])
        order[i] = score(job, slots - held, job.first + rows.duration[i], cost)


@kernel
def bound_row(tables: Tables, job: Job, rows: Rows, i: int, out: Floats) -> float:
    """Upper bounds of the score for every start of one row, into `out` (T); returns the greatest."""
    out[:] = WORST
    last = tables.room.shape[2] - rows.duration[i] - job.tail
    k = pss_needed(tables, rows, i)
    if k > 0:
        bound_small(tables, job, rows, i, k, last, out)
    for hub in range(len(tables.hubs)):
        if rows.spread[i] == 0:
            score_on_hub(tables, job, rows, i, hub, last, out)
        else:
            bound_at_hub(tables, job, rows, i, hub, last, out)
    greatest = WORST
    for a in range(job.first, last + 1):
        greatest = max(greatest, out[a])
    return greatest


@kernel
def pss_needed(tables: Tables, rows: Rows, i: int) -> int:
    """The least number of PSs a small host must take, 0 if none can."""
    w, n = rows.worker[i], rows.number[i]
    near, pss = tables.most_small[w], tables.most_small[tables.cheap.shape[0] + rows.ps[i]]
    k = 1
    if rows.spread[i] == 0:
        return 1 if near >= n and pss > 0 else 0
    k = tables.pss[w, rows.ps[i], n - min(near, n - 1)]
    return k if k <= pss else 0


@kernel
def workers_cost(cheap: Ints, n: int, a: int, b: int) -> int:
    """At least what n workers cost in slots [a, b); `cheap` is (N + 1) x (T + 1)."""
    tabled = min(n, len(cheap) - 1)
    cost = cheap[tabled, b] - cheap[tabled, a]
    return cost if tabled == n else cost // tabled * n


@kernel
def bound_small(tables: Tables, job: Job, rows: Rows, i: int, k: int, last: int, out: Floats) -> None:
    """Bounds where the PSs are on a small server: the cheapest workers and PS host of each slot apart."""
    w, p, n, d = rows.worker[i], rows.ps[i], rows.number[i], rows.duration[i]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + p]
    lasts = tables.lasts[w, min(n, tables.cheap.shape[1] - 1)]
    tabled = min(k, tables.ps_cheap.shape[1] - 1)
    ps_cheap, ps_lasts = tables.ps_cheap[p, tabled], tables.ps_lasts[p, tabled]
    for a in range(job.first, last + 1):
        b = a + d + job.tail
        if lasts[a] >= b and ps_lasts[a] >= b:
            workers = workers_cost(tables.cheap[w], n, a, b)
            cost = quantum * workers + ps_quantum * (k * (ps_cheap[b] - ps_cheap[a]))
            out[a] = max(out[a], score(job, a, a + d, cost))


@kernel
def bound_at_hub(tables: Tables, job: Job, rows: Rows, i: int, hub: int, last: int, out: Floats) -> None:
    """Bounds where the PSs are on one hub: its own room and price, and the cheapest workers of each slot."""
    w, p, n, d = rows.worker[i], rows.ps[i], rows.number[i], rows.duration[i]
    m, held = tables.cheap.shape[0] + p, d + job.tail
    quantum, ps_quantum = tables.quantum[w], tables.quantum[m]
    lasts = tables.lasts[w, min(n, tables.cheap.shape[1] - 1)]
    pss, price = tables.pss[w, p], tables.hub_price[hub, m]
    level = level_of(held)
    room, ps_room, back = tables.hub_room[hub, w, level], tables.hub_room[hub, m, level], held - (1 << level)
    for a in range(max(job.first, job.usable[tables.hubs[hub]]), last + 1):
        b = a + held
        k = pss[n - min(min(room[a], room[a + back]), n - 1)]
        if k <= ps_room[a] and k <= ps_room[a + back] and lasts[a] >= b:
            workers = workers_cost(tables.cheap[w], n, a, b)
            cost = quantum * workers + ps_quantum * (k * (price[b] - price[a]))
            out[a] = max(out[a], score(job, a, a + d, cost))


@kernel
def score_on_hub(tables: Tables, job: Job, rows: Rows, i: int, hub: int, last: int, out: Floats) -> None:
    """Scores with everything on one hub: exact, but for resources that workers and PSs share."""
    w, p, n, d = rows.worker[i], rows.ps[i], rows.number[i], rows.duration[i]
    m, held = tables.cheap.shape[0] + p, d + job.tail
    quantum, ps_quantum = tables.quantum[w], tables.quantum[m]
    price, ps_price = tables.hub_price[hub, w], tables.hub_price[hub, m]
    level = level_of(held)
    room, ps_room, back = tables.hub_room[hub, w, level], tables.hub_room[hub, m, level], held - (1 << level)
    for a in range(max(job.first, job.usable[tables.hubs[hub]]), last + 1):
        if min(room[a], room[a + back]) >= n and min(ps_room[a], ps_room[a + back]) > 0:
            cost = quantum * (n * (price[a + held] - price[a])) + ps_quantum * (ps_price[a + held] - ps_price[a])
            out[a] = max(out[a], score(job, a, a + d, cost))


@kernel
def level_of(held: int) -> int:
    """The level of the sparse table two of whose windows cover `held` slots."""
    level = 0
    while (2 << level) <= held:
        level += 1
    return level


@kernel
def load_window(tables: Tables, job: Job, rows: Rows, i: int, a: int, scratch: Scratch) -> None:
    """Room and price of workers and PSs on every server over the window of a candidate, by sparse table and sums."""
    w, m = rows.worker[i], tables.cheap.shape[0] + rows.ps[i]
    held = rows.duration[i] + job.tail
    b = a + held
    level = level_of(held)
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
    row: Ints
    start: Ints
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
def collect(tables: Tables, rows: Rows, bounds: Floats, looked: Ints, least: float) -> Candidates:
    """Every candidate of the rows looked at whose bound is at least `least`."""
    size = 0
    for j in range(len(looked)):
        for a in range(bounds.shape[1]):
            if bounds[j, a] >= least and bounds[j, a] > WORST:
                size += 1
    c = Candidates(
        np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64), np.arange(size)
    )
    x = 0
    for j in range(len(looked)):
        i = looked[j]
        for a in range(bounds.shape[1]):
            if bounds[j, a] >= least and bounds[j, a] > WORST:
                c.bound[x], c.key[x], c.row[x], c.start[x] = bounds[j, a], tie_key(tables, rows, i, a), i, a
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


class Best(NamedTuple):
    """The best candidate so far; row -1 while there is none."""

    score: float
    key: int
    row: int
    start: int
    host: int
    near: int


@kernel
def improve(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, key: int, best: Best, scratch: Scratch
) -> Best:
    """Evaluate one candidate exactly; the better of it and the best so far."""
    got, host, near = evaluate(tables, job, rows, i, a, best.score, scratch)
    tie = got == best.score and host >= 0 and best.row >= 0
    if tie and key == best.key:
        tie = 2 * host + rows.spread[i] < 2 * best.host + rows.spread[best.row]
    elif tie:
        tie = key < best.key
    if got > best.score or tie:
        return Best(float(got), int(key), int(i), int(a), int(host), int(near))
    return best


@kernel
def search(tables: Tables, job: Job) -> tuple[Ints, Ints]:
    """The best candidate: (spread, worker type, PS type, workers, duration, start, host, near), workers by server.

    The first array is empty when no candidate scores above the threshold.
    """
    rows = list_rows(tables, job)
    scratch = make_scratch(len(job.usable), job.durations.shape[3])
    # A negative key is never undercut, so the threshold itself does not win a tie.
    best = Best(float(job.above) if job.mode == PAYOFF else WORST, -1, -1, -1, -1, 0)
    order = np.empty(len(rows.number))
    glance(tables, job, rows, cheapest_slots(tables), order)
    looked = np.argsort(-order)
    bounds = np.empty((len(order), tables.room.shape[2]))
    seen, tried = 0, 0
    while seen < len(order) and order[looked[seen]] >= best.score and order[looked[seen]] > WORST:
        i = looked[seen]
        greatest = bound_row(tables, job, rows, i, bounds[seen])
        if greatest > best.score and tried < FIRST_TRIES:
            # Early exact scores keep most rows from being looked at and most candidates out of the heap.
            a = bounds[seen].argmax()
            best = improve(tables, job, rows, i, a, tie_key(tables, rows, i, a), best, scratch)
            tried += 1
        seen += 1
    c = collect(tables, rows, bounds, looked[:seen], best.score)
    best = exhaust(tables, job, rows, c, best, scratch)
    if best.row < 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return describe(tables, job, rows, best.row, best.start, best.host, best.near, scratch)


@kernel
def exhaust(tables: Tables, job: Job, rows: Rows, c: Candidates, best: Best, scratch: Scratch) -> Best:
    """Evaluate candidates, best bound first, until no bound can win."""
    size = len(c.heap)
    while size > 0:
        x = c.heap[0]
        if c.bound[x] < best.score:
            break
        if c.bound[x] > best.score or c.key[x] <= best.key:
            best = improve(tables, job, rows, c.row[x], c.start[x], c.key[x], best, scratch)
        size -= 1
        c.heap[0] = c.heap[size]
        if size > 0:
            sift_candidates(c, size, 0)
    return best


@kernel
def cheapest_slots(tables: Tables) -> Ints:
    """A lower bound of the price of each machine type in any slot, M."""
    workers = tables.cheap.shape[0]
    least = np.zeros(len(tables.demand), np.int64)
    for m in range(len(least)):
        lowest = FAR
        if m < workers:
            for t in range(tables.room.shape[2]):
                if tables.lasts[m, 1, t] > t:
                    lowest = min(lowest, tables.cheap[m, 1, t + 1] - tables.cheap[m, 1, t])
        else:
            p = m - workers
            for t in range(tables.room.shape[2]):
                if tables.ps_lasts[p, 1, t] > t:
                    lowest = min(lowest, tables.ps_cheap[p, 1, t + 1] - tables.ps_cheap[p, 1, t])
                for hub in range(len(tables.hubs)):
                    if tables.hub_room[hub, m, 0, t] > 0:
                        lowest = min(lowest, tables.hub_price[hub, m, t + 1] - tables.hub_price[hub, m, t])
        least[m] = 0 if lowest == FAR else lowest
    return least


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
