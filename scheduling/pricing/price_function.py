"""Posted prices that grow exponentially with the share of a resource in use: DPS eq. 20, OASiS eq. 22.

The price rules choose the parameters, such as L and U of OASiS: `paper.py`, `quantile.py` and `fluid.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints, Json

LARGEST_LOG = math.log(1e15)
"""Logarithm of the largest posted price, so that no sum of prices can overflow."""
LONGEST_DISCOUNT = 1_000_000
"""Largest number of discounted slots."""
BLOCK = 1 << 17
"""Number of prices that are computed at a time: a megabyte of each step stays in the processor's cache."""


@dataclass(frozen=True)
class PriceFunction:
    """`price = exp(log_scale + log_growth x used / capacity) - offset`, for each resource, evaluated in the log domain.

    With offset 1 and scale 1 this is `eta^(q/C) - 1` (DPS eq. 20); with offset 0 it is `L (U/L)^(g/c)`
    (OASiS eq. 22). R numbers each; an offset of 1 needs a log_scale of at least 0, so that no price is negative.

    Two terms depend on how far ahead a slot is. The price of an idle slot may be discounted if the slot is near, since
    what is not sold by then is lost: `L(l) = L min(1, (l + 1) / discounted_slots)` for the slot l slots ahead, with the
    same U. And each slot ahead may cost `per_slot_ahead` more, so that of equal slots the sooner one is bought.
    """

    name: str
    log_scale: tuple[float, ...]
    log_growth: tuple[float, ...]
    offset: tuple[int, ...]
    discounted_slots: int = 0
    """Number of slots, from the first one on, that are discounted while they are idle; 0 or 1: none. Prices with an
    offset of 1 have none."""
    per_slot_ahead: tuple[float, ...] = ()
    """Money added to the price of a unit for each slot ahead, R numbers; empty for none."""

    def __post_init__(self) -> None:
        self._check_terms()
        for r, (scale, growth, offset) in enumerate(zip(self.log_scale, self.log_growth, self.offset, strict=True)):
            if not (math.isfinite(scale) and growth >= 0.0 and scale + growth <= LARGEST_LOG):
                raise InvalidField(f"prices[{r}]", f"expected a finite price that rises, got {scale} and {growth}")
            if offset not in (0, 1) or (offset == 1 and scale < 0.0):
                raise InvalidField(f"prices[{r}]", f"expected an offset of 0, or 1 over a scale of 1, got {offset}")

    def _check_terms(self) -> None:
        most = 1 if any(self.offset) else LONGEST_DISCOUNT
        if not 0 <= self.discounted_slots <= most:
            raise InvalidField("discounted_slots", f"expected 0 to {most}, got {self.discounted_slots}")
        if self.per_slot_ahead and len(self.per_slot_ahead) != len(self.offset):
            raise InvalidField("per_slot_ahead", f"expected {len(self.offset)} numbers, got {len(self.per_slot_ahead)}")
        if not all(0.0 <= money < math.inf for money in self.per_slot_ahead):
            raise InvalidField("per_slot_ahead", f"expected numbers of at least 0, got {self.per_slot_ahead}")

    @property
    def rises_ahead(self) -> bool:
        """Whether a later slot can cost more than an earlier one with the same use."""
        return self.discounted_slots > 1 or any(self.per_slot_ahead)

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        """Compute the posted price of one unit for one slot.

        Parameters
        ----------
        used, capacity
            Units, arrays that broadcast to (..., R).
        ahead
            Number of slots from the first slot of the horizon, an array that broadcasts to (...).

        Returns
        -------
        Floats
            Money, of the same shape. 0 where capacity is 0, because nothing can be used or charged there.

        Notes
        -----
        O(1) for each price. Prices never fall when use rises, nor from a slot to a later one with the same use.

        References
        ----------
        .. [1] R. Zhou et al., "DPS", eq. (20).
        .. [2] Y. Bao et al., "Online Job Scheduling in Distributed Machine Learning Clusters", eq. (22).

        Examples
        --------
        >>> import numpy as np
        >>> from scheduling.pricing.price_function import reserve_prices
        >>> prices = reserve_prices([1.0], [16.0])
        >>> prices.of(np.array([[0], [2], [4]]), np.array([[4], [4], [4]]), np.zeros(3, int)).round(6).tolist()
        [[1.0], [4.0], [16.0]]

        An idle slot is discounted while it is less than four slots ahead; a full one is not.

        >>> prices = reserve_prices([1.0], [16.0], discounted_slots=4)
        >>> prices.of(np.array([[0], [0], [4]]), np.array([[4], [4], [4]]), np.array([0, 1, 0])).round(6).tolist()
        [[0.25], [0.5], [16.0]]
        """
        if used.ndim != 3 or ahead.shape != (len(used), 1):
            return self._of(used, capacity, ahead)
        _, servers, resources = used.shape
        # Most of a horizon is idle, and the idle units of a resource in a slot have one price.
        idle = self._of(np.zeros((len(used), 1, resources), np.int64), np.ones(resources, np.int64), ahead)
        prices: Floats = np.repeat(idle, servers, axis=1)
        prices *= (capacity > 0).astype(np.float64)
        busy = np.zeros(len(used) * servers, np.bool_)
        busy[np.flatnonzero(used != 0) // resources] = True
        cells = np.flatnonzero(busy)
        step = max(1, BLOCK // resources)
        each = np.broadcast_to(capacity, used.shape[1:])
        for first in range(0, len(cells), step):
            slot, server = np.divmod(cells[first : first + step], servers)
            prices[slot, server] = self._of(used[slot, server], each[server], ahead[slot, 0])
        return prices

    def _of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        """Compute prices at once, as `of` does."""
        # In place: another array for each step takes longer than the step.
        share = used / np.where(capacity > 0, capacity, math.inf)
        power = share * np.array(self.log_growth)
        power += np.array(self.log_scale)
        if self.discounted_slots > 1:
            nearness = np.log(np.minimum(1.0, (ahead + 1) / self.discounted_slots))
            discount = np.subtract(1.0, share, out=share)
            discount *= nearness[..., np.newaxis]
            power += discount
        prices: Floats
        if len(set(self.offset)) == 1:
            prices = np.expm1(power, out=power) if self.offset[0] else np.exp(power, out=power)
        else:
            prices = np.where(np.array(self.offset) == 1, np.expm1(power), np.exp(power))
        if self.per_slot_ahead:
            prices += ahead[..., np.newaxis] * np.array(self.per_slot_ahead)
        prices *= capacity > 0
        return prices

    def to_json(self) -> Json:
        """Return the name and the parameters, for receipts; terms that are not in effect are left out."""
        document: Json = {
            "name": self.name,
            "log_scale": list(self.log_scale),
            "log_growth": list(self.log_growth),
            "offset": list(self.offset),
        }
        if self.discounted_slots > 1:
            document["discounted_slots"] = self.discounted_slots
        if any(self.per_slot_ahead):
            document["per_slot_ahead"] = list(self.per_slot_ahead)
        return document


def eta_prices(etas: Sequence[float]) -> PriceFunction:
    """Return the price function `eta^(q/C) - 1` (DPS eq. 20). `etas` are R numbers of at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from scheduling.pricing.price_function import eta_prices
    >>> eta_prices([9.0]).of(np.array([[0], [2], [4]]), np.array([[4], [4], [4]]), np.zeros(3, int)).round(6).tolist()
    [[0.0], [2.0], [8.0]]
    """
    count = len(etas)
    growth = tuple(math.log(eta) for eta in etas)
    return PriceFunction(name="paper", log_scale=(0.0,) * count, log_growth=growth, offset=(1,) * count)


def reserve_prices(
    low: Sequence[float],
    high: Sequence[float],
    *,
    name: str = "quantile",
    discounted_slots: int = 0,
    per_slot_ahead: Sequence[float] = (),
) -> PriceFunction:
    """Return the price function `L (U/L)^(q/C)` (OASiS eq. 22): L when idle, U when full.

    `low` and `high` are R positive numbers each, L at most U. `name` is that of the price rule, for receipts.
    The last two arguments are fields of `PriceFunction`.
    """
    return PriceFunction(
        name=name,
        log_scale=tuple(math.log(x) for x in low),
        log_growth=tuple(math.log(y / x) for x, y in zip(low, high, strict=True)),
        offset=(0,) * len(low),
        discounted_slots=discounted_slots,
        per_slot_ahead=tuple(per_slot_ahead),
    )
