"""Prices that solve the fluid problem of recent bids: the dual of "whom would one serve if jobs could be poured?".

Let past bid j be served to a share x_j. It is worth at most V_j, its ceiling, and takes at least V_j x_j / d_jr
unit-slots of each resource r it uses, d_jr being its density (what it offered for a unit-slot at its very best). Bids
come at a rate, so n of them share the n / rate slots in which they came:

    maximise  sum_j V_j x_j   subject to   sum_j V_j x_j / d_jr <= fill C_r n / rate,   0 <= x_j <= 1.

The dual price of r is what its last unit-slot earns: asking it admits the bids of the optimum and turns the others
away. It is 0 where capacity suffices, so an idle cluster asks nothing, and no share of a quantile is chosen by hand.
"""

import math
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduling.book.state import HISTORY, Book
from scheduling.model.types import Floats, Ints
from scheduling.pricing.fluid_descent import Kinds, descend
from scheduling.pricing.pooling import SMALLEST_OFFER
from scheduling.pricing.price_function import PriceFunction, reserve_prices
from scheduling.pricing.quantile import IDLE_SHARE, Learning, past_pools

Flags = NDArray[np.bool_]

WINDOW = 256
"""Bids that are poured: more are slower to follow, fewer leave the price to chance."""
NEAR = 4
"""The rate is counted over this part of a horizon: the past that still fills the near future."""
STEPS = 2
"""Steps for each doubling of the rate: between them prices, and what a kernel keeps warm, stand still."""
ROUNDS = 300
"""Steps of the descent; prices are the mean of the second half."""
STRIDE = 2.0
"""Of the first step, in the logarithm of a price, for a demand of twice what there is."""
LEAST_FILL = 0.05
"""However much is sold ahead, this share of capacity is poured."""
SLIGHT = 1.02
"""What is full costs this much more than what is idle: enough to prefer an empty server to one that is nearly full."""


class Pouring(Learning, Protocol):
    """The parameters of fluid prices."""

    @property
    def fluid_fill(self) -> float:
        """Share of all capacity that jobs will fill."""


def fluid_prices(learning: Pouring, book: Book, *, room: float = 0.0) -> PriceFunction:
    """Nearly one price for each resource, full or idle: the dual of the fluid problem at the present rate of bids.

    Parameters
    ----------
    room
        What is poured beside `fluid_fill`, as a share of all capacity: room ahead that may be sold beyond what is sold
        (`scheduling.pricing.backlog`), over one horizon of time; negative where more is sold than that.

    Raises
    ------
    ValueError
        If the book does not say when the bids of its history were decided, and what they could have been worth.

    Notes
    -----
    The bid being decided is not looked at. Which bids are poured changes at refits, the rate with the slots.
    While there is no past, `prior_low` and `prior_high` for all there is of a resource.
    """
    if not len(book.slots) == len(book.ceilings) == len(book.history):
        raise ValueError(f"expected a slot and a ceiling for each of {len(book.history)} past bids")
    total = book.inventory.capacity.sum(axis=0)
    rows, ceilings = past_pools(learning, book, most=WINDOW)
    middle = _medians(rows.tobytes(), len(total))
    solved = np.zeros(len(total))
    level = _level(book)
    if level is not None and len(rows):
        supports = tuple(_supports(demand) for demand in (book.inventory.worker_demand, book.inventory.ps_demand))
        fill = max(LEAST_FILL, learning.fluid_fill + room)
        capacity = total * (fill * len(rows) * 2.0 ** (-level / STEPS))
        solved = _kept(rows.tobytes(), ceilings.tobytes(), capacity.tobytes(), supports)
    low, high = [], []
    for price, typical, units in zip(solved.tolist(), middle, np.maximum(1, total).tolist(), strict=True):
        if typical is None:
            low.append(learning.prior_low / units)
            high.append(learning.prior_high / units)
        else:
            low.append(max(price, IDLE_SHARE * typical))
            high.append(SLIGHT * low[-1])
    return reserve_prices(low, high)


def solve(rows: Floats, ceilings: Floats, capacity: Floats, *, workers: Flags, pss: Flags) -> Floats:
    """Dual prices of the fluid problem, by descent.

    Parameters
    ----------
    rows
        Densities, N x R, money per unit-slot; 0 where a bid cannot use a resource.
    ceilings
        Worth at best, N numbers, money.
    capacity
        Unit-slots to share, R numbers.
    workers, pss
        Which resources machines take, K x R: a row for each kind. A bid uses one kind of worker and one of PSs, the
        cheapest at the prices among the largest sets of resources that it has a density for.

    Returns
    -------
    Floats
        R numbers, money per unit-slot; next to 0 for what is not scarce.

    Notes
    -----
    Mirror descent: each price is multiplied by e^(step x (demand / capacity - 1)), steps falling with the square root
    of the round, and averaged. O(ROUNDS N R K). No two prices are equal by luck, so ties need no rule: the first kind.
    """
    paying = (ceilings > 0) & (rows >= SMALLEST_OFFER).any(axis=1)
    kinds = [(kind, _usable(rows, kind)) for kind in (workers, pss)]
    for _, usable in kinds:
        paying &= usable.any(axis=1)
    rows, ceilings = rows[paying], ceilings[paying]
    solved = np.zeros(rows.shape[1])
    if not len(rows):
        return solved
    needs = np.divide(1.0, rows, out=np.zeros(rows.shape), where=rows >= SMALLEST_OFFER)
    takes = np.divide(needs * ceilings[:, np.newaxis], capacity, out=np.zeros(rows.shape), where=capacity > 0)
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
def _kept(rows: bytes, ceilings: bytes, capacity: bytes, supports: tuple[tuple[bytes, int], ...]) -> Floats:
    """Remember what was solved: decisions between two refits ask for the same."""
    most = np.frombuffer(capacity)
    workers, pss = (np.frombuffer(text, dtype=np.bool_).reshape(count, len(most)) for text, count in supports)
    table = np.frombuffer(rows).reshape(-1, len(most))
    solved = solve(table, np.frombuffer(ceilings), most, workers=workers, pss=pss)
    solved.flags.writeable = False
    return solved


def _level(book: Book) -> int | None:
    """Bids in a slot lately, in steps of its logarithm; None if there were none.

    Counted over the last part of a horizon; if more came than the book knows, over the time in which those came.
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
    """The median density for each resource: the same rows are asked for until the next refit."""
    return tuple(_median(offers) for offers in np.frombuffer(rows).reshape(-1, resources).T)


def _median(offers: Floats) -> float | None:
    offers = offers[offers >= SMALLEST_OFFER]
    return float(np.median(offers)) if len(offers) else None


def _supports(demand: Ints) -> tuple[bytes, int]:
    """The sets of resources that machines of these types take, each once, K x R as bytes, and K."""
    kinds = np.unique(demand > 0, axis=0)
    return kinds.tobytes(), len(kinds)


def _usable(rows: Floats, kinds: Flags) -> Flags:
    """Whether a bid has a density for all that a kind of machine takes, and for no larger kind, N x K."""
    able = np.stack([(rows[:, kind] >= SMALLEST_OFFER).all(axis=1) for kind in kinds], axis=1)
    within = (kinds[:, np.newaxis] <= kinds).all(axis=2) & ~np.eye(len(kinds), dtype=np.bool_)
    larger = np.stack([able[:, other].any(axis=1) for other in within], axis=1)
    return np.asarray(able & ~larger)


def warm_up() -> None:
    """Compile, or load from disk, the kernel, so that no request pays for it."""
    each = np.eye(2, dtype=np.bool_)
    solve(np.ones((1, 2)), np.ones(1), np.ones(2), workers=each[:1], pss=each[1:])
