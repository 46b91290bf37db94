"""A lower bound on what a job costs at posted prices, which is found faster than its best response."""

import math
from functools import cached_property, lru_cache

import numpy as np

from scheduling.best_response.base import PriceOf
from scheduling.best_response.elastic.type_pairs import fits
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.inventory import MachineType
from scheduling.model.types import Floats, Ints

ROUNDING = 1e-9
"""Share of a cost by which it may be too large because of rounding."""
GRID = 16
"""Prices of equal use are computed again after at most 1 / GRID of the slots that are ahead."""


class PriceFloor:
    """Bounds on the payoffs of bids on one ledger at its posted prices.

    With one type of workers a job needs a number of worker-slots, and it has at most one worker for each chunk in a
    slot. So it costs at least as much as that many worker-slots where they are cheapest, whatever its policy allows.
    Parameter servers, servers that a worker would share, and breaks are left out.

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
        self._known: dict[MachineType, Floats] = {}

    def may_pay(self, bid: Bid) -> bool:
        """Return False only if no schedule of the bid is worth more than it costs.

        Notes
        -----
        O(T) for each type of workers with which the job fits the horizon and each doubling of the time in which it
        could be complete; O(T S R) once for each of these types.
        """
        work, most = bid.work, bid.chunks * len(self._ledger.used)
        for machine, time in zip(self._ledger.inventory.workers, bid.worker_time, strict=True):
            if fits(work, time, most) and self._may_pay_with(machine, float(work * time), bid):
                return True
        return False

    def _may_pay_with(self, machine: MachineType, work: float, bid: Bid) -> bool:
        """Return `may_pay` for workers of one type, of which the job needs `work` worker-slots."""
        cheapest = self._cheapest(machine)
        now, slots = self._ledger.start, len(cheapest)
        least = max(1, math.ceil(work / bid.chunks * (1.0 - ROUNDING)))
        first = max(least, bid.arrival + least - now)
        if bid.utility.at(now + first - bid.arrival) <= _least_cost(cheapest, least, work, bid.chunks):
            return False
        while first <= slots:
            last = min(slots, 2 * first)
            value = bid.utility.at(now + first - bid.arrival)
            if value > _least_cost(cheapest[:last], least, work, bid.chunks):
                return True
            first = last + 1
        return False

    def _cheapest(self, machine: MachineType) -> Floats:
        """Return at most the price of the cheapest worker of a type that is free in each slot, T numbers.

        Infinite if no server has room. Of two slots with the same use the later one costs at least as much. So prices
        are computed at the heads of stretches of equal use only, and stand for the slots that follow.
        """
        if machine not in self._known:
            heads, free, unit = self._at_heads
            demand = np.array(machine.demand)
            demanded = np.flatnonzero(demand)
            room = (free[:, :, demanded] >= demand[demanded]).all(axis=2)
            price = np.where(room, unit[:, :, demanded] @ demand[demanded], math.inf)
            found = price.min(axis=1, initial=math.inf)
            self._known[machine] = np.repeat(found, np.diff(heads, append=len(self._ledger.used)))
        return self._known[machine]

    @cached_property
    def _at_heads(self) -> tuple[Ints, Ints, Floats]:
        """The heads of stretches of equal use, and what is free in them and its price, H x S x R each."""
        used, capacity = self._ledger.used, self._ledger.inventory.capacity
        heads = _heads(used)
        taken = used[heads]
        return heads, capacity - taken, self._prices.of(taken, capacity, heads[:, np.newaxis])


def _least_cost(cheapest: Floats, least: int, work: float, chunks: int) -> float:
    """Return at most the cost of `work` worker-slots in slots of these prices; at least `least` of them are used."""
    if len(cheapest) < least:
        return math.inf
    cells = np.partition(cheapest, least - 1)[:least]
    if not math.isfinite(cells[-1]):
        return math.inf
    full = float(cells[:-1].sum()) * chunks
    return (full + max(0.0, work - (least - 1) * chunks) * float(cells[-1])) * (1.0 - ROUNDING)


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
