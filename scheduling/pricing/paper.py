"""Paper prices: the etas of DPS (eq. 20), and the bounds (23)-(26) of OASiS.

The bounds are in the log domain because f(T - a) may be as small as e^-1000.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.best_response.elastic.type_pairs import type_pairs
from scheduling.book.state import Book
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Floats
from scheduling.model.utility import Sigmoid, Utility
from scheduling.pricing.pooling import Learning
from scheduling.pricing.price_function import PriceFunction, eta_prices

U_ARGS = ("slots", "duration", "paper")
"""Argument of f in (23) and (24): the earliest completion, one slot later, or `ceil(.) - a` as in the paper."""
L_ARGS = ("horizon", "floor")
"""Value of f in (25), (26): at the end of the horizon, as in the paper, or at least `FLOOR` times its best value."""
FLOOR = 1e-6


@dataclass(frozen=True)
class DpsPaperRule:
    """The price rule `eta^(q/C) - 1` (DPS eq. 20)."""

    eta_worker: tuple[float, ...]
    """eta of each worker type; empty: 1 + the greatest density of past bids."""
    eta_ps: tuple[float, ...]
    """eta of each PS type; empty together with `eta_worker`."""
    learning: Learning
    """The pools of past bids, and their limit."""
    initial_high: float
    """eta - 1 of a resource that no past bid could use, money per slot."""

    def price_function(self, book: Book) -> PriceFunction:
        """Return the price function with the given etas, or with etas from the bids decided before the last refit.

        Raises
        ------
        InvalidField
            If the number of given etas is not the number of types, or if two types share a resource.
        """
        if self.eta_worker:
            return eta_prices(etas_by_resource(self.eta_worker, self.eta_ps, book.inventory))
        peak = self.learning.pooled(book).densities.max(axis=0, initial=0.0)
        return eta_prices([float(top if top > 0 else self.initial_high) + 1.0 for top in peak])


@dataclass(frozen=True)
class OasisPaperRule:
    """The price rule `L (U/L)^(g/c)` (OASiS eq. 22)."""

    log_low: tuple[float, ...]
    """ln L of one unit of each resource; empty: from past bids."""
    log_high: tuple[float, ...]
    """ln U of one unit of each resource; empty together with `log_low`."""
    learning: Learning
    """The pools of past bids, and their limit."""
    initial_low: float
    """L of all units of a resource that no past bid could use, money per slot."""
    initial_high: float
    """U of all units of a resource that no past bid could use, money per slot."""

    def price_function(self, book: Book) -> PriceFunction:
        """Return the price function with the given bounds, or with bounds from bids decided before the last refit.

        Raises
        ------
        InvalidField
            If the number of given bounds is not the number of resources.
        """
        if not self.log_low:
            return self._bounds_from_history(book).price_function()
        if len(self.log_low) != len(book.inventory.resources):
            raise InvalidField("log_low", f"expected {len(book.inventory.resources)} numbers, got {len(self.log_low)}")
        return Bounds(self.log_low, self.log_high).price_function()

    def _bounds_from_history(self, book: Book) -> "Bounds":
        """Estimate (23)-(26) from receipts, which contain a bid's value per unit-slot but not its whole utility.

        U is the largest offer for a unit-slot. L is a quarter of the smallest offer of one bid for an equal share of
        every resource that it uses. eta is 1.
        """
        rows = self.learning.pooled(book).densities
        total = book.inventory.capacity.sum(axis=0)
        for_workers = np.array(used_by_workers(book.inventory))
        low, high = (np.log(initial / np.maximum(1, total)) for initial in (self.initial_low, self.initial_high))
        for mine in (for_workers, ~for_workers):
            offers, units = rows[:, mine], total[mine]
            asked = (offers > 0) & (units > 0)
            shares = np.divide(1.0, offers * units, out=np.zeros(offers.shape), where=asked).sum(axis=1)
            if shares.any():
                low[mine] = -np.log(4.0 * shares.max()) - np.log(np.maximum(units, 1))
                most = offers.max(axis=0)
                high[mine] = np.maximum(np.log(most, out=low[mine], where=most > 0), low[mine])
        return Bounds(tuple(low.tolist()), tuple(high.tolist()))


def etas_by_resource(eta_worker: tuple[float, ...], eta_ps: tuple[float, ...], inventory: Inventory) -> list[float]:
    """Return the given etas by resource, R numbers: in DPS every machine type has its own resource.

    Raises
    ------
    InvalidField
        If the number of etas is not the number of types, or if two types share a resource.
    """
    etas: dict[int, float] = {}
    both = (("eta_worker", eta_worker, inventory.workers), ("eta_ps", eta_ps, inventory.parameter_servers))
    refuse_all(
        [
            InvalidField(name, f"expected {len(machines)} numbers, one for each type, got {len(given)}")
            for name, given, machines in both
            if len(given) != len(machines)
        ]
    )
    for _, given, machines in both:
        for eta, machine in zip(given, machines, strict=True):
            etas[_own_resource(machine, etas)] = eta
    return [etas.get(r, 1.0) for r in range(len(inventory.resources))]


def _own_resource(machine: MachineType, known: dict[int, float]) -> int:
    uses = [r for r, units in enumerate(machine.demand) if units]
    if len(uses) != 1 or uses[0] in known:
        raise InvalidField(
            "eta_worker", f"expected a resource for each machine type with given etas, got {machine.name}, which shares"
        )
    return uses[0]


@dataclass(frozen=True)
class Bounds:
    """Lower bounds L and upper bounds U of the price of one unit: ln L and ln U, R numbers each, L at most U."""

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
        return PriceFunction(name="paper", log_scale=self.log_low, log_growth=growth, offset=(0,) * len(self.log_low))


def paper_bounds(
    bids: Iterable[Bid],
    inventory: Inventory,
    *,
    start: int,
    end: int,
    units: Sequence[float] | None = None,
    for_workers: Sequence[bool] | None = None,
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
    for_workers
        Whether each resource is one of the worker servers, R flags. None: those that a worker type demands are.
    u_arg, l_arg
        Readings of the paper, `U_ARGS` and `L_ARGS`.

    Raises
    ------
    InvalidField
        If no bid can be done and has a positive value at the horizon.

    Notes
    -----
    1/eta is as large as the paper allows: the smallest share of all capacity over time that one bid uses, at most 1.
    Bids with value 0 at the horizon would make every price 0, so the minimum ignores them. A resource that no bid uses
    has U = L.

    References
    ----------
    .. [1] Y. Bao et al., "Online Job Scheduling in Distributed Machine Learning Clusters", eq. (22)-(26).

    Examples
    --------
    >>> import numpy as np
    >>> from scheduling.model.example import INVENTORY, job
    >>> from scheduling.pricing.paper import paper_bounds
    >>> bounds = paper_bounds([job()], INVENTORY, start=0, end=8)
    >>> np.exp(bounds.log_low).round(4).tolist(), np.exp(bounds.log_high).round(4).tolist()
    ([0.0312, 0.0312], [8.0, 8.0])
    """
    total = inventory.capacity.sum(axis=0)
    weights = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0) if units is None else np.array(units)
    rows = [
        (
            _late(bid.utility, end - bid.arrival, l_arg),
            _log_value(bid.utility, _soonest(bid, way.step, u_arg)),
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
    workers = np.array(used_by_workers(inventory) if for_workers is None else for_workers, dtype=np.bool_)
    for mine in (workers, ~workers):
        volume = slots * (demand[:, mine] @ weights[mine])
        everything = (end - start) * float((total * weights)[mine].sum())
        low[mine] = _log_low(late, volume, everything) + np.log(np.where(weights > 0, weights, 1.0)[mine])
    return Bounds(tuple(low.tolist()), tuple(np.maximum(low, high).tolist()))


def used_by_workers(inventory: Inventory) -> tuple[bool, ...]:
    """Whether some worker type demands each resource, R flags."""
    return tuple(bool(asked) for asked in inventory.worker_demand.max(axis=0, initial=0))


def _log_low(late: Floats, volume: Floats, everything: float) -> float:
    """ln of (25) or (26): the least value per unit of volume, times 1 / (4 eta)."""
    counts = np.isfinite(late) & (volume > 0)
    if not counts.any():
        raise InvalidField(
            "prices", "expected a job with a value above 0 at the horizon, to derive prices from, got none"
        )
    # Servers of which none has any capacity limit eta to no value, so only the limit of 1 is left.
    share = min(1.0, float(volume[counts].min()) / everything) if everything else 1.0
    return float((late[counts] - np.log(volume[counts])).min()) + math.log(share) - math.log(4.0)


def _soonest(bid: Bid, step: Fraction, u_arg: str) -> int:
    """Elapsed slots at which (23) evaluates f. Completion is the end of a slot, so n slots end at n."""
    slots = max(1, math.ceil(bid.epochs * bid.minibatches * step))
    return max(1, slots + {"slots": 0, "duration": 1, "paper": 1 - bid.arrival}[u_arg])


def _late(utility: Utility, elapsed: int, l_arg: str) -> float:
    last = _log_value(utility, elapsed)
    return max(last, _log_value(utility, 1) + math.log(FLOOR)) if l_arg == "floor" else last


def _log_value(utility: Utility, elapsed: int) -> float:
    """ln f(elapsed); -inf where the value is 0."""
    if isinstance(utility, Sigmoid) and utility.g1 > 0:
        return math.log(utility.g1) - float(np.logaddexp(0.0, utility.g2 * (elapsed - utility.g3)))
    value = utility.at(elapsed)
    return math.log(value) if value > 0 else -math.inf
