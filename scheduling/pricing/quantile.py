"""Quantile prices: a reserve price from quantiles of past bids, used by DPS and OASiS.

A reserve price keeps capacity for better bids; on an idle cluster it would only reject work. So the reserve price
increases with the share of capacity that is already sold. A job buys workers and PSs together, so each role has its
own factor.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scheduling.book.state import Book
from scheduling.model.types import Floats, Ints
from scheduling.pricing.pooling import Learning
from scheduling.pricing.price_function import PriceFunction, reserve_prices

LEVELS = 8
"""Scarcity is rounded down to multiples of 1 / LEVELS."""
IDLE_SHARE = 1e-6
"""Factor on the reserve quantile on an idle cluster: nearly 0, but positive, so that the price still rises with use."""


@dataclass(frozen=True)
class QuantileRule:
    """The price rule `L (U/L)^(q/C)` with L and U from quantiles of the densities of past bids.

    L is `reserve_quantile` of the past densities, times the factor of the role (worker or PS), times the scarcity of
    the resource; U is `full_quantile`, or L where that is more.
    """

    reserve_quantile: float
    """Quantile of past densities from which L is taken, in [0, 1]."""
    full_quantile: float
    """Quantile of past densities that is U, at least `reserve_quantile`."""
    worker_reserve_factor: float
    """Factor on the reserve quantile for what workers take, once the near horizon is sold out."""
    ps_reserve_factor: float
    """The same factor for what parameter servers take."""
    learning: Learning
    """The pools of past bids, and their limit."""
    initial_low: float
    """L while there is no full pool of past bids, money per slot."""
    initial_high: float
    """U while there is no full pool of past bids, money per slot."""
    scarcity: Callable[[Book], Floats]
    """Factor in [0, 1] on the reserve price of each resource, R numbers: `scarcity_of_roles` or
    `scarcity_of_resources`."""
    initial_for_all: bool
    """Whether the initial prices are those of all units of a resource together; otherwise they are those of one."""
    near_share: float = 0.0
    """Share of the horizon in which an idle slot is discounted, in [0, 1] (`PriceFunction.discounted_slots`)."""
    sooner: float = 0.0
    """Money that each slot ahead adds to the price of a unit-slot, as a share of the reserve quantile."""

    def price_function(self, book: Book) -> PriceFunction:
        """Return the price function with L and U of the last refit and the scarcity of the present ledger.

        Notes
        -----
        O(H R) for H past bids at a refit, cached until the next one; otherwise only the scarcity is computed.

        Examples
        --------
        >>> import numpy as np
        >>> from scheduling.book.ledger import Ledger
        >>> from scheduling.book.state import Book
        >>> from scheduling.model.example import INVENTORY
        >>> from scheduling.pricing.pooling import Learning
        >>> from scheduling.pricing.quantile import QuantileRule, scarcity_of_roles
        >>> ledger = Ledger(INVENTORY, start=0, slots=8)
        >>> book = Book(0, ledger, history=np.tile([4.0, 8.0], (32, 1)), decided=32)
        >>> rule = QuantileRule(0.5, 0.95, 4.0, 0.2, Learning(32), 0.01, 1.0, scarcity_of_roles, initial_for_all=False)
        >>> prices = rule.price_function(book)
        >>> prices.of(INVENTORY.capacity, INVENTORY.capacity, np.zeros(2, int)).round(4).tolist()
        [[4.0, 0.0], [0.0, 8.0]]
        """
        rows, for_workers = self.learning.pooled(book).densities, _for_workers(book)
        scarcity = self.scarcity(book)
        units = np.maximum(1, book.inventory.capacity.sum(axis=0)).tolist()
        wanted = (self.reserve_quantile, self.full_quantile)
        low, high, later = [], [], []
        for r, found in enumerate(_quantiles(rows.tobytes(), rows.shape[1], wanted)):
            factor = self.worker_reserve_factor if for_workers[r] else self.ps_reserve_factor
            if found is not None:
                reserve, full = found
                low.append(reserve * max(factor * float(scarcity[r]), IDLE_SHARE))
                high.append(max(full, low[-1]))
                later.append(self.sooner * reserve)
            else:
                count = units[r] if self.initial_for_all else 1.0
                low.append(self.initial_low / count)
                high.append(self.initial_high / count)
                later.append(0.0)
        return reserve_prices(
            low,
            high,
            discounted_slots=discounted_slots(book, self.near_share),
            per_slot_ahead=later if any(later) else (),
        )


def discounted_slots(book: Book, near_share: float) -> int:
    """Return the number of slots in this share of the book's horizon."""
    return round(near_share * (book.ledger.end - book.ledger.start))


@lru_cache(maxsize=64)
def _quantiles(rows: bytes, resources: int, wanted: tuple[float, float]) -> tuple[tuple[float, float] | None, ...]:
    """Compute and cache the quantiles for each resource: the rows stay the same until the next refit."""
    found: list[tuple[float, float] | None] = []
    for offers in np.frombuffer(rows).reshape(-1, resources).T:
        offers = offers[offers > 0]
        if len(offers):
            low, high = np.quantile(offers, wanted).tolist()
            found.append((low, high))
        else:
            found.append(None)
    return tuple(found)


def scarcity_of_roles(book: Book) -> Floats:
    """Return the square of the share that is sold of the capacity of each resource's role, R numbers in [0, 1].

    The share is that of unit-slots in the first quarter of the horizon, rounded down to eighths.

    Use it where resources are kinds of machines and a bid may choose any of them: all kinds of a role become scarce
    together.
    """
    sold, capacity = _near(book, 4)
    scarcity = np.zeros(len(sold))
    for_workers = np.array(_for_workers(book))
    for mine in (for_workers, ~for_workers):
        scarcity[mine] = _in_steps(int(sold[mine].sum()), int(capacity[mine].sum())) ** 2
    return scarcity


def scarcity_of_resources(book: Book) -> Floats:
    """Return the share of each resource that is sold, R numbers in [0, 1].

    The share is that of unit-slots in the first eighth of the horizon, rounded down to eighths.

    Use it for physical resources, where a machine takes several of them: only scarce resources get a reserve price.
    """
    sold, capacity = _near(book, 8)
    return np.array([_in_steps(int(used), int(most)) for used, most in zip(sold, capacity, strict=True)])


def _near(book: Book, part: int) -> tuple[Ints, Ints]:
    """Return sold and total unit-slots of each resource in the first 1 / part of the horizon, R numbers each."""
    return book.ledger.sold(max(1, len(book.ledger.used) // part))


def _in_steps(sold: int, capacity: int) -> float:
    """Return the share rounded down to eighths, so that price parameters and kernel caches change less often."""
    return LEVELS * sold // max(1, capacity) / LEVELS


def _for_workers(book: Book) -> list[bool]:
    asked: list[bool] = (book.inventory.worker_demand.max(axis=0, initial=0) > 0).tolist()
    return asked
