"""A contest: jobs with a promise and bids without one share the machines from now on.

The contest looks for an order of all of them in which a rough plan has a great total value. It says which bids start
now, and what the start of one costs the others. docs/algorithms/competition.md explains both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from scheduling.batch.consumption import consumption_of
from scheduling.batch.planner import shortest
from scheduling.best_response.price_floor import ROUNDING
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book, Job
from scheduling.competition.kernel import BROKEN, NEVER, Cells, Entries, Rough, best_of, best_place, improve
from scheduling.model.bid import Bid
from scheduling.model.types import Floats, Ints

POWERS: Final = (0.5, 0.75, 1.0, 1.25)
"""Orders begin with the greatest value / work ^ power, once for each of these powers."""
EFFORT: Final = 2_000_000
"""Number of cells of jobs that are looked at to improve one order: some nanoseconds each."""
WIDER: Final = 0.05
"""Length of a cell of time as a share of the time from now to it; a slot at least."""
PLACES: Final = 16
"""Largest number of places that are tried for a promise in an order of others."""
LEAST_SHARE: Final = 0.02
"""A bid that would be worth less than this share of what it can be worth at most is not worth its machines."""
CURVES: Final = 1024
"""The slots of curves of utilities are a multiple of this number."""
SEED: Final = 7
"""Seed of the moves by which orders are improved: the same jobs always have the same plan."""


@dataclass(frozen=True)
class Rule:
    """The parameters of the search for a plan."""

    steps: int
    """Largest number of moves that are tried to improve an order."""
    sooner: float
    """Share of its value by which a completion counts less that is a whole horizon away."""


@dataclass(frozen=True)
class Start:
    """A bid that starts now in a rough plan."""

    bid: Bid
    completion: int
    """The slot at which the rough plan has it complete."""


@dataclass(frozen=True)
class Contest:
    """Jobs and bids that compete from now on."""

    book: Book
    bids: tuple[Bid, ...]
    """The bids, in order of arrival."""
    rule: Rule
    """The parameters of the search."""
    jobs: tuple[Job, ...] = field(default=())
    """Jobs with a promise that may be moved."""

    def starts(self) -> tuple[Start, ...]:
        """Return the bids that start now, or as soon as their data is there, in the best plan that was found."""
        if not self.bids:
            return ()
        _, total, rough = self._plan
        if total == BROKEN:
            return ()  # a plan ends at the promise that it breaks, so it says nothing of who starts
        first, now = len(self.jobs), self.book.now
        rows = zip(self.bids, rough.begins[first:].tolist(), rough.end[first:].tolist(), strict=True)
        soonest = self.entries.first[first:].tolist()
        return tuple(
            Start(bid, now + end) for (bid, begins, end), able in zip(rows, soonest, strict=True) if begins == able
        )

    def cost(self, bid: Bid, due: int) -> float:
        """Return what a promise to another bid takes from these, money: no value that it states is used.

        It is the greatest total that was found for these jobs and bids, less the greatest one beside this promise. It
        is infinite if no plan was found that keeps all promises.
        """
        if not self.bids:
            return 0.0
        order, total, _ = self._plan
        least = self.beside(bid, due).with_last(order)
        return math.inf if BROKEN in (total, least) else max(0.0, total - least)

    @cached_property
    def _plan(self) -> tuple[Ints, float, Rough]:
        """The best order that was found, its total and its plan."""
        rough = self._rough()
        order = self._best(self._orders, rough)
        total = self._improve(order, rough)
        if total == BROKEN:
            # A job whose promise is near may start later than another: then the order of the present plan keeps more.
            order, rough = self._planned.copy(), self._rough()
            total = self._improve(order, rough)
        return order, total, rough

    @cached_property
    def all_fit(self) -> bool:
        """Whether all jobs and bids can run at once, so that none is in the way of another."""
        asked: Floats = self.entries.demand.sum(axis=0)
        width = self._cells.width[:, np.newaxis]
        return bool((asked <= (1.0 - ROUNDING) * self._cells.capacity / width).all())

    @property
    def _planned(self) -> Ints:
        """The jobs in the order in which they hold machines, then the bids by value for work."""
        held = [min(max(p.start, self.book.now) for p in job.held if p.end > self.book.now) for job in self.jobs]
        by_start = np.lexsort((self.entries.due[: len(self.jobs)], np.array(held))) if held else np.zeros(0, np.int64)
        found: Ints = np.append(by_start, self._orders[0][self._orders[0] >= len(self.jobs)]).astype(np.int64)
        return found

    def beside(self, bid: Bid, due: int) -> "Contest":
        """Return the contest of these bids with one more bid, the last one, which is worth nothing and was promised a
        slot."""
        found = Contest(self.book, (*self.bids, bid), self.rule, self.jobs)
        entries = found.entries
        entries.due[-1] = self._within(np.array([due - self.book.now]))[0]
        entries.value[-1] = entries.most[-1] = 0.0
        return found

    def with_last(self, order: Ints) -> float:
        """Return the best total that was found with the last bid put into this order of all others."""
        rough, entries = self._rough(), self.entries
        last = len(entries.due) - 1
        places = np.unique(np.linspace(0, last, min(PLACES, last + 1)).astype(np.int64))
        place = best_place(order, last, places, self._cells, entries, rough)
        # All promises in order of their slots: if any order keeps them, this one mostly does.
        promised = np.append(np.arange(len(self.jobs)), last)
        first = promised[np.argsort(entries.due[promised], kind="stable")]
        orders = np.array([np.insert(order, place, last), np.append(first, order[order >= len(self.jobs)])])
        return self._improve(self._best(orders, rough), rough)

    def _improve(self, order: Ints, rough: Rough) -> float:
        found: float = improve(order, self._moves, self._cells, self.entries, rough)
        return found

    def _best(self, orders: Ints, rough: Rough) -> Ints:
        row = best_of(orders, self._cells, self.entries, rough)
        best: Ints = orders[row].copy()
        return best

    @cached_property
    def entries(self) -> Entries:
        """The jobs and bids as the kernel reads them."""
        ledger, slots, resources = self.book.ledger, self._slots, len(self._capacity)
        count = len(self.jobs) + len(self.bids)
        entries = Entries(
            np.zeros((count, resources)),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.full(count, NEVER, np.int64),
            np.zeros(count),
            np.zeros(1, np.int64),
            np.zeros(1),
            np.zeros((count, slots + 1)),
        )
        for j, job in enumerate(self.jobs):
            _add_job(entries, j, job, self.book, slots)
        for j, bid in enumerate(self.bids, len(self.jobs)):
            _add_bid(entries, j, bid, ledger, self._capacity)
        entries.value[:] *= 1.0 - self.rule.sooner * np.arange(slots + 1) / slots
        begin, promised = self._cells.begin, entries.due != NEVER
        entries.first[:] = np.searchsorted(begin, entries.first)
        entries.due[promised] = self._within(entries.due[promised])
        entries.most[:] = entries.value.max(axis=1, initial=0.0)
        asked = (entries.demand * entries.length[:, np.newaxis]).sum(axis=0) / np.maximum(self._capacity, 1e-9)
        scarce = entries.scarce[0] = int(asked.argmax())
        each = entries.demand[:, scarce]
        entries.least[0] = (1.0 - ROUNDING) * each.min(where=each > 0.0, initial=np.inf)
        return entries

    @cached_property
    def _orders(self) -> Ints:
        """The orders from which the search begins: by value for work, all together or after the promises."""
        entries, jobs = self.entries, len(self.jobs)
        rows = np.arange(len(entries.length))
        first = np.append(self._cells.begin, self._slots)[entries.first]
        soonest = np.minimum(first + entries.length, self._slots)
        value = entries.value[rows, soonest]
        capacity = np.maximum(self._capacity, 1.0)
        work = np.maximum(entries.length * (entries.demand / capacity).max(axis=1), 1e-12)
        by_due = np.argsort(entries.due[:jobs], kind="stable")
        orders = []
        for power in POWERS:
            order = np.argsort(-value / work**power, kind="stable")
            orders += [order, np.concatenate([by_due, order[order >= jobs]])]
        found: Ints = np.array(orders, np.int64)
        return found

    @cached_property
    def _moves(self) -> Ints:
        """Moves by which an order is improved, two places each."""
        count, rng = len(self.entries.due), np.random.default_rng(SEED)
        moves: Ints = rng.integers(0, count, (self.rule.steps, 2))
        return moves

    @cached_property
    def _cells(self) -> Cells:
        """The capacity, and cells that get longer with time: what is far off is known roughly only."""
        begin, widths = 0, []
        while begin < self._slots:
            widths.append(min(max(1, int(begin * WIDER)), self._slots - begin))
            begin += widths[-1]
        width = np.array(widths, np.int64)
        begins = width.cumsum() - width
        return Cells(np.add.reduceat(self._free(), begins), begins, width)

    def _within(self, due: Ints) -> Ints:
        """Return the number of cells up to each of these slots, counted from now."""
        found: Ints = np.searchsorted(self._cells.begin, np.clip(due, 1, self._slots), side="left")
        return found

    @cached_property
    def _slots(self) -> int:
        return self.book.ledger.end - self.book.now

    @cached_property
    def _capacity(self) -> Floats:
        """Units of each resource of all servers that are open, R."""
        ledger = self.book.ledger
        opened = [server for server in range(len(self.book.inventory.servers)) if server not in ledger.closed]
        found: Floats = self.book.inventory.capacity[opened].sum(axis=0).astype(float)
        return found

    def _free(self) -> Floats:
        """Return the units that no job outside of the contest holds, T x R."""
        book, mine = self.book, {job.bid.id for job in self.jobs}
        free = np.tile(self._capacity, (self._slots, 1))
        for p in (p for job in book.jobs if job.bid.id not in mine for p in job.held if p.end > book.now):
            if p.server not in book.ledger.closed:
                free[max(p.start - book.now, 0) : p.end - book.now] -= p.count * np.array(
                    p.machine(book.inventory).demand
                )
        return np.maximum(0.0, free)

    def _rough(self) -> Rough:
        count, cells = len(self.entries.due), len(self._cells.width)
        ends, begins = np.full(count, NEVER, np.int64), np.full(count, NEVER, np.int64)
        effort = np.array([EFFORT])
        return Rough(np.zeros((cells, len(self._capacity))), np.zeros(cells, np.int64), ends, begins, effort)


def _add_job(entries: Entries, j: int, job: Job, book: Book, slots: int) -> None:
    """Write what a job still holds, in as many slots as it holds it."""
    now, ahead = book.now, [p for p in job.held if p.end > book.now]
    begins, ends = min(max(p.start, now) for p in ahead), max(p.end for p in ahead)
    length = ends - begins
    for p in ahead:
        share = p.count * (p.end - max(p.start, now)) / length
        entries.demand[j] += share * np.array(p.machine(book.inventory).demand)
    entries.length[j] = length
    # A job that is late already has to be no later than it is planned, as in `promises.breaks`.
    entries.due[j] = max(1, max(job.due or 0, job.completion or ends) - now)
    entries.value[j] = _values(job.bid, now, slots)


def _add_bid(entries: Entries, j: int, bid: Bid, ledger: Ledger, capacity: Floats) -> None:
    """Write the least work of a bid, in the slots of its shortest run, and its value at each completion."""
    length, now, slots = max(1, shortest(bid, ledger)), ledger.start, ledger.end - ledger.start
    entries.length[j] = min(length, slots + 1)
    if length > slots:
        return
    demand = np.array(consumption_of(bid, ledger).units) / length
    # The least work may be on other machines than the shortest run, of which there are too few.
    short = float(np.divide(demand, capacity, out=np.zeros_like(demand), where=capacity > 0).max(initial=1.0))
    entries.demand[j], entries.length[j] = demand / short, math.ceil(short * length * (1.0 - ROUNDING))
    entries.first[j] = min(slots, max(0, bid.arrival + min(bid.delay, default=0) - now))
    value = _values(bid, now, slots)
    soonest = min(slots, int(entries.first[j] + entries.length[j]))
    entries.value[j] = np.where(value >= LEAST_SHARE * value[soonest], value, 0.0)


def _values(bid: Bid, now: int, slots: int) -> Floats:
    """Return the bid's value at completion in each slot from now on, T + 1 numbers, money."""
    first = now - bid.arrival
    # Utilities remember their last curves, so curves of few lengths are asked for.
    known = bid.utility.curve(-(-(first + slots + 1) // CURVES) * CURVES)
    return known[first : first + slots + 1]


def competing(book: Book, bid: Bid) -> tuple[Bid, ...]:
    """Return the bids that compete with this one, which is in its place among them, or the last one."""
    found = tuple(bid if one.id == bid.id else one for one in book.competitors)
    return found if bid in found else (*found, bid)


def contest_of(book: Book, bids: Sequence[Bid], jobs: Sequence[Job], rule: Rule) -> Contest:
    """Return the contest of these bids and of the jobs that hold machines from now on."""
    closed = book.ledger.closed
    ahead = {job.bid.id: [p for p in job.held if p.end > book.now] for job in jobs}
    # Jobs on servers that are closed stay where they are.
    able = tuple(job for job in jobs if ahead[job.bid.id] and not any(p.server in closed for p in ahead[job.bid.id]))
    return Contest(book, tuple(bids), rule, able)
