"""The tables of the rigid search for one ledger, kept between decisions and refreshed where the ledger changed."""

import math
import threading

import numpy as np

from scheduling.best_response.base import PAYOFF, RATIO, PriceOf, slots_ahead
from scheduling.best_response.rigid.compiled import MACHINES, Counts, Flags
from scheduling.best_response.rigid.durations import durations, ps_counts
from scheduling.best_response.rigid.job import Job
from scheduling.best_response.rigid.search import search
from scheduling.best_response.rigid.tables import (
    Tables,
    changed_cells,
    fill_hosted,
    price_all,
    price_some,
    refresh_all,
    refresh_cheapest,
    refresh_ps,
    refresh_some,
    round_all,
    round_some,
)
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints
from scheduling.solvers.numba_tools import compile_for

LARGE = 4
HUBS = 8
"""Servers of at least a quarter of the greatest one's size are hubs, if they are no more than eight."""
NARROWEST = 16
"""Number of workers that new tables are made for; it is doubled for bids with more chunks."""
TABLED_WORKERS = 4096
TABLED_PSS = 64
"""Largest counts in the tables. Bounds of larger counts are extrapolated: they stay valid and the tables small."""
FINE = 1e-8
"""Largest loss by rounding prices, as a share of what a bid can spend, if it held all workers all the time."""
SHARP = 1e-9
"""Largest loss by rounding prices, as a share of what a bid can spend, for the machine-slots that it can hold."""


class RigidIndex:
    """Tables over one ledger's usage and prices. The answers are the same with a fresh index and with a warm one.

    Units that cost more than `price_cap` in a slot count as used: the bid cannot afford them.

    Notes
    -----
    Building costs O(M T S log T); a refresh O(M T log T) for each server that changed and O(T (S + N log S)) for each
    machine type that did. One search at a time: hold `lock` over `refresh` and `search`.
    """

    def __init__(self, inventory: Inventory, slots: int, *, price_cap: float = math.inf) -> None:
        self.price_cap = price_cap
        self.lock = threading.Lock()
        self.inventory = inventory
        self.slots = slots
        self._seen: tuple[object, PriceOf | None] | None = None
        self._prices: PriceOf | None = None
        self._used: Ints | None = None
        self._rings = False
        self._static()
        self._widen(1)

    def _static(self) -> None:
        inventory = self.inventory
        # A ring is a job whose PS demands nothing: one more PS type, made for the first of them.
        nothing = np.zeros((int(self._rings), len(inventory.resources)), np.int64)
        self._demand = np.concatenate([inventory.worker_demand, inventory.ps_demand, nothing])
        self._workers = len(inventory.workers)
        need = self._demand[:, None, :]
        fits = np.where(need > 0, inventory.capacity[None] // np.maximum(need, 1), MACHINES).min(axis=2)
        fits[len(fits) - len(nothing) :] = 1
        self._most: Counts = np.minimum(fits, MACHINES).astype(np.int32)
        self._total = int(self._most.sum(axis=1, dtype=np.int64).max(initial=1))
        size = self._most[: self._workers].sum(axis=0, dtype=np.int64)
        large = size * LARGE >= size.max(initial=1)
        if large.sum() > HUBS:
            large[:] = False
        self._hubs: Ints = np.flatnonzero(large).astype(np.int64)
        self._small: Flags = ~large
        self._most_small: Counts = self._most[:, self._small].max(axis=1, initial=0).astype(np.int32)
        demanded = self._demand > 0
        self._demanded: Ints = np.full((len(demanded), int(demanded.sum(axis=1).max(initial=0)) + 1), -1, np.int64)
        for m, row in enumerate(demanded):
            self._demanded[m, : row.sum()] = np.flatnonzero(row)
        self._shared: Flags = np.asarray(
            (demanded[: self._workers, None] & demanded[None, self._workers :]).any(axis=2)
        )
        # Sums of a machine's price over all slots and machines stay below 2^62 quanta.
        self._bits = max(62 - self.slots.bit_length() - self._total.bit_length(), 8)

    def _widen(self, count: int) -> None:
        """Allocate tables for jobs of up to `count` workers."""
        self._width = min(max(NARROWEST, 1 << (count - 1).bit_length()), self._total)
        machines, servers = self._most.shape
        workers, pss, slots = self._workers, machines - self._workers, self.slots
        levels = max(slots, 1).bit_length()
        tabled = min(self._width, TABLED_WORKERS)
        needed = ps_counts(self.inventory, self._width, rings=self._rings)
        most = min(TABLED_PSS, max(1, min(int(self._most_small[workers:].max(initial=1)), int(needed.max(initial=1)))))
        self._slot_costs = np.zeros((workers, slots, tabled + 1), np.int64)
        self._totals = np.zeros((workers, slots), np.int64)
        self._slot_prices = np.zeros((pss, slots, most + 1), np.int64)
        self._unit: Floats = np.zeros((slots, *self.inventory.capacity.shape))
        self._peaks: Floats = np.zeros(machines)
        self._tables = Tables(
            demand=self._demand,
            demanded=self._demanded,
            shared=self._shared,
            pss=needed,
            hosted=np.zeros((2, 1 + len(self._hubs), workers, pss), np.int64),
            hubs=self._hubs,
            small=self._small,
            most=self._most,
            most_small=self._most_small,
            free=np.zeros((slots, *self.inventory.capacity.shape), np.int64),
            quantum=np.ones(machines),
            cost=np.zeros((machines, slots, servers)),
            slot_price=np.zeros((machines, slots, servers), np.int64),
            price=np.zeros((machines, slots + 1, servers), np.int64),
            room=np.zeros((machines, levels, slots, servers), np.int32),
            cheap=np.zeros((workers, tabled + 1, slots + 1), np.int64),
            lasts=np.zeros((workers, tabled + 1, slots), np.int32),
            ps_cheap=np.zeros((pss, most + 1, slots + 1), np.int64),
            ps_lasts=np.zeros((pss, most + 1, slots), np.int32),
            hub_price=np.zeros((len(self._hubs), machines, slots + 1), np.int64),
            hub_room=np.zeros((len(self._hubs), machines, levels, slots), np.int32),
        )
        fill_hosted(self._tables)
        self._cells: Ints = np.zeros(slots * servers, np.int64)
        self._used = None

    def refresh(self, used: Ints, prices: PriceOf | Floats, *, version: object = None) -> None:
        """Bring the tables up to date; with the same `version` as before (not None) nothing is compared."""
        function = None if isinstance(prices, np.ndarray) else prices
        if version is not None and self._seen == (version, function):
            return
        self._seen = None
        used = np.ascontiguousarray(used).view()
        used.flags.writeable = False
        known = self._used
        if known is None or function is None or self._prices != function:
            self._build(used, prices)
        else:
            cells = self._cells[: changed_cells(used, known, self._cells)]
            if len(cells):
                at = np.divmod(cells, used.shape[1])
                self._update(cells, used[at], function)
                known[at] = used[at]
        self._prices = function
        self._seen = (version, function)

    def _build(self, used: Ints, prices: PriceOf | Floats) -> None:
        """Compute all tables."""
        tables, types = self._tables, np.arange(len(self._demand))
        if self._used is None:
            self._used = np.empty_like(used)
        self._used[:] = used
        np.subtract(self.inventory.capacity, used, out=tables.free)
        if isinstance(prices, np.ndarray):
            self._unit[:] = prices
        else:
            self._unit[:] = prices.of(used, self.inventory.capacity, slots_ahead(self.slots))
        if self.price_cap < math.inf:
            tables.free[self._unit > self.price_cap] = 0
        price_all(tables, self._unit)
        self._rescale(types)
        round_all(tables, types)
        refresh_all(tables, types, self.slots)
        self._derive(np.ones((len(types), self.slots), np.bool_))

    def _update(self, cells: Ints, used: Ints, prices: PriceOf) -> None:
        """Bring the tables up to date with cells of the ledger that changed, and what is used there now."""
        tables, (machines, servers) = self._tables, self._most.shape
        slot, server = np.divmod(cells, servers)
        capacity = self.inventory.capacity[server]
        self._unit[slot, server] = unit = prices.of(used, capacity, slot)
        tables.free[slot, server] = np.where(unit > self.price_cap, 0, capacity - used)
        dirty = np.zeros((machines, self.slots), np.bool_)
        low, high = np.full((machines, servers), self.slots), np.zeros((machines, servers), np.int64)
        price_some(tables, self._unit, cells, dirty, low, high)
        rescaled = self._rescale(np.flatnonzero(dirty.any(axis=1)))
        round_some(tables, cells)
        round_all(tables, rescaled)
        dirty[rescaled] = True
        if 4 * np.count_nonzero(high.any(axis=0)) > servers:
            refresh_all(tables, np.flatnonzero(dirty.any(axis=1)), int(high.max()))
        else:
            refresh_some(tables, low, high)
            refresh_all(tables, rescaled, 0)
        self._derive(dirty)

    def _rescale(self, types: Ints) -> Ints:
        """Choose the quanta of machine types from their greatest prices now posted, not earlier ones.

        Return the types whose quantum changed.
        """
        self._peaks[types] = [self._tables.cost[m].max(initial=0.0) for m in types]
        exponent = np.maximum(np.frexp(self._peaks)[1], -900) - self._bits
        quantum = np.ldexp(1.0, exponent)
        rescaled = np.flatnonzero(quantum != self._tables.quantum)
        self._tables.quantum[:] = quantum
        return rescaled

    def _derive(self, dirty: Flags) -> None:
        """Bring the tables of bounds up to date with the slots of machine types marked dirty."""
        tables = self._tables
        for m in np.flatnonzero(dirty.any(axis=1)):
            price, room = tables.slot_price[m], tables.room[m, 0]
            if m < self._workers:
                refresh_cheapest(
                    price, room, dirty[m], self._slot_costs[m], self._totals[m], tables.cheap[m], tables.lasts[m]
                )
            else:
                p = int(m) - self._workers
                refresh_ps(price, room, dirty[m], self._slot_prices[p], tables, p)
            for hub, server in enumerate(self._hubs):
                tables.hub_price[hub, m] = tables.price[m, :, server]
                tables.hub_room[hub, m] = tables.room[m, :, :, server]

    def search(
        self, bid: Bid, *, start: int, first_start: int | None, tail: int, mode: int, above: float
    ) -> tuple[Ints, Ints]:
        """Search the refreshed tables for one bid; slots in the answer count from `start`."""
        return search(self._tables, self._job(bid, start, first_start, tail, mode, above))

    def compile_search(self, bid: Bid, *, start: int) -> None:
        """Compile the search without running it; tables may be empty."""
        compile_for(search, self._tables, self._job(bid, start, None, 0, PAYOFF, 0.0))

    def _job(self, bid: Bid, start: int, first_start: int | None, tail: int, mode: int, above: float) -> Job:
        """Return the bid in slots that count from `start`."""
        most = min(bid.chunks, self._total)
        usable = np.array(bid.delay, np.int64) + (bid.arrival - start)
        earliest = start if first_start is None else first_start
        first = max(int(usable.min(initial=0)), bid.arrival - start, 0, earliest - start)
        values = value_by_slot(bid, start, self.slots)
        worth = np.flatnonzero(values > (0.0 if mode == RATIO else above))
        latest = -1 if not len(worth) else int(worth[-1])
        return Job(
            usable=usable,
            order=np.argsort(usable),
            values=values,
            durations=durations(bid, most=most, slots=self.slots),
            first_ps=len(self.inventory.parameter_servers) if bid.architecture is Architecture.RING else 0,
            first=min(first, self.slots),
            latest=min(latest, self.slots - tail),
            tail=tail,
            mode=mode,
            above=above,
        )

    def resolves(self, bid: Bid, limit: float, *, tail: int) -> bool:
        """Return whether the rounding error is negligible for a bid that cannot spend more than `limit`."""
        quantum, most = float(self._tables.quantum.max()), min(bid.chunks, self._total)
        if most * self.slots * quantum <= FINE * limit or float(self._peaks.max(initial=0.0)) <= limit:
            return True
        return self._machine_slots(bid, most, tail) * quantum <= SHARP * limit

    def least_cost(self, bid: Bid, *, tail: int) -> float:
        """Return a lower bound of the cost of any schedule of the bid: its workers in their cheapest cells, money."""
        length = durations(bid, most=min(bid.chunks, self._total), slots=self.slots).astype(np.int64)
        number = np.arange(length.shape[-1])
        fits = (length <= self.slots) & (number > 0)
        least = math.inf
        for w in np.flatnonzero(fits.any(axis=(0, 2, 3))):
            worker_slots = (number * (length[:, w] + tail)).min(where=fits[:, w], initial=np.iinfo(np.int64).max)
            least = min(least, float(worker_slots) * float((self._unit @ self._demand[w]).min()))
        return least

    def _machine_slots(self, bid: Bid, most: int, tail: int) -> int:
        """Return an upper bound of the machine-slots, workers and PSs, of any schedule of the bid."""
        length = durations(bid, most=most, slots=self.slots).astype(np.int64)
        # All workers away from the host need the most PSs.
        pss = np.maximum(1, self._tables.pss[:, :, : most + 1].max(axis=(0, 1)))
        held = (np.arange(most + 1) + pss) * (length + tail)
        return int(held.max(initial=0, where=length <= self.slots))

    def covers(self, bid: Bid) -> bool:
        """Return whether the tables are wide enough for the bid's workers and made for its architecture."""
        enough = min(bid.chunks, self._total) <= self._width
        return enough and (self._rings or bid.architecture is not Architecture.RING)

    def widen_for(self, bid: Bid) -> None:
        """Make the tables wide enough for a bid; the next refresh then builds them again."""
        if not self.covers(bid):
            self._seen = None
            if bid.architecture is Architecture.RING and not self._rings:
                self._rings = True
                self._static()
            self._widen(max(bid.chunks, self._width))

    def pss_for(self, worker: int, ps: int, remote: int) -> int:
        """Return the number of PSs for `remote` workers that are not on their host."""
        return int(self._tables.pss[worker, ps, remote])

    def cost(self, *, server: int, demand: tuple[int, ...], start: int, end: int) -> float:
        """Return the price of one machine on a server in slots [start, end) from the ledger's start on, money."""
        unit = self._unit[start:end, server].sum(axis=0)
        return math.fsum(float(unit[r]) * amount for r, amount in enumerate(demand) if amount)


def value_by_slot(bid: Bid, start: int, slots: int) -> Floats:
    """Return the value of completion at slots start, ..., start + slots: T + 1 numbers, 0 before the arrival."""
    waited = start - bid.arrival
    values = np.zeros(slots + 1)
    if waited >= 0:
        values[:] = bid.utility.curve(waited + slots + 1)[waited:]
    elif -waited <= slots:
        values[-waited:] = bid.utility.curve(slots + 1 + waited)
    return values
