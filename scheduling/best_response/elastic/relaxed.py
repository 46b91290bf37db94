"""Compiled lower bounds of the elastic best response: the problem over convex hulls, for one completion and for all.

Private: arrays only, modified in place. Between hulls the slots are coupled only through the number of worker-slots:
all pieces less steep than a critical slope are taken, and part of the pieces of that slope.
"""

import numpy as np

from scheduling.best_response.elastic.compiled import Counts, borrowing, inner
from scheduling.best_response.elastic.curves import Curves, pieces_below, segment
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


@borrowing
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


@borrowing
def _is_level(curves: Curves, t: int, i: int, rise: int, run: int, high: int) -> int:
    """Return 1 if the i-th piece, which is not less steep than rise / run, has that slope, else 0."""
    if i >= high:
        return 0
    up, along = segment(curves, t, i)
    return int(up * run == rise * along)


@borrowing
def is_level(curves: Curves, t: int, i: int, rise: int, run: int) -> bool:
    """Return whether the i-th piece of the hull has the slope rise / run."""
    return _is_level(curves, t, i, rise, run, curves.size[t] - 1) == 1


@inner
def relaxed_costs(curves: Curves, wanted: int, first: int) -> Ints:
    """Return the cost of the relaxation, rounded up, for each completion 0..T; FAR if the worker-slots do not fit.

    The pieces that are taken are in a heap, the steepest one first. A later completion adds pieces, and of the steepest
    ones, what is no longer needed is left out: it is never needed again. O(P log P) for P pieces of all hulls.
    """
    costs = np.full(len(curves.most) + 1, FAR)
    pieces = 0
    for t in range(first, len(curves.most)):
        pieces += curves.size[t] - 1
    # A piece has at least one worker-slot, so at most one more than the worker-slots is in the heap.
    rise, run = np.empty((2, min(pieces, wanted) + 1), np.int64)
    size, cost, taken = 0, 0, 0
    for t in range(first, len(curves.most)):
        for i in range(curves.size[t] - 1):
            up, along = segment(curves, t, i)
            if taken >= wanted and up * run[0] >= rise[0] * along:
                break
            _push(rise, run, size, up, along)
            size, cost, taken = size + 1, cost + up, taken + along
            while taken - run[0] >= wanted:
                cost, taken = cost - rise[0], taken - run[0]
                size -= 1
                _sift(rise, run, size, rise[size], run[size])
        if taken >= wanted:
            costs[t + 1] = cost - rise[0] * (taken - wanted) // run[0]
    return costs


@borrowing
def _push(rise: Ints, run: Ints, at: int, up: int, along: int) -> None:
    """Add a piece to a heap of `at` pieces."""
    while at > 0:
        above = (at - 1) // 2
        if up * run[above] <= rise[above] * along:
            break
        rise[at], run[at] = rise[above], run[above]
        at = above
    rise[at], run[at] = up, along


@borrowing
def _sift(rise: Ints, run: Ints, size: int, up: int, along: int) -> None:
    """Replace the first piece of a heap, which then has `size` pieces."""
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and rise[below + 1] * run[below] > rise[below] * run[below + 1]:
            below += 1
        if up * run[below] >= rise[below] * along:
            break
        rise[at], run[at] = rise[below], run[below]
        at = below
    rise[at], run[at] = up, along
