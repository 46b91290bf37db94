"""Prices learned from past bids: what DPS and OASiS share.

A reserve price keeps room for better bids; on an idle cluster it would only turn work away. So it rises with what is
sold already. Workers and PSs are bought together, so each role has a share of its own.
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
"""Steps in which scarcity is seen."""
IDLE_SHARE = 1e-6
"""Share of the reserve quantile asked on an idle cluster: next to nothing, but never 0, so that full costs more."""


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
        """Times the reserve quantile asked for an idle worker once the near horizon is sold out."""

    @property
    def ps_share(self) -> float:
        """The same for an idle parameter server."""

    @property
    def refit_every(self) -> int:
        """Bids between two looks at the past."""

    @property
    def prior_low(self) -> float:
        """L until bids of `LEAST_OWNERS` owners were decided."""

    @property
    def prior_high(self) -> float:
        """U until then."""


def check_learning(learning: Learning) -> None:
    """Raise InvalidField where one parameter contradicts another."""
    if learning.prior_high < learning.prior_low:
        raise InvalidField(
            "prior_high", f"expected at least prior_low = {learning.prior_low:g}, got {learning.prior_high:g}"
        )
    if learning.full_quantile < learning.reserve_quantile:
        raise InvalidField("full_quantile", f"expected at least reserve_quantile = {learning.reserve_quantile:g}")


def past(learning: Learning, book: Book) -> Floats:
    """Densities of the bids decided before the last refit, pooled: the same rows until the next one, P x R."""
    return past_pools(learning, book, most=HISTORY - learning.refit_every)[0]


def past_pools(learning: Learning, book: Book, *, most: int) -> tuple[Floats, Floats]:
    """Densities P x R and ceilings P of the bids decided before the last refit, pooled (`scheduling.pricing.pooling`).

    Of the last `most` bids at most; of them from the beginning of a block on.
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
    """`L (U/L)^(q/C)` with L and U from quantiles of what past bids offered for each resource.

    Parameters
    ----------
    scarcity
        How much of its role's share of the reserve quantile is asked for each resource, R numbers in [0, 1].
    units
        Units of each resource for which the priors are the price, R numbers; None: one of each.
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
    """Quantiles of what was offered for each resource: the same rows are asked for until the next refit."""
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
    """Square of the share of all machines of a resource's role that is sold in the near horizon, R numbers.

    For resources that are kinds of machines, of which a bid may choose one: all of a role are scarce together.
    """
    sold, capacity = _near(book, 4)
    scarcity = np.zeros(len(sold))
    for_workers = np.array(_for_workers(book))
    for mine in (for_workers, ~for_workers):
        scarcity[mine] = _in_steps(int(sold[mine].sum()), int(capacity[mine].sum())) ** 2
    return scarcity


def scarcity_of_resources(book: Book) -> Floats:
    """Share of each resource that is sold in the near horizon, R numbers.

    For physical resources, of which every machine takes several: only what runs short has a reserve price.
    """
    sold, capacity = _near(book, 8)
    return np.array([_in_steps(int(used), int(most)) for used, most in zip(sold, capacity, strict=True)])


def _near(book: Book, part: int) -> tuple[Ints, Ints]:
    """Unit-slots of each resource that are sold and that there are in the first part of the horizon, R numbers each."""
    return book.ledger.sold(max(1, len(book.ledger.used) // part))


def _in_steps(sold: int, capacity: int) -> float:
    """Share in whole eighths: between them the prices' parameters, and what a kernel keeps warm, stand still."""
    return LEVELS * sold // max(1, capacity) / LEVELS


def _for_workers(book: Book) -> list[bool]:
    asked: list[bool] = (book.inventory.worker_demand.max(axis=0, initial=0) > 0).tolist()
    return asked
