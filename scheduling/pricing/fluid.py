"""Dual prices of the fluid relaxation over recent bids, in which jobs are allocated fractionally.

A share x_j of past bid j is served. The bid is worth at most V_j, its standalone value. It takes at least
V_j x_j / d_jr unit-slots of each resource r it uses, where d_jr is its density (its greatest value per unit-slot).
Bids arrive at a rate, so n of them share the n / rate slots in which they arrived:

    maximise  sum_j V_j x_j   subject to   sum_j V_j x_j / d_jr <= fill C_r n / rate,   0 <= x_j <= 1.

The dual price of r is the marginal value of one unit-slot: at these prices the bids of the optimum are admitted and
the others are rejected. The price is 0 where capacity suffices, so an idle cluster is free and no quantile has to be
chosen by hand.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduling.book.state import HISTORY, Book
from scheduling.model.types import Floats, Ints
from scheduling.pricing.fluid_descent import Kinds, descend
from scheduling.pricing.pooling import SMALLEST_OFFER, Learning
from scheduling.pricing.price_function import PriceFunction, reserve_prices
from scheduling.pricing.quantile import IDLE_SHARE, discounted_slots

Flags = NDArray[np.bool_]

WINDOW = 256
"""Number of recent bids in the relaxation: more bids follow changes more slowly, fewer make prices noisy."""
NEAR = 4
"""The arrival rate is measured over the last 1 / NEAR of a horizon."""
STEPS = 2
"""Rounding steps per doubling of the rate, so that prices and kernel caches change less often."""
ROUNDS = 300
"""Iterations of the mirror descent; prices are the mean over the second half."""
STRIDE = 2.0
"""Size of the first step in the logarithm of a price, for a demand of twice the capacity."""
LEAST_FILL = 0.05
"""Least share of capacity in the relaxation, however much is already sold."""
SLIGHT = 1.02
"""Ratio of the price when full to the price when idle: enough to prefer an empty server to a nearly full one."""


@dataclass(frozen=True)
class FluidRule:
    """The price rule of the fluid relaxation: the dual prices at the present arrival rate of bids.

    The price of a resource depends very little on how full it is (`SLIGHT`).
    """

    target_utilisation: float
    """Share of all capacity that jobs will use."""
    learning: Learning
    """The pools of past bids, and their limit."""
    initial_low: float
    """Price of all units of an idle resource together while there is no full pool of past bids, money per slot."""
    initial_high: float
    """The same price for a resource in full use."""
    near_share: float = 0.0
    """Share of the horizon in which an idle slot is discounted, in [0, 1] (`PriceFunction.discounted_slots`)."""
    sooner: float = 0.0
    """Money that each slot ahead adds to the price of a unit-slot, as a share of the median density."""
    further_share: Callable[[Book], float] | None = None
    """Added to `target_utilisation`: the share of all capacity over one horizon that may still be sold
    (`scheduling.pricing.backlog`), negative where too much is sold. None: nothing is added."""

    def price_function(self, book: Book) -> PriceFunction:
        """Return the price function at the dual prices of the last refit's bids and the present arrival rate.

        Raises
        ------
        ValueError
            If the book lacks the decision slots or the standalone values of its past bids.

        Notes
        -----
        The set of past bids changes at refits; the rate changes with the slots. See `solve` for the complexity.
        """
        if not len(book.slots) == len(book.standalone_values) == len(book.history):
            raise ValueError(f"expected a slot and a standalone value for each of {len(book.history)} past bids")
        total = book.inventory.capacity.sum(axis=0)
        rows, values, _ = self.learning.pooled(book, most=WINDOW)
        medians = _medians(rows.tobytes(), len(total))
        solved = np.zeros(len(total))
        level = _level(book)
        if level is not None and len(rows):
            supports = tuple(_supports(demand) for demand in (book.inventory.worker_demand, book.inventory.ps_demand))
            further = 0.0 if self.further_share is None else self.further_share(book)
            fill = max(LEAST_FILL, self.target_utilisation + further)
            capacity = total * (fill * len(rows) * 2.0 ** (-level / STEPS))
            solved = _cached(rows.tobytes(), values.tobytes(), capacity.tobytes(), supports)
        low, high, later = [], [], []
        for price, median, units in zip(solved.tolist(), medians, np.maximum(1, total).tolist(), strict=True):
            if median is None:
                low.append(self.initial_low / units)
                high.append(self.initial_high / units)
                later.append(0.0)
            else:
                low.append(max(price, IDLE_SHARE * median))
                high.append(SLIGHT * low[-1])
                later.append(self.sooner * median)
        return reserve_prices(
            low,
            high,
            name="fluid",
            discounted_slots=discounted_slots(book, self.near_share),
            per_slot_ahead=later if any(later) else (),
        )


def solve(rows: Floats, standalone_values: Floats, capacity: Floats, *, workers: Flags, pss: Flags) -> Floats:
    """Compute the dual prices of the fluid relaxation by mirror descent.

    Parameters
    ----------
    rows
        Densities, N x R, money per unit-slot; 0 where a bid cannot use a resource.
    standalone_values
        Standalone value of each bid, N numbers, money.
    capacity
        Unit-slots that the bids share, R numbers.
    workers, pss
        Resources that each kind of machine takes, K x R flags: one row for each kind. A bid uses one kind of worker and
        one kind of PS: the cheapest at the prices, among the largest sets of resources for which it has a density.

    Returns
    -------
    Floats
        R numbers, money per unit-slot; nearly 0 for resources that are not scarce.

    Notes
    -----
    Mirror descent: each price is multiplied by e^(step x (demand / capacity - 1)), steps falling with the square root
    of the round, and averaged. O(ROUNDS N R K). On equal costs the first kind is used.

    Examples
    --------
    Three bids are worth 3, 2 and 1 for each of ten unit-slots, and 15 unit-slots of workers are for sale. The second
    bid is served by half, so its value per unit-slot is the price.

    >>> import numpy as np
    >>> from scheduling.pricing.fluid import solve
    >>> densities, workers = np.array([[3.0, 1e6], [2.0, 1e6], [1.0, 1e6]]), np.array([[True, False]])
    >>> solve(densities, np.array([30.0, 20.0, 10.0]), np.array([15.0, 1e9]), workers=workers, pss=~workers).round(1)
    array([2., 0.])
    """
    paying = (standalone_values > 0) & (rows >= SMALLEST_OFFER).any(axis=1)
    kinds = [(kind, _usable(rows, kind)) for kind in (workers, pss)]
    for _, usable in kinds:
        paying &= usable.any(axis=1)
    rows, standalone_values = rows[paying], standalone_values[paying]
    solved = np.zeros(rows.shape[1])
    if not len(rows):
        return solved
    needs = np.divide(1.0, rows, out=np.zeros(rows.shape), where=rows >= SMALLEST_OFFER)
    takes = np.divide(needs * standalone_values[:, np.newaxis], capacity, out=np.zeros(rows.shape), where=capacity > 0)
    typical = np.array([_median(rows[:, r]) or 0.0 for r in range(rows.shape[1])])
    supports = [np.flatnonzero(support) for kind, _ in kinds for support in kind]
    begin = np.cumsum([0, *map(len, supports)])
    descend(
        needs,
        takes,
        np.concatenate([usable[paying] for _, usable in kinds], axis=1),
        Kinds(len(workers), begin, np.concatenate(supports)),
        typical / len(typical),
        SMALLEST_OFFER * typical,
        ROUNDS,
        STRIDE,
        solved,
    )
    return solved


@lru_cache(maxsize=64)
def _cached(rows: bytes, standalone_values: bytes, capacity: bytes, supports: tuple[tuple[bytes, int], ...]) -> Floats:
    """Solve and cache the result: decisions between two refits ask for the same prices."""
    most = np.frombuffer(capacity)
    workers, pss = (np.frombuffer(text, dtype=np.bool_).reshape(count, len(most)) for text, count in supports)
    table = np.frombuffer(rows).reshape(-1, len(most))
    solved = solve(table, np.frombuffer(standalone_values), most, workers=workers, pss=pss)
    solved.flags.writeable = False
    return solved


def _level(book: Book) -> int | None:
    """Return the recent arrival rate in bids per slot, as a rounded logarithm; None if no bids arrived.

    The rate is measured over the last part of a horizon. If the book's history is shorter than that, it is measured
    over the time that the history covers.
    """
    part = max(1, (book.ledger.end - book.ledger.start) // NEAR)
    recent = int((book.slots >= book.now - part).sum())
    if recent == 0:
        return None
    if recent == HISTORY:
        part = max(1, book.now - int(book.slots[0]))
    return round(STEPS * math.log2(recent / part))


@lru_cache(maxsize=64)
def _medians(rows: bytes, resources: int) -> tuple[float | None, ...]:
    """Compute and cache the median density of each resource: the rows stay the same until the next refit."""
    return tuple(_median(offers) for offers in np.frombuffer(rows).reshape(-1, resources).T)


def _median(offers: Floats) -> float | None:
    offers = offers[offers >= SMALLEST_OFFER]
    return float(np.median(offers)) if len(offers) else None


def _supports(demand: Ints) -> tuple[bytes, int]:
    """Return the distinct sets of resources that machines of these types take, K x R as bytes, and K."""
    kinds = np.unique(demand > 0, axis=0)
    return kinds.tobytes(), len(kinds)


def _usable(rows: Floats, kinds: Flags) -> Flags:
    """Whether a bid has a density for all resources of a kind of machine, and not for those of a larger kind, N x K."""
    able = np.stack([(rows[:, kind] >= SMALLEST_OFFER).all(axis=1) for kind in kinds], axis=1)
    within = (kinds[:, np.newaxis] <= kinds).all(axis=2) & ~np.eye(len(kinds), dtype=np.bool_)
    larger = np.stack([able[:, other].any(axis=1) for other in within], axis=1)
    return np.asarray(able & ~larger)


def warm_up() -> None:
    """Compile the kernel, or load it from disk, so that no request has to wait for it."""
    each = np.eye(2, dtype=np.bool_)
    solve(np.ones((1, 2)), np.ones(1), np.ones(2), workers=each[:1], pss=each[1:])
