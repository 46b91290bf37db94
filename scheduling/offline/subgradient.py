"""Minimise a convex function of prices by a subgradient method with an adaptive target value."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scheduling.model.types import Floats
from scheduling.solvers.time_limit import Left

PATIENCE = 20
"""Number of steps without a better bound after which the target moves nearer."""
MOMENTUM = 0.3
"""Weight of the last direction in the new one, which damps oscillation."""
START = 0.02
"""Distance of the first target from the first bound, as a share of that bound."""
GROWTH = 1.5
"""Factor on that distance each time a target is reached."""
CLOSE = 1e-5
"""Smallest distance of a target, as a share of the bound; the method stops below it."""


class Reply(NamedTuple):
    """The value of the function at some prices, with a subgradient."""

    value: float
    """The upper bound that these prices prove."""
    spare: Floats
    """Supply less demand, as shares of the supply: a subgradient."""


class Minimum(NamedTuple):
    """The best bound found."""

    value: float
    prices: Floats
    steps: int
    """Number of evaluations of the function."""


def minimise(ask: Callable[[Floats], Reply], begin: Floats, left: Left, *, known: float | None, most: int) -> Minimum:
    """Minimise a convex function of non-negative prices with at most `most` steps, or until no time is left.

    Parameters
    ----------
    ask
        The function. A price is for the whole supply of a resource in a slot, in money.
    known
        A lower bound on the function; None if there is none.

    Notes
    -----
    A step of length (value - target) / |direction|^2, as if the target were the least value (Polyak). The target is
    the best value less a gap; the gap shrinks by half after some steps without an improvement of half of it, and
    the search continues from the best prices found. Every value is proved by its own prices, whatever the steps are.

    Examples
    --------
    The distance from 3, seen as a function of one price:

    >>> import numpy as np
    >>> from scheduling.offline.subgradient import Reply, minimise
    >>> found = minimise(
    ...     lambda p: Reply(float(abs(p - 3.0).sum()), np.sign(p - 3.0)),
    ...     np.zeros(1), left=lambda: 1.0, known=0.0, most=100,
    ... )
    >>> found.prices.round(3).tolist()
    [3.0]
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
    return Minimum(best, best_prices, steps)


def _downhill(reply: Reply, prices: Floats) -> Floats:
    """The subgradient, without what would only push prices below 0."""
    return np.where((prices <= 0.0) & (reply.spare > 0.0), 0.0, reply.spare)
