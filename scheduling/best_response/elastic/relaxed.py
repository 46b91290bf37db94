"""Compiled lower bounds of the elastic best response: the problem over convex hulls, for one completion and for all.

Private: arrays only, modified in place. Between hulls the slots are coupled only through the number of worker-slots:
all pieces less steep than a critical slope are taken, and part of the pieces of that slope.
"""

import numpy as np

from scheduling.best_response.elastic.compiled import Counts, inner
from scheduling.best_response.elastic.curves import Curves, Job, pieces_below, segment
from scheduling.model.types import Ints

FAR = 1 << 61


@inner
def relax(curves: Curves, wanted: int, first: int, end: int, taken: Counts) -> tuple[int, int]:
    """Return the critical slope (rise, run) at which slots [first, end) provide the required worker-slots.

    It is found by quickselect. `taken` (T) becomes the number of pieces of each slot that are less steep. The slots
    must have enough room.
    """
    high = curves.size - 1
    taken[first:end] = 0
    while True:
        rise, run = _pivot(curves, first, end, taken, high)
        below, upto = 0, 0
        for t in range(first, end):
            i = pieces_below(curves, t, rise, run, taken[t], high[t])
            below += curves.vertex[t, i]
            upto += curves.vertex[t, i + _is_level(curves, t, i, rise, run, high[t])]
        if below < wanted <= upto:
            for t in range(first, end):
                taken[t] = pieces_below(curves, t, rise, run, taken[t], high[t])
            return rise, run
        for t in range(first, end):
            i = pieces_below(curves, t, rise, run, taken[t], high[t])
            if below >= wanted:
                high[t] = i
            else:
                taken[t] = i + _is_level(curves, t, i, rise, run, high[t])


@inner
def _pivot(curves: Curves, first: int, end: int, low: Counts, high: Counts) -> tuple[int, int]:
    """Return the middle piece of the slot that holds the median of the remaining pieces."""
    count = 0
    for t in range(first, end):
        count += high[t] - low[t]
    left = count // 2
    for t in range(first, end):
        left -= high[t] - low[t]
        if left < 0:
            return segment(curves, t, (low[t] + high[t]) // 2)
    return 0, 1


@inner
def _is_level(curves: Curves, t: int, i: int, rise: int, run: int, high: int) -> int:
    """Return 1 if the i-th piece, which is not less steep than rise / run, has that slope, else 0."""
    if i >= high:
        return 0
    up, along = segment(curves, t, i)
    return int(up * run == rise * along)


@inner
def is_level(curves: Curves, t: int, i: int, rise: int, run: int) -> bool:
    """Return whether the i-th piece of the hull has the slope rise / run."""
    return _is_level(curves, t, i, rise, run, curves.size[t] - 1) == 1


@inner
def raise_bounds(curves: Curves, job: Job, first: int, rise: int, run: int, bounds: Ints) -> None:
    """Raise the lower bounds of the cost of completion at each slot 0..T to the Lagrangian bound of this slope."""
    cost, left = 0, job.wanted
    slope = rise / run
    for t in range(first, len(curves.most)):
        i = pieces_below(curves, t, rise, run, 0, curves.size[t] - 1)
        n = curves.vertex[t, i]
        cost += curves.cost[t, n]
        left -= n
        if bounds[t + 1] < FAR:
            if slope * left > 2.0 * job.limit:
                bounds[t + 1] = FAR
            elif slope * left > -0.5 * FAR:
                # rise x left / run, rounded up: in two parts, because the product may not be a 64-bit integer.
                more = rise // run * left - (-(rise % run) * left) // run
                bounds[t + 1] = max(bounds[t + 1], cost + more)


@inner
def starting_bounds(curves: Curves, job: Job, first: int) -> Ints:
    """Return 0 for each completion 0..T by which the worker-slots fit, else FAR."""
    bounds = np.full(len(curves.most) + 1, FAR)
    total = 0
    for t in range(first, len(curves.most)):
        total += curves.most[t]
        if total >= job.wanted:
            bounds[t + 1] = 0
    return bounds
