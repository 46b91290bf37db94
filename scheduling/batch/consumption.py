"""Least consumption of a job, what the job offers for it, and the price of consumption."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints, Json

SPARE = 1024
"""Number of results that are kept beyond twice those of the last call."""
SLACK = 1e-9
"""Durations at most this far above a whole number of slots are rounded down; an order needs no more digits."""


@dataclass(frozen=True)
class Consumption:
    """Least consumption of a job: on one server, with the most favourable types and number of workers."""

    volume: float
    """Slots x share of the total capacity, summed over resources; 0 if no machine fits anywhere."""
    units: tuple[float, ...]
    """Unit-slots of each resource, R numbers."""

    def density(self, weight: float) -> float:
        """Weight per unit of volume; 0 where nothing fits."""
        return weight / self.volume if self.volume > 0 else 0.0

    def densities(self, weight: float) -> tuple[float, ...]:
        """Weight per unit-slot of each resource, R numbers; 0 where the job does not use the resource."""
        return tuple(weight / units if units > 0 else 0.0 for units in self.units)


def least_consumption(bid: Bid, inventory: Inventory) -> Consumption:
    """Compute the least machines x slots that a job needs, as shares of the whole cluster.

    With shares, the order of jobs does not depend on whether memory is counted in GB or in MB. The result is a lower
    bound: the workers may not fit one server.

    Notes
    -----
    N workers are held max(1, ceil(E D K k / N)) slots (weighted completion, eq. 2f). O(W P N) with N the most workers
    that the job and the cluster have.
    """
    best = Consumption(0.0, (0.0,) * len(inventory.unit_shares))
    for found in _choices(bid, inventory):
        p, n = divmod(int(found.volumes.argmin()), len(found.counts))
        if best.volume == 0 or found.volumes[p, n] < best.volume:
            best = Consumption(float(found.volumes[p, n]), tuple(found.units(p, n).tolist()))
    return best


def offers_for_each_kind(bid: Bid, inventory: Inventory, weight: float) -> tuple[float, ...]:
    """Return the weight per unit-slot of each resource, R numbers, 0 where no machine that the job can use takes it.

    The unit-slots are those of the least consumption (`least_consumption`) among all that take the resource. Where
    resources are kinds of machines, a job has an offer for each kind that it could run on.
    """
    offers, least = np.zeros(len(inventory.unit_shares)), np.full(len(inventory.unit_shares), np.inf)
    for found in _choices(bid, inventory):
        for p, n in enumerate(found.volumes.argmin(axis=1)):
            units = found.units(p, n)
            better = (units > 0) & (found.volumes[p, n] < least)
            offers[better], least[better] = weight / units[better], found.volumes[p, n]
    return tuple(offers.tolist())


class _Choice(NamedTuple):
    """Runs of a job with one worker type: with P PS types and N numbers of workers."""

    demand: Ints
    """Units of a worker, R."""
    partners: Sequence[Ints]
    """Units of a PS of each type, P x R."""
    counts: Ints
    """Numbers of workers, N."""
    slots: Floats
    """Slots that a run takes, P x N."""
    volumes: Floats
    """Slots x share of the total capacity, P x N."""

    def units(self, p: int, n: int) -> Floats:
        """Return the unit-slots of each resource that a run takes, R."""
        found: Floats = self.slots[p, n] * (self.counts[n] * self.demand + self.partners[p])
        return found


def _choices(bid: Bid, inventory: Inventory) -> Iterator[_Choice]:
    """Yield the runs with each worker type of which some server has room for a machine."""
    if bid.architecture is Architecture.RING:
        none = np.zeros(len(inventory.unit_shares), dtype=np.int64)
        partners = [(none, 0.0, 0.0)]
    else:
        hosted = _hosted(inventory.ps_demand, inventory.ps_shares, bid.ps_time, inventory.ps_room)
        partners = [(demand, share, step) for demand, share, step, _ in hosted]
    workers = list(_hosted(inventory.worker_demand, inventory.worker_shares, bid.worker_time, inventory.worker_room))
    if not partners or not workers:
        return
    ps_shares, ps_steps = (np.array([[one[column]] for one in partners]) for column in (1, 2))  # P x 1
    counts = np.arange(1, min(bid.chunks, max(room for *_, room in workers)) + 1)
    # Only the workers of a ring reduce among themselves.
    reduce = float(bid.reduce_time) if bid.architecture is Architecture.RING else 0.0
    reduced, work = reduce * (counts - 1) / counts, bid.work
    for demand, share, step, room in workers:
        count, pace = counts[:room], step + reduced[:room]
        slots = np.maximum(1.0, np.ceil(work * (pace + ps_steps) / count - SLACK))
        yield _Choice(demand, [one[0] for one in partners], count, slots, slots * (count * share + ps_shares))


def consumption_of(bid: Bid, ledger: Ledger) -> Consumption:
    """Return the least consumption of a bid; the ledger caches the results."""
    known = _cache_of(ledger)
    old = known.get(bid.id)
    if old is None or (old[0] is not bid and old[0] != bid) or old[1] is not ledger.inventory:
        old = known[bid.id] = bid, ledger.inventory, least_consumption(bid, ledger.inventory)
    return old[2]


def consumptions(bids: Iterable[Bid], ledger: Ledger) -> dict[str, Consumption]:
    """Return the least consumption of each bid, by id; the ledger caches the results."""
    asked = {bid.id: consumption_of(bid, ledger) for bid in bids}
    known = _cache_of(ledger)
    if len(known) > 2 * len(asked) + SPARE:
        ledger.derived["consumption"] = {name: known[name] for name in asked if name in known}
    return asked


def _cache_of(ledger: Ledger) -> dict[str, tuple[Bid, Inventory, Consumption]]:
    known = ledger.derived.get("consumption")
    if not isinstance(known, dict):
        known = ledger.derived["consumption"] = {}
    return known


@dataclass(frozen=True)
class ConsumptionPrice:
    """`scale_r (lambda^(beta / C) - 1)` for a unit of resource r (weighted completion, eq. 11), in the log domain."""

    lambda_: float
    scale: tuple[float, ...]
    """R numbers above 0."""
    rises_ahead: ClassVar[bool] = False

    @property
    def free(self) -> bool:
        """Whether every price is 0."""
        return self.lambda_ == 1.0

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        """Price of one unit for one slot, the shape of `used`; 0 where there is no capacity, and at lambda 1."""
        share = np.divide(used, capacity, out=np.zeros(used.shape), where=capacity > 0)
        prices: Floats = np.expm1(math.log(self.lambda_) * share) * np.array(self.scale)
        return prices

    def to_json(self) -> Json:
        """Name and parameters, for receipts."""
        return {"name": "consumption", "lambda": self.lambda_, "scale": list(self.scale)}


def consumption_price(
    lambda_: float, weights: Iterable[tuple[float, Consumption]], inventory: Inventory
) -> ConsumptionPrice:
    """Return the price (11), in units in which the least weight per unit of consumption is 1, as the paper assumes.

    Consumption is measured in shares of the cluster, so one unit of a resource counts as 1 / total capacity.
    """
    least = min((c.density(weight) for weight, c in weights if weight > 0 and c.volume > 0), default=1.0)
    return price_above(lambda_, least, inventory)


def price_above(lambda_: float, least: float, inventory: Inventory) -> ConsumptionPrice:
    """Return the price (11) in units in which the density `least` is 1."""
    return ConsumptionPrice(
        lambda_, tuple(least * share if share > 0 else least for share in inventory.unit_shares.tolist())
    )


def _hosted(
    demands: Ints, shares: tuple[float, ...], times: tuple[Fraction, ...], counts: tuple[int, ...]
) -> Iterator[tuple[Ints, float, float, int]]:
    """Yield demand, its share, step time and number of machines that fit, for each type that fits anywhere."""
    for demand, share, time, room in zip(demands, shares, times, counts, strict=True):
        if room > 0:
            yield demand, share, float(time), room
