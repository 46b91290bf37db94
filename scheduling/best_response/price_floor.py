"""A lower bound on what a job costs at posted prices, which is found faster than its best response."""

import math
from functools import cached_property, lru_cache

import numpy as np

from scheduling.best_response.base import PriceOf
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.types import Floats, Ints

ROUNDING = 1e-9
"""Share of a cost by which it may be too large because of rounding."""
GRID = 16
"""Prices of equal use are computed again after at most 1 / GRID of the slots that are ahead."""


class PriceFloor:
    """Bounds on the payoffs of bids on one ledger at its posted prices.

    A job needs a number of worker-slots, and has at most one worker for each chunk in a slot. So it costs at least as
    much as that many worker-slots where they are cheapest, whatever its policy allows. Parameter servers, servers that
    a worker would share, and breaks are left out.

    Examples
    --------
    >>> from scheduling.best_response.price_floor import PriceFloor
    >>> from scheduling.book.ledger import Ledger
    >>> from scheduling.model.example import INVENTORY, job
    >>> from scheduling.pricing.price_function import reserve_prices
    >>> floor = PriceFloor(Ledger(INVENTORY, start=0, slots=8), reserve_prices([2.5, 1.0], [4.0, 4.0]))
    >>> floor.may_pay(job(6.5)), floor.may_pay(job(5.9))
    (True, False)
    """

    def __init__(self, ledger: Ledger, prices: PriceOf) -> None:
        self._ledger = ledger
        self._prices = prices

    def may_pay(self, bid: Bid) -> bool:
        """Return False only if no schedule of the bid is worth more than it costs.

        Notes
        -----
        O(T) for each doubling of the time in which the job could be complete; O(T S R) once for comparing slots.
        """
        now, slots = self._ledger.start, len(self._cheapest)
        work = float(bid.work * min(bid.worker_time, default=0))
        least = max(1, math.ceil(work / bid.chunks * (1.0 - ROUNDING)))
        first = max(least, bid.arrival + least - now)
        if self._payoff(bid, work, least, bid.utility.at(now + first - bid.arrival), slots) <= 0.0:
            return False
        while first <= slots:
            last = min(slots, 2 * first)
            if self._payoff(bid, work, least, bid.utility.at(now + first - bid.arrival), last) > 0.0:
                return True
            first = last + 1
        return False

    def _payoff(self, bid: Bid, work: float, least: int, value: float, last: int) -> float:
        """Return at least the payoff of any schedule of this value that is complete by the end of slot `last`."""
        if last < least:
            return -math.inf
        cheapest = np.partition(self._cheapest[:last], least - 1)[:least]
        if not math.isfinite(cheapest[-1]):
            return -math.inf
        full = float(cheapest[:-1].sum()) * bid.chunks
        cost = full + max(0.0, work - (least - 1) * bid.chunks) * float(cheapest[-1])
        return value - cost * (1.0 - ROUNDING)

    @cached_property
    def _cheapest(self) -> Floats:
        """At most the price of the cheapest worker that is free in each slot, T numbers; infinite if no server has
        room.

        Of two slots with the same use the later one costs at least as much. So prices are computed at the heads of
        stretches of equal use only, and stand for the slots that follow.
        """
        ledger, inventory = self._ledger, self._ledger.inventory
        used = ledger.used
        heads = _heads(used)
        taken = used[heads]
        unit = self._prices.of(taken, inventory.capacity, heads[:, np.newaxis])
        free = inventory.capacity - taken
        found = np.full(len(heads), math.inf)
        for machine in inventory.workers:
            demand = np.array(machine.demand)
            demanded = demand > 0
            room = (free[:, :, demanded] >= demand[demanded]).all(axis=2)
            price = np.where(room, unit @ demand, math.inf)
            np.minimum(found, price.min(axis=1, initial=math.inf), out=found)
        return np.repeat(found, np.diff(heads, append=len(used)))


def _heads(used: Ints) -> Ints:
    """Return the slots in which use changes, and in longer and longer steps the slots between, in order."""
    slots = len(used)
    heads = np.zeros(slots, np.bool_)
    heads[_grid(slots)] = True
    rows = used.reshape(slots, -1)
    heads[1:] |= (rows[1:] != rows[:-1]).any(axis=1)
    return np.flatnonzero(heads)


@lru_cache(maxsize=64)
def _grid(slots: int) -> Ints:
    """Return slots from 0 on, each at most 1 / `GRID` further ahead than the one before."""
    found, at = [], 0
    while at < slots:
        found.append(at)
        at += 1 + at // GRID
    return np.array(found, np.int64)
