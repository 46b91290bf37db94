"""The ground of contests: what all contests on one book share, so that it is found once.

Times are slots from now. docs/algorithms/competition.md explains rough plans.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from scheduling.batch.consumption import consumption_of
from scheduling.batch.planner import shortest
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book, Job
from scheduling.competition.kernel import ROUNDING, Cells
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement
from scheduling.model.types import Floats, Ints

WIDER: Final = 0.08
"""Length of a cell of time as a share of the time from now to it; a slot at least."""
LEAST_SHARE: Final = 0.02
"""A bid that would be worth less than this share of what it can be worth at most is not worth its machines."""
REMEMBERED: Final = 512
"""Largest number of bids whose needs are remembered; there are at most 200 in a contest."""
CURVES: Final = 1024
"""The slots of curves of utilities are a multiple of this number."""


@dataclass(frozen=True)
class Rows:
    """J jobs or bids with R resources in T slots."""

    demand: Floats
    """Units that each takes in a slot, J x R."""
    length: Ints
    """Slots that each needs, J."""
    first: Ints
    """First slot in which each may run, J."""
    due: Ints
    """Slot at which each has to be complete, J; 0 for a bid, which has no promise."""
    value: Floats
    """Value of each if it is complete at a slot, J x (T + 1), money."""


@dataclass(frozen=True)
class Ground:
    """A book with the jobs that may be moved."""

    book: Book
    jobs: tuple[Job, ...]
    """Jobs with a promise that hold machines from now on."""
    until_closed: bool = False
    """Whether a server that closes in a later slot counts until then; otherwise it does not count at all."""

    @cached_property
    def slots(self) -> int:
        """Slots of the horizon, T."""
        return self.book.ledger.end - self.book.now

    @cached_property
    def closed(self) -> Mapping[int, int]:
        """The first slot, counted from now, in which each closed server does not count, by its index."""
        now, closed = self.book.now, self.book.ledger.closed
        return {server: max(0, slot - now) if self.until_closed else 0 for server, slot in closed.items()}

    @cached_property
    def capacity(self) -> Floats:
        """Units of each resource of all servers that count now, R."""
        opened = [server for server in range(len(self.book.inventory.servers)) if self.closed.get(server, 1) > 0]
        found: Floats = self.book.inventory.capacity[opened].sum(axis=0).astype(float)
        return found

    @cached_property
    def cells(self) -> Cells:
        """The capacity, and cells that get longer with time: what is far off is known roughly only."""
        begin, width = _widths(self.slots)
        return Cells(np.add.reduceat(self._free(), begin), begin, width)

    @cached_property
    def fixed(self) -> "Ground":
        """The same book, on which all jobs hold what they are planned to hold."""
        return Ground(self.book, (), self.until_closed)

    def _free(self) -> Floats:
        """Return the units that no job outside of the contest holds, T x R."""
        book, mine = self.book, {job.bid.id for job in self.jobs}
        free = np.tile(self.capacity, (self.slots, 1))
        for server, first in self.closed.items():
            if first > 0:
                free[first:] -= book.inventory.capacity[server]
        for p in (p for job in book.jobs if job.bid.id not in mine for p in self.ahead(job)):
            first, end = max(p.start - book.now, 0), min(p.end - book.now, self.closed.get(p.server, self.slots))
            if first < end:
                free[first:end] -= p.units(book.inventory)
        return np.maximum(0.0, free)

    def ahead(self, job: Job) -> list[Placement]:
        """Return what a job still holds."""
        return [p for p in job.held if p.end > self.book.now]

    def rows(self, jobs: Sequence[Job], bids: Sequence[Bid]) -> Rows:
        """Return the rows of jobs, with the machines that they still hold in as many slots as they hold them, and then
        those of bids, with the least work of each in the slots of its shortest run."""
        count, now = len(jobs) + len(bids), self.book.now
        length, first, due = np.zeros((3, count), np.int64)
        rows = Rows(np.zeros((count, len(self.capacity))), length, first, due, np.empty((count, self.slots + 1)))
        for j, job in enumerate(jobs):
            held = self.ahead(job)
            begins, ends = max(now, min(p.start for p in held)), max(p.end for p in held)
            length[j] = ends - begins
            for p in held:
                share = p.count * (p.end - max(p.start, now)) / (ends - begins)
                rows.demand[j] += share * p.demand(self.book.inventory)
            # A job that is late already has to be no later than it is planned, as in `promises.breaks`.
            due[j] = max(1, max(job.due or 0, job.completion or ends) - now)
            rows.value[j] = self.values(job.bid)
        known = self._known
        for j, bid in enumerate(bids, len(jobs)):
            need = known.of(bid, self.book.ledger, self.capacity)
            rows.demand[j] = need.demand
            length[j], first[j] = min(need.length, self.slots + 1), min(self.slots, self.first(bid))
            rows.value[j] = need.values(bid, now - bid.arrival, self.slots)
        return rows

    def values(self, bid: Bid) -> Floats:
        """Return the bid's value at completion in each slot from now on, T + 1 numbers, money."""
        return self._known.values(bid, self.book.now - bid.arrival, self.slots)

    def soonest(self, bid: Bid) -> int:
        """Return the slot, counted from now, at which the bid is complete if it runs as soon as it can."""
        need = self._known.of(bid, self.book.ledger, self.capacity)
        return self.first(bid) + need.length

    def first(self, bid: Bid) -> int:
        """Return the first slot, counted from now, in which the bid's data can be on some server."""
        return max(0, bid.arrival + min(bid.delay, default=0) - self.book.now)

    def is_enough(self, bid: Bid, completion: int) -> bool:
        """Return whether a completion in this slot is worth the bid's machines, as in contests."""
        value = self.values(bid)
        return bool(0.0 < value[completion - self.book.now] >= LEAST_SHARE * value[min(self.slots, self.soonest(bid))])

    @cached_property
    def _known(self) -> "Needs":
        """The needs of bids on this ledger, which caches them."""
        ledger, closed = self.book.ledger, frozenset(server for server, first in self.closed.items() if first == 0)
        known = ledger.derived.get("contest")
        if not isinstance(known, Needs) or known.inventory is not ledger.inventory or known.closed != closed:
            known = ledger.derived["contest"] = Needs(ledger.inventory, closed)
        return known


def ground_of(book: Book, jobs: Sequence[Job], *, until_closed: bool = False) -> Ground:
    """Return the ground of contests with these jobs, as far as they hold machines on open servers from now on."""
    ground, closed = Ground(book, tuple(jobs)), book.ledger.closed
    ahead = [(job, ground.ahead(job)) for job in jobs]
    # Jobs on servers that are closed stay where they are.
    able = tuple(job for job, held in ahead if held and not any(p.server in closed for p in held))
    return Ground(book, able, until_closed)


@lru_cache(maxsize=64)
def _widths(slots: int) -> tuple[Ints, Ints]:
    """Return the first slot and the number of slots of each cell of a horizon."""
    begin, widths = 0, list[int]()
    while begin < slots:
        widths.append(min(max(1, int(begin * WIDER)), slots - begin))
        begin += widths[-1]
    width = np.array(widths, np.int64)
    return width.cumsum() - width, width


@dataclass
class Need:
    """The need of a bid, which does not change with time."""

    demand: Floats
    """Units of each resource in a slot, R; with `length` its least work, in the slots of its shortest run."""
    length: int
    """Slots; more than any horizon if it never fits."""
    value: Floats = field(default_factory=lambda: np.zeros(0))
    """The value of a completion `first`, `first` + 1, ... slots after the arrival."""
    first: int = 0

    def values(self, bid: Bid, first: int, slots: int) -> Floats:
        """Return the values of completions from `first` to `first` + `slots` slots after the bid's arrival, money."""
        last = first + slots
        if first < self.first or last >= self.first + len(self.value):
            self.value, self.first = _curve(bid, last)[first:].copy(), first
        return self.value[first - self.first : last + 1 - self.first]


@dataclass
class Needs:
    """The needs of bids on the open servers of one ledger."""

    inventory: Inventory
    closed: frozenset[int]
    by_id: dict[str, tuple[Bid, Need]] = field(default_factory=dict)

    def of(self, bid: Bid, ledger: Ledger, capacity: Floats) -> Need:
        """Return the need of a bid; `capacity` are the units of each resource of all open servers."""
        known = self.by_id.get(bid.id)
        if known is None or (known[0] is not bid and known[0] != bid):
            if len(self.by_id) >= REMEMBERED:
                self.by_id.clear()
            known = self.by_id[bid.id] = bid, _need(bid, ledger, capacity)
        return known[1]

    def values(self, bid: Bid, first: int, slots: int) -> Floats:
        """Return the values of completions from `first` to `first` + `slots` slots after the bid's arrival, money."""
        known = self.by_id.get(bid.id)
        if known is None or (known[0] is not bid and known[0] != bid):
            return _curve(bid, first + slots)[first : first + slots + 1]
        return known[1].values(bid, first, slots)


def _need(bid: Bid, ledger: Ledger, capacity: Floats) -> Need:
    """Return the need of a bid: its least work, in the slots of its shortest run."""
    length = max(1, shortest(bid, ledger))
    demand = np.array(consumption_of(bid, ledger).units) / length
    # The least work may be on other machines than the shortest run, of which there are too few.
    short = float(np.divide(demand, capacity, out=np.zeros_like(demand), where=capacity > 0).max(initial=1.0))
    return Need(demand / short, math.ceil(short * length * (1.0 - ROUNDING)))


def _curve(bid: Bid, last: int) -> Floats:
    """Return the value of a completion 0, 1, ... slots after the arrival, up to `last` at least.

    Utilities remember their last curves, so curves of few lengths are asked for.
    """
    return bid.utility.curve(-(-(last + 1) // CURVES) * CURVES)
