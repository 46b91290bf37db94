"""Compiled dynamic program over the deviations from a base that can still matter. Private: arrays only."""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.elastic.base import Base, reduced
from scheduling.best_response.elastic.compiled import Counts, borrowing, copy, inner, sort_by
from scheduling.best_response.elastic.curves import Curves
from scheduling.best_response.elastic.relaxed import FAR
from scheduling.model.types import Ints


class Core(NamedTuple):
    """The slots in which a step other than 0 can be optimal; those with a free step come last."""

    slot: Counts
    up: Ints
    """The most that each slot and the later ones can add together; one more entry than there are slots."""
    down: Ints
    """The least that each slot and the later ones can add together."""


@inner
def solve_core(curves: Curves, base: Base, distance: Ints, slack: int, best: int, counts: Counts) -> int:
    """Return the least reduced cost with its `counts` (T) if it is at most `slack`, otherwise `best`.

    Slots whose cheapest step is cheapest come first, because they find good solutions early; but those with a free
    step come last, because all sums can be reached with them.

    `distance` is the least price, each step any number of times, of every sum up to twice the greatest step.
    """
    core = _list_core(curves, base, distance, slack)
    lows, choices = np.zeros(len(core.slot) + 1, np.int64), [np.zeros(1, np.int32)]
    low, cost, last = lows[0], np.zeros(1, np.int64), 0
    for i in range(len(core.slot)):
        steps, prices = _options(curves, base, distance, core.slot[i], slack)
        new_low = max(low + steps[0], base.rest - core.up[i + 1])
        new_high = min(low + len(cost) - 1 + steps[-1], base.rest - core.down[i + 1])
        if new_low > new_high:
            break
        cost, choice = _extend(cost, low, steps, prices, new_low, new_high)
        low = new_low
        if low <= base.rest < low + len(cost) and cost[base.rest - low] <= slack:
            # This is a complete solution, so later ones have to be cheaper.
            best, last = int(cost[base.rest - low]), i + 1
            slack = best - base.run
        start, stop = _prune(cost, low, base.rest, distance, slack)
        if last == i + 1:
            start, stop = min(start, base.rest - low), max(stop, base.rest - low + 1)
        if start == stop:
            break
        cost, low = cost[start:stop], low + start
        lows[i + 1] = low
        choices.append(choice[start:stop].copy())
    if last > 0:
        copy(base.counts, counts)
        at = base.rest
        for i in range(last, 0, -1):
            step = choices[i][at - lows[i]]
            counts[core.slot[i - 1]] += step
            at -= step
    return best


@inner
def _list_core(curves: Curves, base: Base, distance: Ints, slack: int) -> Core:
    slots, cheapest = np.empty(len(curves.most), np.int32), np.empty(len(curves.most), np.int64)
    size = 0
    for t in range(base.first, base.end):
        steps, prices = _options(curves, base, distance, t, slack)
        if len(steps) > 1:
            slots[size] = t
            size += 1
            least = FAR
            for i in range(len(steps)):
                if steps[i] != 0:
                    least = min(least, prices[i])
            cheapest[t] = least if least > 0 else FAR
    slots = slots[:size]
    sort_by(cheapest, slots)
    up, down = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    for i in range(size - 1, -1, -1):
        steps, _ = _options(curves, base, distance, slots[i], slack)
        up[i], down[i] = up[i + 1] + steps[-1], down[i + 1] + steps[0]
    return Core(slots, up, down)


@inner
def _options(curves: Curves, base: Base, distance: Ints, t: int, slack: int) -> tuple[Ints, Ints]:
    """Return the steps of one slot that the relaxation does not exclude, in order, and their reduced costs."""
    middle = len(distance) // 2
    count = curves.most[t] + 1
    steps, prices = np.empty(count, np.int64), np.empty(count, np.int64)
    size = 0
    for n in range(count):
        step = n - base.counts[t]
        price = reduced(curves, base, t, step)
        if step == 0 or (price <= slack and price + distance[middle + base.rest - step] <= slack):
            steps[size], prices[size] = step, price
            size += 1
    return steps[:size], prices[:size]


@inner
def _extend(cost: Ints, low: int, steps: Ints, prices: Ints, new_low: int, new_high: int) -> tuple[Ints, Counts]:
    """Return the least costs of the sums new_low..new_high after one more slot, and the slot's step in each."""
    out = np.full(new_high - new_low + 1, FAR)
    choice = np.zeros(len(out), np.int32)
    for j in range(len(steps)):
        step, price = steps[j], prices[j]
        for to in range(max(new_low, low + step), min(new_high, low + len(cost) - 1 + step) + 1):
            now = cost[to - step - low] + price
            if now < out[to - new_low]:
                out[to - new_low] = now
                choice[to - new_low] = step
    return out, choice


@borrowing
def _prune(cost: Ints, low: int, rest: int, distance: Ints, slack: int) -> tuple[int, int]:
    """Exclude sums that the relaxation cannot complete within `slack`; return the range that is left."""
    reach = len(distance) // 2
    # Sums beyond the reach pass through its outer half on their pair.
    beyond = before = FAR
    for i in range(reach // 2 + 1, reach + 1):
        beyond, before = min(beyond, distance[reach + i]), min(before, distance[reach - i])
    start, stop = len(cost), 0
    for i in range(len(cost)):
        left = rest - (low + i)
        if left > reach:
            bound = beyond
        elif left < -reach:
            bound = before
        else:
            bound = distance[reach + left]
        if cost[i] + bound > slack:
            cost[i] = FAR
        else:
            start, stop = min(start, i), i + 1
    return min(start, stop), stop
