"""What the rigid search keeps warm about one ledger between decisions: derived data, refreshed where it changed."""

import math
import threading

import numpy as np

from scheduling.best_response.base import PriceOf
from scheduling.best_response.rigid.compiled import MACHINES, Counts, Flags
from scheduling.best_response.rigid.durations import durations, ps_counts
from scheduling.best_response.rigid.job import PAYOFF, Job
from scheduling.best_response.rigid.search import compile_improve, search
from scheduling.best_response.rigid.tables import (
    Tables,
    build_servers,
    changed_slots,
    price_peaks,
    refresh_cheapest,
    refresh_ps,
    refresh_server,
)
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints
from scheduling.solvers.numba_tools import compile_for

LARGE = 4
HUBS = 8
"""Servers of at least a quarter of the greatest one's size are hubs, if they are no more than eight."""
NARROWEST = 16
"""Workers that tables are made for before a bid with more chunks comes: doubled as needed."""
TABLED_WORKERS = 4096
TABLED_PSS = 64
"""Beyond these counts bounds are extrapolated, which keeps them valid and the tables small."""
FINE = 1e-8
"""Share of what a bid can spend that rounding prices to quanta may cost it, were all its workers held all the time."""
SHARP = 1e-9
"""The same with the machine-slots that it can hold."""


class RigidIndex:
    """Tables over one ledger's usage and prices. The answers are the same with a fresh index and with a warm one.

    Units that cost more than `ceiling` in a slot count as used.

    Notes
    -----
    Building costs O(M T S log T); a refresh O(M T log T) for each server that changed and O(T (S + N log S)) for each
    machine type that did. One search at a time: hold `lock` over `refresh` and `search`.
    """

    def __init__(self, inventory: Inventory, slots: int, *, ceiling: float = math.inf) -> None:
        self.ceiling = ceiling
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
        wants = self._demand > 0
        self._wants: Ints = np.full((len(wants), int(wants.sum(axis=1).max(initial=0)) + 1), -1, np.int64)
        for m, row in enumerate(wants):
            self._wants[m, : row.sum()] = np.flatnonzero(row)
        self._shared: Flags = np.asarray((wants[: self._workers, None] & wants[None, self._workers :]).any(axis=2))
        # Sums of a machine's price over all slots and machines stay below 2^62 quanta.
        self._bits = max(62 - self.slots.bit_length() - self._total.bit_length(), 8)

    def _widen(self, count: int) -> None:
        """Make room for jobs of up to `count` workers."""
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
        self._peaks: Floats = np.zeros((machines, servers))
        self._tables = Tables(
            demand=self._demand,
            wants=self._wants,
            shared=self._shared,
            pss=needed,
            hubs=self._hubs,
            small=self._small,
            most=self._most,
            most_small=self._most_small,
            free=np.zeros((slots, *self.inventory.capacity.shape), np.int64),
            quantum=np.ones(machines),
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
        self._used = None

    def refresh(self, used: Ints, prices: PriceOf | Floats, *, version: object = None) -> None:
        """Bring the tables up to date; with the same `version` (not None) nothing is looked at."""
        function = None if isinstance(prices, np.ndarray) else prices
        if version is not None and self._seen == (version, function):
            return
        self._seen = None
        slots = self.slots
        used = np.ascontiguousarray(used).view()
        used.flags.writeable = False
        low, high = np.zeros(used.shape[1], np.int64), np.full(used.shape[1], slots, np.int64)
        again = self._used is None or function is None or self._prices != function
        if self._used is not None and not again:
            changed_slots(used, self._used, low, high)
        touched = np.flatnonzero(low < slots)
        if len(touched):
            end = int(high[touched].max())
            self._take(used, prices, touched, slice(int(low[touched].min()), end))
            if self._rescale() or again:
                self._build(slots)
            elif 4 * len(touched) > used.shape[1]:
                self._build(end)
            else:
                self._update(touched, low, high)
        self._prices = function
        self._seen = (version, function)

    def _take(self, used: Ints, prices: PriceOf | Floats, touched: Ints, slots: slice) -> None:
        """Copy what is used and priced on the servers, and in the slots, that changed."""
        if self._used is None:
            self._used = np.empty_like(used)
        # A slice copies whole rows where indices would gather one by one.
        where = slice(None) if len(touched) == used.shape[1] else touched
        now, capacity = used[slots, where], self.inventory.capacity[where]
        self._used[slots, where] = now
        self._tables.free[slots, where] = capacity - now
        self._unit[slots, where] = prices[slots, where] if isinstance(prices, np.ndarray) else prices.of(now, capacity)
        if self.ceiling < math.inf:
            self._tables.free[self._unit > self.ceiling] = 0
        price_peaks(self._tables, self._unit, touched, self._peaks)

    def _rescale(self) -> bool:
        """Choose the quanta from the greatest prices now posted, never from earlier ones; did they change?"""
        exponent = np.maximum(np.frexp(self._peaks.max(axis=1, initial=0.0))[1], -900) - self._bits
        quantum = np.ldexp(1.0, exponent)
        if (quantum == self._tables.quantum).all():
            return False
        self._tables.quantum[:] = quantum
        return True

    def _build(self, end: int) -> None:
        """Compute the tables again, where nothing changed in slot `end` or later."""
        build_servers(self._tables, self._unit, end)
        dirty = np.zeros((len(self._demand), self.slots), np.bool_)
        dirty[:, :end] = True
        self._derive(dirty)

    def _update(self, touched: Ints, low: Ints, high: Ints) -> None:
        dirty = np.zeros((len(self._demand), self.slots), np.bool_)
        for s in touched:
            refresh_server(self._tables, self._unit, s, low[s], high[s], dirty)
        self._derive(dirty)

    def _derive(self, dirty: Flags) -> None:
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
        tables.hub_price[:] = np.moveaxis(tables.price[:, :, self._hubs], 2, 0)
        tables.hub_room[:] = np.moveaxis(tables.room[:, :, :, self._hubs], 3, 0)

    def search(
        self, bid: Bid, *, start: int, first_start: int | None, tail: int, mode: int, above: float
    ) -> tuple[Ints, Ints]:
        """Search the tables as refreshed for one bid; slots in the answer count from `start`."""
        return search(self._tables, self._job(bid, start, first_start, tail, mode, above))

    def compile_search(self, bid: Bid, *, start: int) -> None:
        """Compile the search without running it; tables may be empty."""
        compile_for(search, self._tables, self._job(bid, start, None, 0, PAYOFF, 0.0))

    def compile_placement(self, bid: Bid, *, start: int) -> None:
        """Compile the half of the search that places one candidate: two processes have both halves sooner."""
        compile_improve(self._tables, self._job(bid, start, None, 0, PAYOFF, 0.0))

    def _job(self, bid: Bid, start: int, first_start: int | None, tail: int, mode: int, above: float) -> Job:
        """The bid in slots that count from `start`."""
        most = min(bid.chunks, self._total)
        usable = np.array(bid.delay, np.int64) + (bid.arrival - start)
        earliest = start if first_start is None else first_start
        first = max(int(usable.min(initial=0)), bid.arrival - start, 0, earliest - start)
        return Job(
            usable=usable,
            worth=worth_by_slot(bid, start, self.slots),
            durations=durations(bid, most=most, slots=self.slots),
            first_ps=len(self.inventory.pss) if bid.architecture is Architecture.RING else 0,
            first=min(first, self.slots),
            tail=tail,
            mode=mode,
            above=above,
        )

    def resolves(self, bid: Bid, limit: float, *, tail: int) -> bool:
        """Is rounding lost beside `limit`, more than which the bid cannot spend? If not, tables up to it are finer."""
        quantum, most = float(self._tables.quantum.max()), min(bid.chunks, self._total)
        if most * self.slots * quantum <= FINE * limit or float(self._peaks.max(initial=0.0)) <= limit:
            return True
        return self._machine_slots(bid, most, tail) * quantum <= SHARP * limit

    def _machine_slots(self, bid: Bid, most: int, tail: int) -> int:
        """More than any schedule of the bid holds, workers and PSs."""
        length = durations(bid, most=most, slots=self.slots).astype(np.int64)
        # All workers away from the host need the most PSs.
        pss = np.maximum(1, self._tables.pss[:, :, : most + 1].max(axis=(0, 1)))
        held = (np.arange(most + 1) + pss) * (length + tail)
        return int(held.max(initial=0, where=length <= self.slots))

    def covers(self, bid: Bid) -> bool:
        """Are the tables wide enough for the bid's workers, and made for its architecture?"""
        enough = min(bid.chunks, self._total) <= self._width
        return enough and (self._rings or bid.architecture is not Architecture.RING)

    def widen_for(self, bid: Bid) -> None:
        """Make the tables wide enough; they are then built again by the next refresh."""
        if not self.covers(bid):
            self._seen = None
            if bid.architecture is Architecture.RING and not self._rings:
                self._rings = True
                self._static()
            self._widen(max(bid.chunks, self._width))

    def pss_for(self, worker: int, ps: int, remote: int) -> int:
        """PSs that `remote` workers away from their host need."""
        return int(self._tables.pss[worker, ps, remote])

    def cost(self, *, server: int, demand: tuple[int, ...], start: int, end: int) -> float:
        """Price of one machine on one server in slots [start, end) counted from the ledger's start, money."""
        unit = self._unit[start:end, server].sum(axis=0)
        return math.fsum(float(unit[r]) * amount for r, amount in enumerate(demand) if amount)


def worth_by_slot(bid: Bid, start: int, slots: int) -> Floats:
    """Value of completion at slots start, ..., start + slots; T + 1 numbers, 0 before the arrival."""
    waited = start - bid.arrival
    worth = np.zeros(slots + 1)
    if waited >= 0:
        worth[:] = bid.utility.curve(waited + slots + 1)[waited:]
    elif -waited <= slots:
        worth[-waited:] = bid.utility.curve(slots + 1 + waited)
    return worth
