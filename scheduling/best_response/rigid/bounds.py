"""Upper bounds of what a candidate of the rigid search can score, O(1) each by sums and sparse tables.

The cheapest workers of every single slot and the cheapest host of every single slot bound what a candidate costs;
for the few hubs their own room and price over the window are used. All bounds are computed in the same order of
operations as exact scores, and rounding is monotone, so no bound is ever below the score.
"""

import numpy as np

from scheduling.best_response.rigid.compiled import inner
from scheduling.best_response.rigid.job import WORST, Job, Rows, level_of, score
from scheduling.best_response.rigid.tables import Tables
from scheduling.model.types import Floats, Ints

FAR = 1 << 60


@inner
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


@inner
def glance(tables: Tables, job: Job, rows: Rows, least: Ints, order: Floats) -> None:
    """A rough upper bound of each row's score, from the least price of its machines in any slot (`least`, M)."""
    slots = tables.room.shape[2]
    for i in range(len(order)):
        w, m = rows.worker[i], tables.cheap.shape[0] + rows.ps[i]
        held = rows.duration[i] + job.tail
        cost = tables.quantum[w] * (rows.number[i] * held * least[w]) + tables.quantum[m] * (held * least[m])
        order[i] = score(job, slots - held, job.first + rows.duration[i], cost)


@inner
def bound_row(tables: Tables, job: Job, rows: Rows, i: int, out: Floats) -> tuple[float, int]:
    """Upper bounds of the score for every start of one row, into `out` (T); returns the greatest and its start."""
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
    greatest, start = WORST, job.first
    for a in range(job.first, last + 1):
        if out[a] > greatest:
            greatest, start = out[a], a
    return greatest, start


@inner
def pss_needed(tables: Tables, rows: Rows, i: int) -> int:
    """The least number of PSs a small host must take, 0 if none can."""
    w, n = rows.worker[i], rows.number[i]
    near, pss = tables.most_small[w], tables.most_small[tables.cheap.shape[0] + rows.ps[i]]
    k = 1
    if rows.spread[i] == 0:
        return 1 if near >= n and pss > 0 else 0
    k = tables.pss[w, rows.ps[i], n - min(near, n - 1)]
    return k if k <= pss else 0


@inner
def workers_cost(cheap: Ints, n: int, a: int, b: int) -> int:
    """At least what n workers cost in slots [a, b); `cheap` is (N + 1) x (T + 1)."""
    tabled = min(n, len(cheap) - 1)
    cost = cheap[tabled, b] - cheap[tabled, a]
    return int(cost if tabled == n else cost // tabled * n)


@inner
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


@inner
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


@inner
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
