"""Prices learned from quantiles of past bids, used by DPS and OASiS.

A reserve price keeps capacity for better bids; on an idle cluster it would only reject work. So the reserve price
increases with the share of capacity that is already sold. A job buys workers and PSs together, so each role has its
own factor.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from scheduling.book.state import HISTORY, NOBODY, Book
from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints
from scheduling.pricing.pooling import LEAST_BLOCK, pooled
from scheduling.pricing.price_function import PriceFunction, reserve_prices

LEVELS = 8
"""Scarcity is rounded down to multiples of 1 / LEVELS."""
IDLE_SHARE = 1e-6
"""Factor on the reserve quantile on an idle cluster: nearly 0, but positive, so that the price still rises with use."""


class Learning(Protocol):
    """The parameters of learned prices."""

    @property
    def reserve_quantile(self) -> float:
        """Quantile of past offers from which L is taken."""

    @property
    def full_quantile(self) -> float:
        """Quantile of past offers that is U."""

    @property
    def worker_share(self) -> float:
        """Factor on the reserve quantile for an idle worker once the near horizon is sold out."""

    @property
    def ps_share(self) -> float:
        """Factor on the reserve quantile for an idle parameter server once the near horizon is sold out."""

    @property
    def refit_every(self) -> int:
        """Number of bids between two refits."""

    @property
    def prior_low(self) -> float:
        """L until bids of `LEAST_OWNERS` owners have been decided."""

    @property
    def prior_high(self) -> float:
        """U until bids of `LEAST_OWNERS` owners have been decided."""


def check_learning(learning: Learning) -> None:
    """Raise InvalidField where one parameter contradicts another."""
    if learning.prior_high < learning.prior_low:
        raise InvalidField(
            "prior_high", f"expected at least prior_low = {learning.prior_low:g}, got {learning.prior_high:g}"
        )
    if learning.full_quantile < learning.reserve_quantile:
        raise InvalidField("full_quantile", f"expected at least reserve_quantile = {learning.reserve_quantile:g}")


def past(learning: Learning, book: Book) -> Floats:
    """Return the pooled densities of the bids decided before the last refit, P x R; constant until the next refit."""
    return past_pools(learning, book, most=HISTORY - learning.refit_every)[0]


def past_pools(learning: Learning, book: Book, *, most: int) -> tuple[Floats, Floats]:
    """Return pooled densities (P x R) and standalone values (P) of the bids decided before the last refit.

    At most the last `most` bids are used, starting at the beginning of a block. See `scheduling.pricing.pooling`.
    """
    forgotten = book.decided - len(book.history)
    known = book.decided - book.decided % learning.refit_every
    block = learning.refit_every * math.ceil(LEAST_BLOCK / learning.refit_every)
    first = max(forgotten, known - most)
    if first > 0:
        first = math.ceil(first / block) * block
    rows = slice(max(0, first - forgotten), max(0, known - forgotten))
    owners = book.owners if len(book.owners) else np.full(len(book.history), NOBODY)
    return pooled(book.history[rows], book.ceilings[rows], owners[rows], block=block)


def learned_prices(
    learning: Learning, book: Book, *, scarcity: Floats, units: Sequence[float] | None = None
) -> PriceFunction:
    """Return the price function `L (U/L)^(q/C)` with L and U from quantiles of the densities of past bids.

    Parameters
    ----------
    scarcity
        Factor in [0, 1] on the reserve price of each resource, R numbers.
    units
        Number of units of each resource that cost `prior_low` or `prior_high` together, R numbers; None: one unit.
    """
    rows, for_workers = past(learning, book), _for_workers(book)
    wanted = (learning.reserve_quantile, learning.full_quantile)
    low, high = [], []
    for r, (mine, found) in enumerate(zip(for_workers, _quantiles(rows.tobytes(), rows.shape[1], wanted), strict=True)):
        share = max((learning.worker_share if mine else learning.ps_share) * float(scarcity[r]), IDLE_SHARE)
        if found is not None:
            reserve, full = found
            low.append(reserve * share)
            high.append(max(full, low[-1]))
        else:
            many = 1.0 if units is None else units[r]
            low.append(learning.prior_low / many)
            high.append(learning.prior_high / many)
    return reserve_prices(low, high)


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
    """Return, for each resource, the square of the share of its role's capacity sold in the near horizon, R numbers.

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
    """Return the share of each resource that is sold in the near horizon, R numbers.

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
