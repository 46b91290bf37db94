"""Upper bounds of the score of candidates of the rigid search, O(1) each by sums and sparse tables.

The cheapest workers of every single slot and the cheapest host of every single slot bound what a candidate costs;
for the few hubs their own room and price over the window are used. All bounds are computed in the same order of
operations as exact scores, and rounding is monotone, so no bound is ever below the score.
"""

import numpy as np

from scheduling.best_response.rigid.compiled import borrowing, inlined
from scheduling.best_response.rigid.job import WORST, Job, Options, level_of, score
from scheduling.best_response.rigid.tables import Tables
from scheduling.model.types import Floats, Ints

FAR = 1 << 60


@inlined
def cheapest_slots(tables: Tables, job: Job) -> Ints:
    """Return a lower bound of the price of each machine type in any slot that the job may hold, M numbers."""
    slots = range(job.first, job.latest + job.tail)
    workers = tables.cheap.shape[0]
    least = np.zeros(len(tables.demand), np.int64)
    for m in range(len(least)):
        lowest = FAR
        if m < workers:
            for t in slots:
                if tables.lasts[m, 1, t] > t:
                    lowest = min(lowest, tables.cheap[m, 1, t + 1] - tables.cheap[m, 1, t])
        else:
            p = m - workers
            for t in slots:
                if tables.ps_lasts[p, 1, t] > t:
                    lowest = min(lowest, tables.ps_cheap[p, 1, t + 1] - tables.ps_cheap[p, 1, t])
                for hub in range(len(tables.hubs)):
                    if tables.hub_room[hub, m, 0, t] > 0:
                        lowest = min(lowest, tables.hub_price[hub, m, t + 1] - tables.hub_price[hub, m, t])
        least[m] = 0 if lowest == FAR else lowest
    return least


@inlined
def rough_bounds(tables: Tables, job: Job, options: Options, order: Floats) -> None:
    """Write to `order` a rough upper bound of each option's score: its workers alone, or the least prices of any slot.

    Most options cannot win with their workers alone, and options that differ in their PSs share that bound.
    """
    least, alone = cheapest_slots(tables, job), bound_workers(tables, job, options)
    for i in range(len(order)):
        w, m = options.worker[i], tables.cheap.shape[0] + options.ps[i]
        held = options.duration[i] + job.tail
        cost = tables.quantum[w] * (options.number[i] * held * least[w]) + tables.quantum[m] * (held * least[m])
        bound = score(job, job.latest - options.duration[i], options.first[i] + options.duration[i], cost)
        order[i] = min(bound, alone[w, options.number[i]])


@inlined
def bound_workers(tables: Tables, job: Job, options: Options) -> Floats:
    """Return upper bounds of the score of all options with n workers of a type, if PSs cost nothing, W x (N + 1)."""
    slots = tables.room.shape[2]
    shortest = np.full((tables.cheap.shape[0], job.durations.shape[3]), slots + 1)
    for i in range(len(options.number)):
        w, n = options.worker[i], options.number[i]
        shortest[w, n] = min(shortest[w, n], options.duration[i])
    greatest = np.full(shortest.shape, WORST)
    for w in range(shortest.shape[0]):
        for n in range(1, shortest.shape[1]):
            d = shortest[w, n]
            lasts = tables.lasts[w, min(n, tables.cheap.shape[1] - 1)]
            for a in range(job.first, job.latest - d + 1):
                b = a + d + job.tail
                if lasts[a] >= b:
                    cost = tables.quantum[w] * workers_cost(tables.cheap[w], n, a, b)
                    greatest[w, n] = max(greatest[w, n], score(job, a, a + d, cost))
    return greatest


@inlined
def bound_option(tables: Tables, job: Job, options: Options, i: int, out: Floats) -> tuple[float, int]:
    """Write to `out` (T) upper bounds of the score for every start of one option; return the greatest and its start."""
    out[:] = WORST
    last = job.latest - options.duration[i]
    k = pss_needed(tables, options, i)
    if k > 0:
        bound_small(tables, job, options, i, k, last, out)
    for hub in range(len(tables.hubs)):
        if options.spread[i] == 0:
            score_on_hub(tables, job, options, i, hub, last, out)
        else:
            bound_at_hub(tables, job, options, i, hub, last, out)
    greatest, start = WORST, options.first[i]
    for a in range(options.first[i], last + 1):
        if out[a] > greatest:
            greatest, start = out[a], a
    return greatest, start


@inlined
def pss_needed(tables: Tables, options: Options, i: int) -> int:
    """Return the least number of PSs that a small host must take; 0 if none can."""
    w, n = options.worker[i], options.number[i]
    near, pss = tables.most_small[w], tables.most_small[tables.cheap.shape[0] + options.ps[i]]
    k = 1
    if options.spread[i] == 0:
        return 1 if near >= n and pss > 0 else 0
    k = tables.pss[w, options.ps[i], n - min(near, n - 1)]
    return k if k <= pss else 0


@borrowing
def workers_cost(cheap: Ints, n: int, a: int, b: int) -> int:
    """Return a lower bound of the cost of n workers in slots [a, b); `cheap` is (N + 1) x (T + 1)."""
    tabled = min(n, len(cheap) - 1)
    cost = cheap[tabled, b] - cheap[tabled, a]
    return int(cost if tabled == n else cost // tabled * n)


@inlined
def bound_small(tables: Tables, job: Job, options: Options, i: int, k: int, last: int, out: Floats) -> None:
    """Raise `out` to the bounds with the PSs on a small server, from the cheapest workers and PS host of each slot."""
    w, p, n, d = options.worker[i], options.ps[i], options.number[i], options.duration[i]
    quantum, ps_quantum = tables.quantum[w], tables.quantum[tables.cheap.shape[0] + p]
    lasts = tables.lasts[w, min(n, tables.cheap.shape[1] - 1)]
    tabled = min(k, tables.ps_cheap.shape[1] - 1)
    ps_cheap, ps_lasts = tables.ps_cheap[p, tabled], tables.ps_lasts[p, tabled]
    for a in range(options.first[i], last + 1):
        b = a + d + job.tail
        if lasts[a] >= b and ps_lasts[a] >= b:
            workers = workers_cost(tables.cheap[w], n, a, b)
            cost = quantum * workers + ps_quantum * (k * (ps_cheap[b] - ps_cheap[a]))
            out[a] = max(out[a], score(job, a, a + d, cost))


@inlined
def bound_at_hub(tables: Tables, job: Job, options: Options, i: int, hub: int, last: int, out: Floats) -> None:
    """Raise `out` to the bounds with the PSs on one hub, from its own room and price and the cheapest workers."""
    w, p, n, d = options.worker[i], options.ps[i], options.number[i], options.duration[i]
    m, held = tables.cheap.shape[0] + p, d + job.tail
    quantum, ps_quantum = tables.quantum[w], tables.quantum[m]
    lasts = tables.lasts[w, min(n, tables.cheap.shape[1] - 1)]
    pss, price = tables.pss[w, p], tables.hub_price[hub, m]
    level = level_of(held)
    room, ps_room, back = tables.hub_room[hub, w, level], tables.hub_room[hub, m, level], held - (1 << level)
    for a in range(max(options.first[i], job.usable[tables.hubs[hub]]), last + 1):
        b = a + held
        k = pss[n - min(min(room[a], room[a + back]), n - 1)]
        if k <= ps_room[a] and k <= ps_room[a + back] and lasts[a] >= b:
            workers = workers_cost(tables.cheap[w], n, a, b)
            cost = quantum * workers + ps_quantum * (k * (price[b] - price[a]))
            out[a] = max(out[a], score(job, a, a + d, cost))


@inlined
def score_on_hub(tables: Tables, job: Job, options: Options, i: int, hub: int, last: int, out: Floats) -> None:
    """Raise `out` to the scores with everything on one hub: exact except for resources that workers and PSs share."""
    w, p, n, d = options.worker[i], options.ps[i], options.number[i], options.duration[i]
    m, held = tables.cheap.shape[0] + p, d + job.tail
    quantum, ps_quantum = tables.quantum[w], tables.quantum[m]
    price, ps_price = tables.hub_price[hub, w], tables.hub_price[hub, m]
    level = level_of(held)
    room, ps_room, back = tables.hub_room[hub, w, level], tables.hub_room[hub, m, level], held - (1 << level)
    for a in range(max(options.first[i], job.usable[tables.hubs[hub]]), last + 1):
        if min(room[a], room[a + back]) >= n and min(ps_room[a], ps_room[a + back]) > 0:
            cost = quantum * (n * (price[a + held] - price[a])) + ps_quantum * (ps_price[a + held] - ps_price[a])
            out[a] = max(out[a], score(job, a, a + d, cost))
