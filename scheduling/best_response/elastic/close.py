"""Compiled exact solution of the elastic best response for one completion.

Private: arrays only, modified in place. The convex relaxation gives a base: a vertex of the hull in every slot. All
deviations from the base have a *reduced cost* of at least 0 at the critical slope, and `rest` worker-slots are still to
be placed. The problem is to find deviations (slot, more or fewer workers) that add up to the rest at the least reduced
cost, with at most one in each slot. Reduced costs are multiplied by the run of the critical piece, so they are whole.

1. One slot takes all of the rest. This is often optimal.
2. The relaxation allows any number of deviations in each slot. It is a shortest path over partial sums, which can be
   ordered so that they stay in [-N, N]. If its steps fit different slots at the same cost, they are optimal.
3. Otherwise a dynamic program searches the deviations that the relaxation does not exclude.
"""

import numpy as np

from scheduling.best_response.elastic.base import Base, cheapest_step, distances, step_prices
from scheduling.best_response.elastic.compiled import Counts, copy, inner
from scheduling.best_response.elastic.core import solve_core
from scheduling.best_response.elastic.curves import Curves
from scheduling.best_response.elastic.relaxed import FAR


@inner
def close(curves: Curves, base: Base, most: int, counts: Counts) -> int:
    """Return the least cost of exactly the required worker-slots, with its `counts` (T); FAR if it is above `most`."""
    if base.cost > most:
        return FAR
    if base.rest == 0:
        copy(base.counts, counts)
        return base.cost
    slack = base.run * (most - base.cost) - base.rise * base.rest
    best = FAR
    if slack < 0:
        return best
    price, slot = cheapest_step(curves, base, base.rest, np.zeros(len(counts), np.bool_))
    if price <= slack:
        copy(base.counts, counts)
        counts[slot] += base.rest
        best = price
        slack = best - base.run
    if slack >= 0:
        best = _relaxed(curves, base, slack, best, counts)
    return FAR if best == FAR else base.cost + (base.rise * base.rest + best) // base.run


@inner
def _relaxed(curves: Curves, base: Base, slack: int, best: int, counts: Counts) -> int:
    """Return the least reduced cost if it is at most `slack`, otherwise `best`."""
    reach = curves.cost.shape[1] - 1
    prices = step_prices(curves, base, slack)
    distance, last = distances(prices, reach, base.rest, slack)
    if distance[reach + base.rest] > slack:
        return best
    # The relaxed solution is feasible if its steps can be taken in different slots.
    busy = np.zeros(len(counts), np.bool_)
    trial = base.counts.copy()
    total, at = 0, base.rest
    while at != 0 and total <= slack:
        step = last[reach + at]
        price, slot = cheapest_step(curves, base, step, busy)
        if slot < 0:
            total = FAR
            break
        busy[slot] = True
        trial[slot] += step
        total += price
        at -= step
    if total <= slack:
        copy(trial, counts)
        best = total
        slack = total - base.run
        if distance[reach + base.rest] > slack:
            return best
    distance, last = distances(prices, 2 * reach, 2 * reach + 1, slack)
    return solve_core(curves, base, distance, slack, best, counts)
