"""Prices learned from past bids: what DPS and OASiS share."""

from typing import Protocol

import numpy as np

from scheduling.arrays import Floats
from scheduling.errors import InvalidField
from scheduling.policy import HISTORY, Book
from scheduling.prices import PriceFunction, reserve_prices

SOON = 4
"""Scarcity is judged by the first quarter of the horizon."""
LEVELS = 8
"""Steps in which scarcity is seen."""
SMALLEST_OFFER = 1e-9
"""Money per unit-slot below which a past bid teaches nothing: a logarithm of such quantiles would leave the doubles."""
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
        """L while there is no past."""

    @property
    def prior_high(self) -> float:
        """U while there is no past."""


def check_learning(learning: Learning) -> None:
    """Raise InvalidField where one parameter contradicts another."""
    if learning.prior_high < learning.prior_low:
        raise InvalidField(
            "prior_high", f"expected at least prior_low = {learning.prior_low:g}, got {learning.prior_high:g}"
        )
    if learning.full_quantile < learning.reserve_quantile:
        raise InvalidField("full_quantile", f"expected at least reserve_quantile = {learning.reserve_quantile:g}")


def past(learning: Learning, book: Book) -> Floats:
    """Densities of the bids decided before the last refit: the same rows until the next one."""
    since = book.decided % learning.refit_every
    known = len(book.history) - since
    return book.history[max(0, known - (HISTORY - learning.refit_every)) : max(0, known)]


def learned_prices(learning: Learning, book: Book) -> PriceFunction:
    """`L (U/L)^(q/C)` with L and U from quantiles of what past bids offered for each resource."""
    rows = past(learning, book)
    low, high = [], []
    for r, share in enumerate(_shares(learning, book)):
        offers = rows[:, r][rows[:, r] >= SMALLEST_OFFER]
        if len(offers):
            reserve, full = np.quantile(offers, [learning.reserve_quantile, learning.full_quantile])
            low.append(float(reserve) * share)
            high.append(max(float(full), low[-1]))
        else:
            low.append(learning.prior_low)
            high.append(learning.prior_high)
    return reserve_prices(low, high)


def _shares(learning: Learning, book: Book) -> list[float]:
    """Share of the reserve quantile asked for each resource: it rises with the square of what is sold already.

    A reserve price keeps room for better bids; on an idle cluster it would only turn work away. Workers and PSs
    are bought together, so each role has a share of its own, and both see the use of their own role. Use is
    taken in whole eighths: between them the prices' parameters, and what a kernel keeps warm, stand still.
    """
    inventory, used = book.inventory, book.ledger.used
    soon = used[: max(1, len(used) // SOON)]
    capacity = len(soon) * inventory.capacity.sum(axis=0)
    sold = soon.sum(axis=(0, 1))
    for_workers = inventory.worker_demand.max(axis=0, initial=0) > 0
    shares = [0.0] * len(inventory.resources)
    for share, mine in ((learning.worker_share, for_workers), (learning.ps_share, ~for_workers)):
        level = int(LEVELS * int(sold[mine].sum()) // max(1, int(capacity[mine].sum())))
        for r in np.flatnonzero(mine):
            shares[r] = max(share * (level / LEVELS) ** 2, IDLE_SHARE)
    return shares
