"""The exact best placement of one rigid candidate: types, number of workers and window are given."""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.rigid.compiled import Counts, borrowing, inlined, make_heap, sift
from scheduling.best_response.rigid.job import WORST, Job, Options, is_ring, level_of, score
from scheduling.best_response.rigid.tables import Tables
from scheduling.model.types import Ints

FAR = 1 << 60


class Scratch(NamedTuple):
    """Arrays of one evaluation, S each, and the cost of the cheapest u workers, for any u that was needed."""

    cost: Ints
    room: Counts
    ps_cost: Ints
    ps_room: Counts
    heap: Counts
    first_unit: Ints
    cumulative: Ints


@inlined
def make_scratch(servers: int, width: int) -> Scratch:
    """Allocate the arrays of one evaluation."""
    return Scratch(
        np.empty(servers, np.int64),
        np.empty(servers, np.int32),
        np.empty(servers, np.int64),
        np.empty(servers, np.int32),
        np.empty(servers, np.int32),
        np.empty(servers, np.int64),
        np.empty(3 * width + 2, np.int64),
    )


@inlined
def evaluate(
    tables: Tables, job: Job, options: Options, i: int, a: int, least: float, scratch: Scratch
) -> tuple[float, int, int]:
    """Return the best (score, host, workers on the host) of one candidate."""
    if options.spread[i] == 0:
        return evaluate_together(tables, job, options, i, a, least, scratch)
    return evaluate_spread(tables, job, options, i, a, least, scratch)


@inlined
def evaluate_together(
    tables: Tables, job: Job, options: Options, i: int, a: int, least: float, scratch: Scratch
) -> tuple[float, int, int]:
    """Return the best (score, host, workers on it) with everything on one server, if the score is at least `least`."""
    w, n, d = options.worker[i], options.number[i], options.duration[i]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + options.ps[i]]
    best, host, ps = WORST, -1, tables.pss[w, options.ps[i], 0]
    load_window(tables, job, options, i, a, scratch)
    for h in range(len(job.usable)):
        if scratch.room[h] < n or scratch.ps_room[h] < 1:
            continue
        cost = quantum * (n * scratch.cost[h]) + ps_quantum * scratch.ps_cost[h]
        got = score(job, a, a + d, cost)
        if got > best and got >= least and fits_together(tables, options, i, a, d + job.tail, h, n, ps):
            best, host = got, h
    return best, host, n


@inlined
def evaluate_spread(
    tables: Tables, job: Job, options: Options, i: int, a: int, least: float, scratch: Scratch
) -> tuple[float, int, int]:
    """Return the best (score, host, workers on it) with one PS host or a ring, if the score is at least `least`."""
    w, n, d = options.worker[i], options.number[i], options.duration[i]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + options.ps[i]]
    load_window(tables, job, options, i, a, scratch)
    ps_cost = cheapest_host(tables, options, i, scratch)
    room = 0
    for s in range(len(scratch.room)):
        scratch.room[s] = min(scratch.room[s], n)
        scratch.first_unit[s] = FAR
        room += scratch.room[s]
    if ps_cost < 0 or room < n:
        return WORST, -1, 0
    scratch.cumulative[0] = 0
    size = make_heap(scratch.heap, scratch.cost, scratch.room)
    size, have = take_cheapest(scratch, size, 0, n)
    bound = score(job, a, a + d, quantum * scratch.cumulative[n] + ps_quantum * ps_cost)
    if bound < least:
        return WORST, -1, 0
    if is_ring(tables, options.ps[i]):
        # There is no host: a number beyond all servers leaves equals to those on one server.
        return bound, len(job.usable), 0
    size, have = take_cheapest(scratch, size, have, 2 * n)
    return best_host(tables, job, options, i, a, least, have, scratch)


@inlined
def best_host(
    tables: Tables, job: Job, options: Options, i: int, a: int, least: float, have: int, scratch: Scratch
) -> tuple[float, int, int]:
    """Try every PS host with every number of workers on it; the other workers are the cheapest ones elsewhere."""
    w, n, d = options.worker[i], options.number[i], options.duration[i]
    pss = tables.pss[w, options.ps[i]]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + options.ps[i]]
    best, host, near = WORST, -1, 0
    for h in range(len(job.usable)):
        most = min(scratch.room[h], n - 1)
        k = pss[n - most]
        if k > scratch.ps_room[h]:
            continue
        least_cost = quantum * scratch.cumulative[n] + ps_quantum * (k * scratch.ps_cost[h])
        if score(job, a, a + d, least_cost) < max(least, best):
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
            if got > best and got >= least and fits_together(tables, options, i, a, d + job.tail, h, g, k):
                best, host, near = got, h, g
    return best, host, near


@borrowing
def load_window(tables: Tables, job: Job, options: Options, i: int, a: int, scratch: Scratch) -> None:
    """Compute room and price of workers and PSs on every server in a candidate's window, by sparse tables and sums."""
    w, m = options.worker[i], tables.cheap.shape[0] + options.ps[i]
    held = options.duration[i] + job.tail
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


@borrowing
def fits_together(tables: Tables, options: Options, i: int, a: int, held: int, s: int, near: int, pss: int) -> bool:
    """Return whether `near` workers and `pss` PSs fit one server in the whole window, resource by resource."""
    w, p = options.worker[i], options.ps[i]
    if not tables.shared[w, p]:
        return True
    ps = tables.cheap.shape[0] + p
    for r in range(tables.demand.shape[1]):
        need = near * tables.demand[w, r] + pss * tables.demand[ps, r]
        for t in range(a, a + held):
            if tables.free[t, s, r] < need:
                return False
    return True


@inlined
def cheapest_host(tables: Tables, options: Options, i: int, scratch: Scratch) -> int:
    """Return the least cost of a spread candidate's PSs on any host, wherever its workers are; -1 if none fits."""
    pss = tables.pss[options.worker[i], options.ps[i]]
    n = options.number[i]
    best = -1
    for h in range(len(scratch.room)):
        if scratch.ps_room[h] > 0:
            k = pss[n - min(scratch.room[h], n - 1)]
            cost = k * scratch.ps_cost[h]
            if k <= scratch.ps_room[h] and (best < 0 or cost < best):
                best = cost
    return best


@borrowing
def take_cheapest(scratch: Scratch, size: int, have: int, units: int) -> tuple[int, int]:
    """Take the cheapest workers until there are `units` or none is left; return (heap size, workers)."""
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


@inlined
def workers_elsewhere(scratch: Scratch, h: int, m: int, have: int) -> int:
    """Return the cost of the m cheapest workers not on server h; -1 if there are fewer."""
    if scratch.first_unit[h] >= m:
        return scratch.cumulative[m] if m <= have else -1
    beyond = m + scratch.room[h]
    return scratch.cumulative[beyond] - scratch.room[h] * scratch.cost[h] if beyond <= have else -1


@inlined
def describe(
    tables: Tables, job: Job, options: Options, i: int, a: int, host: int, near: int, scratch: Scratch
) -> tuple[Ints, Ints]:
    """Return the chosen candidate with the number of workers on each server."""
    load_window(tables, job, options, i, a, scratch)
    counts = np.zeros(len(job.usable), np.int64)
    left = options.number[i] - near
    if host < len(counts):
        counts[host] = near
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
        [options.spread[i], options.worker[i], options.ps[i], options.number[i], options.duration[i], a, host, near],
        dtype=np.int64,
    )
    return chosen, counts
