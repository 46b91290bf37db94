"""Compiled deviations from a base of hull vertices, and their costs. Private: arrays only, modified in place."""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.elastic.compiled import Counts, Flags, borrowing, inner
from scheduling.best_response.elastic.curves import Curves, segment
from scheduling.best_response.elastic.relaxed import FAR, is_level
from scheduling.model.types import Ints


class Base(NamedTuple):
    """Vertices of the hulls in slots [first, end), and the worker-slots that they leave to be placed."""

    first: int
    end: int
    counts: Counts
    """Workers, T."""
    cost: int
    rest: int
    """Worker-slots still to be placed, at least 0 and fewer than N."""
    rise: int
    run: int
    """The critical slope."""


@inner
def make_base(curves: Curves, wanted: int, first: int, end: int, taken: Counts, rise: int, run: int) -> Base:
    """Take all pieces less steep than the critical slope, and whole pieces of that slope while they are needed."""
    counts = np.zeros(len(taken), np.int32)
    rest, cost = wanted, 0
    for t in range(first, end):
        counts[t] = curves.vertex[t, taken[t]]
        rest -= counts[t]
    for t in range(first, end):
        if is_level(curves, t, taken[t], rise, run):
            _, along = segment(curves, t, taken[t])
            if along <= rest:
                counts[t] += along
                rest -= along
        cost += curves.cost[t, counts[t]]
    return Base(first, end, counts, int(cost), int(rest), rise, run)


@borrowing
def reduced(curves: Curves, base: Base, t: int, step: int) -> int:
    """Return the reduced cost of `step` more workers in slot t; FAR if that is impossible."""
    n = base.counts[t] + step
    if n < 0 or n > curves.most[t]:
        return FAR
    return int(base.run * (curves.cost[t, n] - curves.cost[t, base.counts[t]]) - base.rise * step)


@borrowing
def cheapest_step(curves: Curves, base: Base, step: int, busy: Flags) -> tuple[int, int]:
    """Return the least reduced cost of `step` more workers in a slot that is not busy, and the first such slot."""
    price, slot = FAR, -1
    for t in range(base.first, base.end):
        if not busy[t]:
            now = reduced(curves, base, t, step)
            if now < price:
                price, slot = now, t
    return price, slot


@inner
def step_prices(curves: Curves, base: Base, slack: int) -> Ints:
    """Return the least reduced cost of each step -N..N in any slot; FAR if it is above `slack`."""
    reach = curves.cost.shape[1] - 1
    prices = np.full(2 * reach + 1, FAR)
    for t in range(base.first, base.end):
        low = curves.cost[t, base.counts[t]]
        zero = reach - base.counts[t]
        for n in range(curves.most[t] + 1):
            price = base.run * (curves.cost[t, n] - low) - base.rise * (n - base.counts[t])
            prices[zero + n] = min(prices[zero + n], price)
    for i in range(len(prices)):
        if prices[i] > slack:
            prices[i] = FAR
    return prices


@inner
def distances(prices: Ints, reach: int, target: int, slack: int) -> tuple[Ints, Counts]:
    """Return the least price of steps that add up to -reach..reach, and the last step of each; FAR beyond `slack`.

    This is Dijkstra's algorithm on a line, until the target is reached or all is visited.
    """
    middle = len(prices) // 2
    steps, size = np.empty(len(prices), np.int64), 0
    for i in range(len(prices)):
        if prices[i] < FAR and i != middle:
            steps[size] = i - middle
            size += 1
    distance = np.full(2 * reach + 1, FAR)
    last = np.zeros(2 * reach + 1, np.int32)
    done = np.zeros(2 * reach + 1, np.bool_)
    distance[reach] = 0
    while True:
        at, least = -1, slack + 1
        for i in range(len(distance)):
            if distance[i] < least and not done[i]:
                at, least = i, distance[i]
        if at < 0 or at == reach + target:
            return distance, last
        done[at] = True
        for step in steps[:size]:
            to = at + step
            if 0 <= to < len(distance) and least + prices[middle + step] < distance[to]:
                distance[to] = least + prices[middle + step]
                last[to] = step
