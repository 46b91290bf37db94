"""The tables of the elastic search for one ledger, kept between decisions and refreshed where the ledger changed."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from scheduling.best_response.base import PriceOf
from scheduling.best_response.elastic.compiled import Counts, Flags
from scheduling.best_response.elastic.tables import (
    CheapestServers,
    changed_slots,
    mark_alike,
    refresh_cheapest,
)
from scheduling.best_response.elastic.type_pairs import TypePair, type_pairs
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Floats, Ints

KEPT = 32
"""Number of machine types whose tables are kept: the most recently used ones."""


@dataclass
class _Table:
    """The cheapest of one machine type."""

    cheapest: CheapestServers
    hosts: Ints
    demand: Ints
    demanded: Ints
    at: Ints
    """The index's change number when each slot was brought up to date, T."""


class ElasticIndex:
    """Tables over one ledger's usage and prices. The answers are the same with a fresh index and with a warm one.

    Notes
    -----
    A refresh finds the slots that changed. They are priced, and the table of a machine type is brought up to date,
    where a search looks: O(S (R + log S)) for each slot that changed since. Hold `lock` from `refresh` until the
    response is read.
    """

    def __init__(self, inventory: Inventory, slots: int) -> None:
        self.lock = threading.Lock()
        self.inventory = inventory
        self.slots = slots
        self._seen: tuple[object, PriceOf | None] | None = None
        self._prices: PriceOf | None = None
        self._used: Ints | None = None
        self._free: Ints = np.zeros((slots, *inventory.capacity.shape), np.int64)
        self._unit: Floats = np.zeros(self._free.shape)
        self._alike: Flags = np.zeros(slots, np.bool_)
        """Whether each slot has the room of the slot before, T flags."""
        self.repeats: Flags = np.zeros(slots, np.bool_)
        """Whether each slot equals the slot before, T flags."""
        self.follows: Flags = np.zeros(slots, np.bool_)
        """Whether each slot has the room of the slot before at no lower price, T flags."""
        self._changed: Ints = np.zeros(slots, np.int64)
        """The number of the change that last touched each slot."""
        self._priced: Ints = np.full(slots, -1)
        """The number of the change when each slot was priced."""
        self._changes = 0
        self._asked: tuple[object, ...] | None = None
        self._pairs: tuple[TypePair, ...] = ()
        self._tables: OrderedDict[MachineType, _Table] = OrderedDict()

    def refresh(self, used: Ints, prices: PriceOf | Floats, *, version: object = None) -> None:
        """Bring use and prices up to date; with the same `version` as before (not None) nothing is compared."""
        function = None if isinstance(prices, np.ndarray) else prices
        if version is not None and self._seen == (version, function):
            return
        self._seen = None
        used = np.ascontiguousarray(used).view()
        used.flags.writeable = False
        slots = np.ones(self.slots, np.bool_)
        if self._used is None:
            self._used, count = np.zeros_like(used), self.slots
        else:
            count = changed_slots(used, self._used, slots)
        if count:
            self._used[slots] = used[slots]
            self._free[slots] = self.inventory.capacity - used[slots]
            mark_alike(self._free, slots, self._alike)
        if function is None or self._prices != function:
            slots[:] = True
        self._changes += 1
        self._changed[slots] = self._changes
        self._prices = function
        self._compare(prices)
        self._seen = (version, function)

    @property
    def rises_ahead(self) -> bool:
        """Whether a later slot can cost more than an earlier one with the same use, by a function of both."""
        return self._prices is not None and self._prices.rises_ahead

    def _compare(self, prices: PriceOf | Floats) -> None:
        """Compare each slot with the slot before it; with the same use, a price function gives no lower price."""
        if isinstance(prices, np.ndarray):
            self._unit[:], self._priced[:] = prices, self._changes
            before, here = self._unit[:-1], self._unit[1:]
            self.repeats[1:] = self._alike[1:] & (here == before).all(axis=(1, 2))
            self.follows[1:] = self._alike[1:] & (here >= before).all(axis=(1, 2))
        else:
            self.follows[:] = self._alike
            self.repeats[:] = self._alike & (not prices.rises_ahead)

    def cheapest(self, machine: MachineType, slots: Flags) -> CheapestServers:
        """Return the servers where one machine type fits, cheapest first; only these slots (T flags) are up to date."""
        table = self._tables.pop(machine, None) or self._table(machine)
        self._tables[machine] = table
        if len(self._tables) > KEPT:
            self._tables.popitem(last=False)
        known = table.at >= self._changed
        dirty = slots & ~known
        if dirty.any():
            self._price(dirty)
            repeats = self._repeated(dirty | known)
            refresh_cheapest(
                table.cheapest, self._free, self._unit, table.hosts, table.demand, table.demanded, dirty, repeats
            )
            table.at[dirty] = self._changes
        return table.cheapest

    def _price(self, slots: Flags) -> None:
        """Compute prices of slots that changed since; one that repeats another one has its price."""
        if self._prices is None or self._used is None:
            return
        needed = slots & (self._priced < self._changed)
        ahead = np.flatnonzero(needed)
        first = ~self._repeated(needed)[ahead]
        found = self._prices.of(self._used[ahead[first]], self.inventory.capacity, ahead[first][:, np.newaxis])
        self._unit[ahead] = found[first.cumsum() - 1]
        self._priced[ahead] = self._changes

    def _repeated(self, known: Flags) -> Flags:
        """Return which slots repeat the slot before, if that one is known, T flags."""
        repeated = self.repeats.copy()
        repeated[1:] &= known[:-1]
        return repeated

    def _table(self, machine: MachineType) -> _Table:
        hosts, demand = self._hosts(machine)
        demanded = np.flatnonzero(demand).astype(np.int64)
        shape = (self.slots, len(hosts))
        cheapest = CheapestServers(
            size=np.zeros(self.slots, np.int32),
            server=np.zeros(shape, np.int32),
            price=np.zeros(shape),
            room=np.zeros(shape, np.int32),
        )
        return _Table(cheapest, hosts, demand, demanded, at=np.full(self.slots, -1))

    def _hosts(self, machine: MachineType) -> tuple[Ints, Ints]:
        """Return the servers with capacity for at least one machine, and the demand of one."""
        demand = np.array(machine.demand, np.int64)
        return np.flatnonzero((self.inventory.capacity >= demand).all(axis=1)).astype(np.int64), demand

    def type_pairs(self, bid: Bid) -> tuple[TypePair, ...]:
        """Return the pairs of types with which the bid's work fits; those of the last bid are cached."""
        known = (bid.worker_time, bid.ps_time, bid.transfer_time, bid.work, bid.chunks)
        if self._asked != known:
            self._asked = known
            self._pairs = tuple(type_pairs(bid, self.inventory, slots=self.slots))
        return self._pairs

    def pss_needed(self, pair: TypePair, most: int) -> Counts:
        """Compute ceil(n b_w / b_p) for n = 0..most, or as many as fit the empty cluster, exact."""
        hosts, demand = self._hosts(pair.worker)
        demanded = demand > 0
        fits = (self.inventory.capacity[hosts][:, demanded] // demand[demanded]).min(axis=1, initial=most).sum()
        most = min(most, int(fits))
        ratio = pair.worker.bandwidth_mbps / pair.ps.bandwidth_mbps
        exact = np.int64 if ratio.numerator * most < 1 << 62 and ratio.denominator < 1 << 62 else object
        return np.asarray(-(-np.arange(most + 1).astype(exact) * ratio.numerator // ratio.denominator)).astype(np.int32)
