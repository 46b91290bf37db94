"""The tables of the elastic search for one ledger, kept between decisions and refreshed where the ledger changed."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from scheduling.best_response.base import PriceOf, slots_ahead
from scheduling.best_response.elastic.compiled import Counts, Flags
from scheduling.best_response.elastic.tables import CheapestServers, changed_cells, mark_repeats, refresh_cheapest
from scheduling.best_response.elastic.type_pairs import TypePair, type_pairs
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Floats, Ints

KEPT = 32
"""Number of machine types whose tables are kept: the most recently used ones."""


@dataclass
class _Table:
    """The cheapest of one machine type, as they were at the index's change number `at`."""

    cheapest: CheapestServers
    hosts: Ints
    demand: Ints
    demanded: Ints
    at: int = -1


class ElasticIndex:
    """Tables over one ledger's usage and prices. The answers are the same with a fresh index and with a warm one.

    Notes
    -----
    A refresh prices the servers and slots that changed; the table of a machine type is brought up to date when it is
    needed, in O(S (R + log S)) for each slot that changed since. Hold `lock` from `refresh` until the response is
    read.
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
        self.repeats: Flags = np.zeros(slots, np.bool_)
        """Whether each slot equals the slot before, T flags."""
        self.follows: Flags = np.zeros(slots, np.bool_)
        """Whether each slot has the room of the slot before at no lower price, T flags."""
        self._changed: Ints = np.zeros(slots, np.int64)
        """The number of the change that last touched each slot."""
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
        cells = np.ones(used.shape[:2], np.bool_)
        count = cells.size
        if self._used is not None and function is not None and self._prices == function:
            count = changed_cells(used, self._used, cells)
        if count:
            self._take(used, prices, cells, count)
        self._prices = function
        self._seen = (version, function)

    def _take(self, used: Ints, prices: PriceOf | Floats, cells: Flags, count: int) -> None:
        capacity = self.inventory.capacity
        if self._used is None or count == cells.size:
            self._used = used.copy()
            self._free[:] = capacity - used
            self._unit[:] = prices if isinstance(prices, np.ndarray) else _priced(used, capacity, prices)
        else:
            at, servers = np.nonzero(cells)
            now, most = used[at, servers], capacity[servers]
            self._used[at, servers] = now
            self._free[at, servers] = most - now
            if isinstance(prices, np.ndarray):
                self._unit[at, servers] = prices[at, servers]
            else:
                self._unit[at, servers] = prices.of(now, most, at)
        self._changes += 1
        slots: Flags = np.any(cells, axis=1)
        self._changed[slots] = self._changes
        mark_repeats(self._free, self._unit, slots, self.repeats, self.follows)

    def cheapest(self, machine: MachineType) -> CheapestServers:
        """Return the servers where one machine type fits in each slot, cheapest first."""
        table = self._tables.pop(machine, None) or self._table(machine)
        self._tables[machine] = table
        if len(self._tables) > KEPT:
            self._tables.popitem(last=False)
        if table.at < self._changes:
            dirty = self._changed > table.at
            refresh_cheapest(
                table.cheapest, self._free, self._unit, table.hosts, table.demand, table.demanded, dirty, self.repeats
            )
            table.at = self._changes
        return table.cheapest

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
        return _Table(cheapest, hosts, demand, demanded)

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


def _priced(used: Ints, capacity: Ints, prices: PriceOf) -> Floats:
    """Return the prices of all slots, T x S x R, computed only where a slot differs from the slot before."""
    ahead = slots_ahead(len(used))
    if prices.rises_ahead:
        return prices.of(used, capacity, ahead)
    differs = np.append(True, np.any(used[1:] != used[:-1], axis=(1, 2)))
    priced: Floats = prices.of(used[differs], capacity, ahead[differs])[differs.cumsum() - 1]
    return priced
