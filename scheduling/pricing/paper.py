"""Price bounds (23)-(26) of the OASiS paper, in the log domain because f(T - a) may be as small as e^-1000."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.best_response.elastic.type_pairs import type_pairs
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats
from scheduling.model.utility import Sigmoid, Utility
from scheduling.pricing.price_function import PriceFunction

U_ARGS = ("slots", "duration", "printed")
"""Argument of f in (23) and (24): the earliest completion, one slot later, or `ceil(.) - a` as in the paper."""
L_ARGS = ("horizon", "floor")
"""Value of f in (25), (26): at the end of the horizon, as in the paper, or at least `FLOOR` times its best value."""
FLOOR = 1e-6


@dataclass(frozen=True)
class Bounds:
    """ln L and ln U of the price of one unit of each resource, R numbers each, L at most U."""

    log_low: tuple[float, ...]
    log_high: tuple[float, ...]

    def misjudged(self, *, ratio: float = 1.0, power: float = 1.0) -> "Bounds":
        """Return bounds with U / L replaced by max(1, (U / L)^power x ratio), for wrong estimates (paper, Fig. 6); U
        stays."""
        pairs = zip(self.log_low, self.log_high, strict=True)
        low = tuple(top - max(0.0, (top - bottom) * power + math.log(ratio)) for bottom, top in pairs)
        return Bounds(low, self.log_high)

    def price_function(self) -> PriceFunction:
        """Return the price function `L (U/L)^(g/c)` (eq. 22)."""
        growth = tuple(high - low for low, high in zip(self.log_low, self.log_high, strict=True))
        return PriceFunction(name="printed", log_scale=self.log_low, log_growth=growth, offset=(0,) * len(self.log_low))


def printed_bounds(
    bids: Iterable[Bid],
    inventory: Inventory,
    *,
    start: int,
    end: int,
    units: Sequence[float] | None = None,
    u_arg: str = "slots",
    l_arg: str = "horizon",
) -> Bounds:
    """Compute price bounds from past bids or, as the paper assumes, from all future bids.

    Parameters
    ----------
    bids
        Bids whose utilities are functions of completion - arrival.
        inventory
            A cluster whose workers and PSs share no resource.
    start, end
        The T = end - start slots of the system; f(T - a) is what completion at `end` is worth.
    units
        Weight of one unit of each resource in the sums over resources, R numbers. None: 1 / total capacity, so that L
        does not depend on whether memory is counted in GB or MB.
    u_arg, l_arg
        Readings of the paper, `U_ARGS` and `L_ARGS`.

    Raises
    ------
    InvalidField
        If no bid can be done and has a positive value at the horizon.

    Notes
    -----
    1/eta is the tight one, at most 1. Bids with value 0 at the horizon would make every price 0, so the minimum ignores
    them. A resource that no bid uses has U = L.

    References
    ----------
    .. [1] Y. Bao et al., "Online Job Scheduling in Distributed Machine Learning Clusters", eq. (22)-(26).
    """
    total = inventory.capacity.sum(axis=0)
    weights = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0) if units is None else np.array(units)
    rows = [
        (
            _late(bid.utility, end - bid.arrival, l_arg),
            _log_worth(bid.utility, _soonest(bid, way.step, u_arg)),
            way.worker_slots,
            np.add(way.worker.demand, way.ps.demand),
        )
        for bid in bids
        for way in type_pairs(bid, inventory, slots=end - bid.arrival)
    ]
    late, soon, slots = (np.array([row[i] for row in rows], dtype=np.float64) for i in range(3))
    demand = np.array([row[3] for row in rows], dtype=np.float64).reshape(len(rows), len(total))
    for_a_unit = soon[:, np.newaxis] - np.log(np.where(demand > 0, demand, 1.0))
    high = np.where(demand > 0, for_a_unit, -np.inf).max(axis=0, initial=-np.inf)
    low = np.zeros(len(total))
    for_workers = np.array(pool_of(inventory))
    for mine in (for_workers, ~for_workers):
        volume = slots * (demand[:, mine] @ weights[mine])
        everything = (end - start) * float((total * weights)[mine].sum())
        low[mine] = _log_low(late, volume, everything) + np.log(np.where(weights > 0, weights, 1.0)[mine])
    return Bounds(tuple(low.tolist()), tuple(np.maximum(low, high).tolist()))


def pool_of(inventory: Inventory) -> tuple[bool, ...]:
    """Whether each resource belongs to the worker servers: some worker type demands it."""
    return tuple(bool(asked) for asked in inventory.worker_demand.max(axis=0, initial=0))


def _log_low(late: Floats, volume: Floats, everything: float) -> float:
    """ln of (25) or (26): the least value per unit of volume, times 1 / (4 eta)."""
    counts = np.isfinite(late) & (volume > 0)
    if not counts.any():
        raise InvalidField("prices", "cannot be derived: no job can be done and is worth anything at the horizon")
    share = min(1.0, float(volume[counts].min()) / everything)
    return float((late[counts] - np.log(volume[counts])).min()) + math.log(share) - math.log(4.0)


def _soonest(bid: Bid, step: Fraction, u_arg: str) -> int:
    """Elapsed slots at which (23) evaluates f. Completion is the end of a slot, so n slots end at n."""
    slots = max(1, math.ceil(bid.epochs * bid.minibatches * step))
    return max(1, slots + {"slots": 0, "duration": 1, "printed": 1 - bid.arrival}[u_arg])


def _late(utility: Utility, elapsed: int, l_arg: str) -> float:
    last = _log_worth(utility, elapsed)
    return max(last, _log_worth(utility, 1) + math.log(FLOOR)) if l_arg == "floor" else last


def _log_worth(utility: Utility, elapsed: int) -> float:
    """ln f(elapsed); -inf where the value is 0."""
    if isinstance(utility, Sigmoid) and utility.g1 > 0:
        return math.log(utility.g1) - float(np.logaddexp(0.0, utility.g2 * (elapsed - utility.g3)))
    worth = utility.at(elapsed)
    return math.log(worth) if worth > 0 else -math.inf
