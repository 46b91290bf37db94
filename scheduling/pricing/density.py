"""Value per unit-slot of each resource; price parameters are learned from it."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from scheduling.best_response.elastic.type_pairs import type_pairs
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType


def density(bid: Bid, inventory: Inventory, *, horizon: int, tail: int = 0) -> tuple[float, ...]:
    """Compute the greatest value per unit-slot of each resource that the bid can offer on an idle cluster.

    All machines are on one server, from the earliest start on, with the number of workers at which the value per
    unit-slot is greatest.

    Parameters
    ----------
    bid, inventory
        The job, in slots, and the machine types; capacities are not used.
    horizon
        Slots after arrival by which the job must be complete; otherwise the density is 0.
    tail
        Slots held beyond completion.

    Returns
    -------
    tuple of float
        R numbers, money per unit and slot; 0 where the bid does not use the resource or cannot complete.

    Notes
    -----
    O((W + P) D): for a fixed type of one role, the fastest type of the other role is best at every count,
    because value never increases with time.

    References
    ----------
    .. [1] R. Zhou et al., "DPS", remark below eq. (20). The paper does not name the schedule over which its maximum is
       taken.

    Examples
    --------
    >>> from scheduling.model.example import INVENTORY, job
    >>> from scheduling.pricing.density import density
    >>> density(job(), INVENTORY, horizon=8)
    (4.5, 9.0)
    """
    best = [0.0] * len(inventory.resources)
    first = min(bid.delay)
    if horizon < first:
        return tuple(best)
    curve = bid.utility.curve(horizon + 1)
    fastest_worker, fastest_ps = min(bid.worker_time), min(bid.ps_time)
    for machine, step in zip(inventory.workers, bid.worker_time, strict=True):
        work = bid.work * (step + fastest_ps)
        in_time = [(n, d) for n, d in _durations(work, bid.chunks) if first + d <= horizon]
        _raise(best, machine, max((curve[first + d] / (n * (d + tail)) for n, d in in_time), default=0.0))
    for machine, step in zip(inventory.parameter_servers, bid.ps_time, strict=True):
        # One PS serves a whole server, so the shortest job pays the most per PS and slot.
        _, slots = next(_durations(bid.work * (fastest_worker + step), bid.chunks, least=bid.chunks))
        if first + slots <= horizon:
            _raise(best, machine, curve[first + slots] / (slots + tail))
    return tuple(best)


def elastic_density(bid: Bid, inventory: Inventory, *, horizon: int) -> tuple[float, ...]:
    """Compute the greatest value per unit-slot of each resource that an elastic bid can offer on an idle cluster.

    The job uses as many workers at once as it can use and the servers can hold, from the earliest start. The number of
    worker-slots is fixed; the number of PS-slots is the least that these workers need.

    Parameters
    ----------
    bid, inventory
        The job, in slots, and the servers and machine types.
    horizon
        Slots after arrival by which the job must be complete; otherwise the density is 0.

    Returns
    -------
    tuple of float
        R numbers, money per unit and slot; 0 where the bid does not use the resource or cannot complete.

    Notes
    -----
    O(W P) after the pairs of types are listed.

    Examples
    --------
    >>> from scheduling.model.example import INVENTORY, job
    >>> from scheduling.pricing.density import elastic_density
    >>> elastic_density(job(), INVENTORY, horizon=8)
    (2.0, 4.0)
    """
    best = [0.0] * len(inventory.resources)
    first = min(bid.delay)
    for way in type_pairs(bid, inventory, slots=max(0, horizon - first)):
        bandwidth = way.ps.bandwidth_mbps / way.worker.bandwidth_mbps
        most = min(bid.chunks, _room(way.worker, inventory), math.floor(_room(way.ps, inventory) * bandwidth))
        slots = math.ceil(Fraction(way.worker_slots, most)) if most else horizon
        if not most or first + slots > horizon:
            continue
        full, rest = divmod(way.worker_slots, most)
        value = bid.utility.at(first + slots)
        _raise(best, way.worker, value / way.worker_slots)
        _raise(best, way.ps, value / (full * way.pss(most) + way.pss(rest)))
    return tuple(best)


def _room(machine: MachineType, inventory: Inventory) -> int:
    """Number of machines of one type that fit on all servers together."""
    demand = np.array(machine.demand)
    needed = demand > 0
    return int((inventory.capacity[:, needed] // demand[needed]).min(axis=1).sum())


def _durations(work: Fraction, chunks: int, *, least: int = 1) -> Iterator[tuple[int, int]]:
    top, bottom = work.numerator, work.denominator
    for count in range(least, chunks + 1):
        yield count, max(1, -(-top // (bottom * count)))


def _raise(best: list[float], machine: MachineType, offer: float) -> None:
    for r, units in enumerate(machine.demand):
        if units:
            best[r] = max(best[r], float(offer) / units)
