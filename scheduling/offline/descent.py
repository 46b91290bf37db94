"""Prices improved step by step: a subgradient method with a target that it moves itself."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scheduling.model.types import Floats
from scheduling.solvers.time_limit import Left

PATIENCE = 20
"""Steps without a better bound after which the target is believed to be too far."""
MOMENTUM = 0.3
"""How much of the last direction is kept: it damps zigzag."""
START = 0.02
"""Of the first bound: how far the first target is."""
GROWTH = 1.5
"""Of that distance, each time a target is reached."""
CLOSE = 1e-5
"""Of the bound: a target nearer than this is not worth a step."""


class Reply(NamedTuple):
    """What jobs do at some prices."""

    value: float
    """What these prices prove: an upper bound."""
    spare: Floats
    """Supply less demand, as shares of the supply: a subgradient."""


class Descent(NamedTuple):
    """The best bound found."""

    value: float
    prices: Floats
    steps: int
    """How often prices were tried."""


def descend(ask: Callable[[Floats], Reply], begin: Floats, left: Left, *, known: float | None, most: int) -> Descent:
    """Least value of a convex function of prices, none negative, by `most` steps or until no time is left.

    Parameters
    ----------
    ask
        The function. Prices are of the whole supply of a resource in a slot, money.
    known
        The function is nowhere less; None: nothing is known.

    Notes
    -----
    A step of length (value - target) / |direction|^2, as if the target were the least value (Polyak). The target is
    the best value less a gap; the gap shrinks by half after some steps without an improvement of half of it, and
    the search goes on from the best prices found. Whatever the steps are, every value is proved by its own prices.
    """
    prices, reply = begin, ask(begin)
    best, best_prices = reply.value, begin
    gap = START * abs(best)
    direction = _downhill(reply, prices)
    target_from, idle, steps = best, 0, 1
    while steps < most and left() > 0.0 and gap > CLOSE * abs(best):
        target = best - gap if known is None else max(best - gap, known)
        length = float((direction * direction).sum())
        if length <= 0.0 or reply.value <= target:
            break
        prices = np.maximum(0.0, prices - (reply.value - target) / length * direction)
        reply = ask(prices)
        steps += 1
        direction = (1.0 - MOMENTUM) * _downhill(reply, prices) + MOMENTUM * direction
        if reply.value < best:
            best, best_prices = reply.value, prices
        idle += 1
        if best <= target_from - 0.5 * gap:
            target_from, idle, gap = best, 0, GROWTH * gap
        elif idle >= PATIENCE:
            gap, idle, target_from = 0.5 * gap, 0, best
            prices, reply = best_prices, ask(best_prices)
            direction = _downhill(reply, prices)
            steps += 1
    return Descent(best, best_prices, steps)


def _downhill(reply: Reply, prices: Floats) -> Floats:
    """The subgradient, without what would only push prices below 0."""
    return np.where((prices <= 0.0) & (reply.spare > 0.0), 0.0, reply.spare)
