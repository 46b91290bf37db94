"""A contest: jobs with a promise and bids without one share the machines from now on.

The contest looks for an order of all of them in which a rough plan has a great total value. It says which bids start
now, and what the start of one costs the others. docs/algorithms/competition.md explains both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduling.best_response.price_floor import ROUNDING
from scheduling.book.state import Book, Job
from scheduling.competition.ground import LEAST_SHARE, Ground
from scheduling.competition.kernel import BROKEN, NEVER, Cells, Entries, Rough, best_of, best_place, discount, improve
from scheduling.model.bid import Bid
from scheduling.model.types import Ints

POWERS: Final = (0.0, 0.5, 0.75, 1.0, 1.25)
"""Orders begin with the greatest value / work ^ power, once for each of these powers."""
EFFORT: Final = 2_000_000
"""Number of cells of jobs that are looked at to improve one order: some nanoseconds each."""
PLACES: Final = 16
"""Largest number of places that are tried for one more job in an order of others."""
PER_ROW: Final = ("demand", "length", "first", "due", "part", "latest", "most", "value")
"""Fields of entries that have a row for each job and bid."""
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

    ground: Ground
    bids: tuple[Bid, ...]
    """The bids, in order of arrival."""
    rule: Rule
    """The parameters of the search."""
    known: Entries | None = field(default=None, compare=False, repr=False)
    """The rows of these jobs and bids, where they are known from another contest on the same ground."""

    def only(self, bids: Sequence[Bid]) -> "Contest":
        """Return the contest of some of these bids."""
        names, jobs = {bid.id for bid in bids}, len(self.ground.jobs)
        rows = [*range(jobs), *(jobs + i for i, bid in enumerate(self.bids) if bid.id in names)]
        return Contest(self.ground, tuple(bids), self.rule, _taken(self._whole, rows))

    def starts(self) -> tuple[Start, ...]:
        """Return the bids that start now, or as soon as their data is there, in the best plan that was found."""
        if not self.bids or self.is_broken:
            return ()  # a plan ends at the promise that it breaks, so it says nothing of who starts
        _, _, rough = self._plan
        first, now = len(self.ground.jobs), self.ground.book.now
        rows = zip(self.bids, rough.begins[first:].tolist(), rough.end[first:].tolist(), strict=True)
        soonest = self.entries.first[first:].tolist()
        return tuple(
            Start(bid, now + end) for (bid, begins, end), able in zip(rows, soonest, strict=True) if begins == able
        )

    def cost(self, bid: Bid) -> float:
        """Return what another bid takes from these if it runs at once, money: no value that it states is used.

        It is the greatest total that was found for these jobs and bids, less the greatest one beside this run. It is
        infinite if no plan was found that keeps all promises.
        """
        if not self.bids:
            return 0.0
        order, total, _ = self._plan
        least = self.beside(bid).with_last(order)
        return math.inf if BROKEN in (total, least) else max(0.0, total - least)

    def loss(self, bid: Bid) -> float:
        """Return what the others lose if this one of the bids comes first in the order that was found, money.

        It says about what `cost` would find in the contest of the others, with one plan in place of two searches. It is
        infinite if a promise would be broken.
        """
        order, total, rough = self._plan
        names = [one.id for one in self.bids]
        row, value = len(self.ground.jobs) + names.index(bid.id), self.entries.value
        first, found = np.concatenate([[row], order[order != row]]), self._rough()
        beside = improve(first, self._moves[:0], self._cells, self.entries, found)
        if BROKEN in (total, beside):
            return math.inf
        waits, runs = (value[row, end] if end != NEVER else 0.0 for end in (rough.end[row], found.end[row]))
        return float(total - waits - beside + runs)

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

    @property
    def is_broken(self) -> bool:
        """Whether no plan was found that keeps all promises."""
        return bool(self.ground.jobs) and self._plan[1] == BROKEN

    @cached_property
    def all_fit(self) -> bool:
        """Whether all jobs and bids can run at once, so that none is in the way of another."""
        return not self._binding.any()

    @property
    def _planned(self) -> Ints:
        """The jobs in the order in which they hold machines, then the bids by value for work."""
        ground, jobs = self.ground, len(self.ground.jobs)
        held = [min(max(p.start, ground.book.now) for p in ground.ahead(job)) for job in ground.jobs]
        by_start = np.lexsort((self.entries.due[:jobs], np.array(held))) if held else np.zeros(0, np.int64)
        found: Ints = np.append(by_start, self._orders[0][self._orders[0] >= jobs]).astype(np.int64)
        return found

    def beside(self, bid: Bid) -> "Contest":
        """Return the contest of these bids with one more bid, the last one, which is worth nothing and is complete as
        soon as it can be."""
        found = Contest(self.ground, (*self.bids, bid), self.rule, _joined(self._whole, self._rows((), [bid])))
        entries = found.entries
        last, part = self._within(np.array([self.ground.soonest(bid)]))
        entries.due[-1] = entries.latest[-1] = last[0]
        entries.part[-1] = part[0]
        entries.value[-1] = entries.most[-1] = 0.0
        return found

    def with_last(self, order: Ints) -> float:
        """Return the best total that was found with the last bid put into this order of all others."""
        rough, entries = self._rough(), self.entries
        last = len(entries.due) - 1
        places = np.unique(np.linspace(0, last, min(PLACES, last + 1)).astype(np.int64))
        place = best_place(order, last, places, self._cells, entries, rough)
        # All promises in order of their slots: if any order keeps them, this one mostly does.
        promised = np.append(np.arange(len(self.ground.jobs)), last)
        first = promised[np.argsort(entries.due[promised], kind="stable")]
        orders = np.array([np.insert(order, place, last), np.append(first, order[order >= len(self.ground.jobs)])])
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
        """The jobs and bids as the kernel reads them: with the resources that count alone."""
        whole, counted = self._whole, self._counted
        entries = whole._replace(demand=np.ascontiguousarray(whole.demand[:, counted]))
        work = (entries.demand * entries.length[:, np.newaxis]).sum(axis=0)
        asked = work / np.maximum(self.ground.capacity[counted], 1e-9)
        scarce = entries.scarce[0] = int(asked.argmax())
        each = entries.demand[:, scarce]
        entries.least[0] = (1.0 - ROUNDING) * each.min(where=each > 0.0, initial=np.inf)
        return entries

    @cached_property
    def _binding(self) -> NDArray[np.bool_]:
        """Whether all jobs and bids together ask for more of a resource than is free in some slot, R."""
        asked, width = self._whole.demand.sum(axis=0), self.ground.cells.width[:, np.newaxis]
        found: NDArray[np.bool_] = (asked > (1.0 - ROUNDING) * self.ground.cells.capacity / width).any(axis=0)
        return found

    @cached_property
    def _counted(self) -> Ints:
        """The resources that rough plans look at: of the others there is enough for all. One at least."""
        found: Ints = np.flatnonzero(self._binding)
        return found if len(found) else np.zeros(1, np.int64)

    @cached_property
    def _whole(self) -> Entries:
        """The jobs and bids with all resources."""
        return self._rows(self.ground.jobs, self.bids) if self.known is None else self.known

    def _rows(self, promised: Sequence[Job], asked: Sequence[Bid]) -> Entries:
        """Return the rows of these jobs and bids, with all resources."""
        ground, cells, jobs = self.ground, self.ground.cells, len(promised)
        rows = ground.rows(promised, asked)
        each, value, length = np.arange(len(rows.length)), rows.value, rows.length
        least = LEAST_SHARE * value[each, np.minimum(ground.slots, rows.first + length)]
        least[:jobs] = 0.0
        least[jobs:][length[jobs:] > ground.slots] = np.inf
        latest = discount(value, least, 1.0 - self.rule.sooner * np.arange(ground.slots + 1) / ground.slots)
        last = np.where(each < jobs, rows.due, latest)
        latest, part = self._within(last)
        due = np.where(each < jobs, latest, NEVER)
        part[jobs:] = cells.width[latest[jobs:] - 1]
        first = np.searchsorted(cells.begin, rows.first)
        return Entries(
            demand=rows.demand,
            length=length,
            first=first,
            due=due,
            part=part,
            latest=latest,
            most=value[each, self._soonest(first, length)],  # no utility rises
            scarce=np.zeros(1, np.int64),
            least=np.zeros(1),
            value=value,
        )

    @cached_property
    def _orders(self) -> Ints:
        """The orders from which the search begins: by value for work, all together or after the promises."""
        entries, jobs = self.entries, len(self.ground.jobs)
        value = entries.value[np.arange(len(entries.length)), self._soonest(entries.first, entries.length)]
        capacity = np.maximum(self.ground.capacity[self._counted], 1.0)
        work = np.maximum(entries.length * (entries.demand / capacity).max(axis=1), 1e-12)
        by_due = np.argsort(entries.due[:jobs], kind="stable")
        together = np.argsort(-value / work ** np.array(POWERS)[:, np.newaxis], axis=1, kind="stable")
        bids = together[together >= jobs].reshape(len(POWERS), -1)
        after = np.concatenate([np.broadcast_to(by_due, (len(POWERS), jobs)), bids], axis=1)
        found: Ints = np.stack([together, after], axis=1).reshape(2 * len(POWERS), -1)
        return found

    @cached_property
    def _moves(self) -> Ints:
        """Moves by which an order is improved, two places each."""
        return _drawn_moves(len(self.entries.due), self.rule.steps)

    @cached_property
    def _cells(self) -> Cells:
        """The capacity of the resources that count."""
        return self.ground.cells._replace(capacity=np.ascontiguousarray(self.ground.cells.capacity[:, self._counted]))

    def _soonest(self, first: Ints, length: Ints) -> Ints:
        """Return the slot at which jobs of these lengths are complete that run from these cells on."""
        begin = np.append(self.ground.cells.begin, self.ground.slots)[first]
        found: Ints = np.minimum(begin + length, self.ground.slots)
        return found

    def _within(self, due: Ints) -> tuple[Ints, Ints]:
        """Return the number of cells up to each of these slots, counted from now, and the slots before it in the last
        of these cells."""
        slot, begin = np.clip(due, 1, self.ground.slots), self.ground.cells.begin
        cells: Ints = np.searchsorted(begin, slot, side="left")
        return cells, slot - begin[cells - 1]

    def _rough(self) -> Rough:
        count, cells = len(self.entries.due), len(self._cells.width)
        ends, begins = np.full(count, NEVER, np.int64), np.full(count, NEVER, np.int64)
        effort = np.array([EFFORT])
        shape = cells, len(self._counted)
        return Rough(np.zeros(shape), np.zeros(shape), np.zeros(cells, np.int64), ends, begins, effort)


@lru_cache(maxsize=512)
def _drawn_moves(count: int, steps: int) -> Ints:
    """Draw moves in an order of `count` jobs."""
    rng = np.random.default_rng(SEED)
    moves: Ints = rng.integers(0, count, (steps, 2))
    return moves


def _taken(entries: Entries, rows: list[int]) -> Entries:
    """Return some rows of these entries."""
    found = {name: getattr(entries, name)[rows] for name in PER_ROW}
    return Entries(**found, scarce=np.zeros(1, np.int64), least=np.zeros(1))


def _joined(entries: Entries, more: Entries) -> Entries:
    """Return the rows of both."""
    found = {name: np.concatenate([getattr(entries, name), getattr(more, name)]) for name in PER_ROW}
    return Entries(**found, scarce=np.zeros(1, np.int64), least=np.zeros(1))


def competing(book: Book, bid: Bid) -> tuple[Bid, ...]:
    """Return the bids that compete with this one, which is in its place among them, or the last one."""
    found = tuple(bid if one.id == bid.id else one for one in book.competitors)
    return found if bid in found else (*found, bid)
