"""The exact best placement of one rigid candidate: types, number of workers and window are given."""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.rigid.compiled import Counts, inner, make_heap, sift
from scheduling.best_response.rigid.job import WORST, Job, Rows, is_ring, level_of, score
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


@inner
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


@inner
def evaluate(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, least: float, scratch: Scratch
) -> tuple[float, int, int]:
    """Best (score, host, workers on it) of one candidate."""
    if rows.spread[i] == 0:
        return evaluate_together(tables, job, rows, i, a, least, scratch)
    return evaluate_spread(tables, job, rows, i, a, least, scratch)


@inner
def evaluate_together(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, least: float, scratch: Scratch
) -> tuple[float, int, int]:
    """Best (score, host, workers on it) with everything on one server; only scores of at least `least` matter."""
    w, n, d = rows.worker[i], rows.number[i], rows.duration[i]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + rows.ps[i]]
    best, host, ps = WORST, -1, tables.pss[w, rows.ps[i], 0]
    load_window(tables, job, rows, i, a, scratch)
    for h in range(len(job.usable)):
        if scratch.room[h] < n or scratch.ps_room[h] < 1:
            continue
        cost = quantum * (n * scratch.cost[h]) + ps_quantum * scratch.ps_cost[h]
        got = score(job, a, a + d, cost)
        if got > best and got >= least and fits_together(tables, rows, i, a, d + job.tail, h, n, ps):
            best, host = got, h
    return best, host, n


@inner
def evaluate_spread(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, least: float, scratch: Scratch
) -> tuple[float, int, int]:
    """Best (score, host, workers on it), one PS host or a ring, workers anywhere; only scores >= `least` matter."""
    w, n, d = rows.worker[i], rows.number[i], rows.duration[i]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + rows.ps[i]]
    load_window(tables, job, rows, i, a, scratch)
    ps_cost = cheapest_host(tables, rows, i, scratch)
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
    floor = score(job, a, a + d, quantum * scratch.cumulative[n] + ps_quantum * ps_cost)
    if floor < least:
        return WORST, -1, 0
    if is_ring(tables, rows.ps[i]):
        # There is no host: a number beyond all servers leaves equals to those on one server.
        return floor, len(job.usable), 0
    size, have = take_cheapest(scratch, size, have, 2 * n)
    return best_host(tables, job, rows, i, a, least, have, scratch)


@inner
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


@inner
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


@inner
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


@inner
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


@inner
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


@inner
def workers_elsewhere(scratch: Scratch, h: int, m: int, have: int) -> int:
    """Cost of the m cheapest workers not on server h, -1 if there are not so many."""
    if scratch.first_unit[h] >= m:
        return scratch.cumulative[m] if m <= have else -1
    beyond = m + scratch.room[h]
    return scratch.cumulative[beyond] - scratch.room[h] * scratch.cost[h] if beyond <= have else -1


@inner
def describe(
    tables: Tables, job: Job, rows: Rows, i: int, a: int, host: int, near: int, scratch: Scratch
) -> tuple[Ints, Ints]:
    """The chosen candidate, with the number of workers on each server."""
    load_window(tables, job, rows, i, a, scratch)
    counts = np.zeros(len(job.usable), np.int64)
    left = rows.number[i] - near
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
        [rows.spread[i], rows.worker[i], rows.ps[i], rows.number[i], rows.duration[i], a, host, near], dtype=np.int64
    )
    return chosen, counts
