"""Promises of completions: jobs that may be moved as long as each is complete by its promised slot."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from scheduling.batch.capacity import FAR
from scheduling.batch.consumption import consumption_of
from scheduling.batch.planner import NOTHING_FREED, Placed, place_batch, rows_of, shortest
from scheduling.best_response.price_floor import ROUNDING
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book, Job
from scheduling.model.bid import Bid
from scheduling.model.decision import Move
from scheduling.model.progress import rest_of
from scheduling.model.schedule import Role, Schedule
from scheduling.model.types import Floats, Ints
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.pricing.price_function import PriceFunction

STOPS: Final = (0, 1, 4)
"""Numbers of running jobs that are stopped for a new one; the least that keeps all promises is taken."""
BESIDE: Final = -1
"""In place of such a number: no job is placed again but the new one."""
NEVER: Final = 1 << 60
"""Promised slot of jobs without a promise: they come last."""
PARTS: Final = 1 << 30
"""Shares in use are passed to the price function as whole numbers of this capacity."""


@dataclass(frozen=True)
class Offer:
    """A menu of promises to a bid: every slot from `first` to the horizon's end."""

    first: int
    """Earliest completion on the empty cluster."""
    costs: Floats
    """Price of each slot, money."""
    values: Floats
    """Value of the bid at each slot, money."""

    @property
    def payoffs(self) -> Floats:
        """Value minus cost of each slot, money."""
        return self.values - self.costs


class Kept(NamedTuple):
    """A slot of an offer, with a plan that keeps it and every other promise."""

    number: int
    """Slots after the first one of the offer."""
    plan: Placed


class Moved(NamedTuple):
    """Jobs that are placed again, in order of their promises."""

    rests: tuple[Bid, ...]
    """The work that is left of each."""
    dues: tuple[int, ...]
    """Promised slot of each."""
    latest: Ints
    """Latest completion of each with which a plan breaks no promise; `FAR` if it has none."""
    freed: Ints
    """The machines that they hold, as the planner reads them."""


NONE_MOVED: Final = Moved((), (), np.zeros(0, np.int64), NOTHING_FREED)


@dataclass(frozen=True)
class Known:
    """A job in one slot, with its work and its machines as they are computed when they are asked for."""

    job: Job
    ledger: Ledger
    now: int
    restart: int

    @cached_property
    def runs(self) -> bool:
        """Whether it holds machines in this slot that it held before."""
        return any(p.start < self.now < p.end for p in self.job.held)

    @cached_property
    def rest(self) -> Bid:
        """The work that is left of it, as a bid."""
        return rest(self.job, self.now, restart=self.restart)

    @cached_property
    def rows(self) -> Ints:
        """The machines that it holds, as the planner reads them."""
        return rows_of(self.job.held, self.ledger)

    @cached_property
    def work(self) -> Ints:
        """Machine-slots that it holds from now on, by machine type, M."""
        now, workers = self.now, len(self.ledger.inventory.workers)
        amounts = [0] * (workers + len(self.ledger.inventory.parameter_servers))
        for p in self.job.held:
            if p.end > now:
                amounts[p.type + (0 if p.role is Role.WORKER else workers)] += p.count * (p.end - max(p.start, now))
        return np.array(amounts, np.int64)


@dataclass(frozen=True)
class Promises:
    """Jobs that may be moved, in order of promised slots, with posted prices of completions."""

    book: Book
    policy: PostedPricePolicy
    restart: int
    """Slots in which a job that was stopped holds nothing and does no work."""
    beside: bool = False
    """Whether a new job may be placed beside all others, as planned, where to place them again breaks promises."""
    still_held: bool = False
    """Whether closed servers keep a job from being stopped only while it holds them."""
    stopped: dict[int, Moved] = field(default_factory=dict)
    """The jobs that are placed again, by the number of running jobs that are stopped, as far as it was asked for."""
    plans: dict[tuple[str, int, int], Placed | None] = field(default_factory=dict)
    """Plans with a new bid by its id, the number of stopped jobs and its place in the order; None if a promise breaks.

    Promised slots between two promises of other jobs give the same order, hence the same plan.
    """
    late: dict[int, int] = field(default_factory=dict)
    """Place in the order of the first job that is late whatever comes after it, by the number of stopped jobs."""
    rooms: dict[int, bool] = field(default_factory=dict)
    """Whether a slot has room for a worker, as far as it was asked for."""

    @cached_property
    def prices(self) -> PriceFunction:
        """The price function for the next bid."""
        return self.policy.price_function(self.book)

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """Jobs that may be moved."""
        return tuple(job for job in self.book.jobs if not job.bound and job.queued_from is None)

    @cached_property
    def running(self) -> tuple[Job, ...]:
        """Jobs that hold machines since an earlier slot and may be stopped, the last promise first."""
        closed, since = self.book.ledger.closed, self.book.now if self.still_held else -1
        found = [job for job in self.jobs if self.known(job).runs]
        able = [job for job in found if not any(p.server in closed and p.end > since for p in job.held)]
        return tuple(sorted(able, key=lambda job: -due(job)))

    @cached_property
    def waiting(self) -> tuple[Job, ...]:
        """Jobs that hold nothing in the current slot, or only from this slot on."""
        return tuple(job for job in self.jobs if not self.known(job).runs)

    def moved(self, stops: int) -> Moved:
        """Return the jobs that are placed again if this many running jobs are stopped."""
        if stops not in self.stopped:
            jobs = sorted([*self.waiting, *self.running[:stops]], key=due)
            self.stopped[stops] = Moved(
                tuple(self.known(job).rest for job in jobs),
                tuple(due(job) for job in jobs),
                np.array([self._limit(job) for job in jobs], np.int64),
                self._rows(jobs),
            )
        return self.stopped[stops]

    def _rows(self, jobs: Iterable[Job]) -> Ints:
        """Return the machines that these jobs hold, as the planner reads them."""
        return np.concatenate([NOTHING_FREED, *(self.known(job).rows for job in jobs)])

    def has_room(self, slot: int) -> bool:
        """Return whether some server has room in a slot for some worker."""
        if slot not in self.rooms:
            inventory, ledger = self.book.inventory, self.book.ledger
            free = inventory.capacity - ledger.used[slot - ledger.start]
            self.rooms[slot] = bool((free >= inventory.worker_demand[:, np.newaxis]).all(axis=2).any())
        return self.rooms[slot]

    def known(self, job: Job) -> Known:
        """Return what is known of a job in this slot, which is computed once."""
        found = self._known.get(job.bid.id)
        if found is None or found.job is not job:
            found = self._known[job.bid.id] = Known(job, self.book.ledger, self.book.now, self.restart)
        return found

    @cached_property
    def _known(self) -> dict[str, Known]:
        """Jobs in this slot, by id. The ledger keeps them for the next bids of the same slot."""
        ledger = self.book.ledger
        key = self.book.now, self.restart, ledger.start, tuple(ledger.closed.items())
        kept = ledger.derived.get("known")
        if isinstance(kept, tuple) and kept[0] == key:
            known: dict[str, Known] = kept[1]
            return known
        new: dict[str, Known] = {}
        ledger.derived["known"] = key, new
        return new

    @cached_property
    def units(self) -> Floats:
        """Posted price of a unit-slot of work for each slot by which it is due, (T + 1) x R, money.

        The price function is evaluated at the greatest share of all unit-slots, from now to that slot or to any later
        one, that is taken by work due in that time. So a later promise never costs more for being fuller.
        """
        book, slots = self.book, self.book.ledger.end - self.book.now
        capacity = book.inventory.capacity.sum(axis=0).astype(float)
        work = self.work
        room = np.arange(slots + 1)[:, np.newaxis] * capacity
        share = np.divide(work.cumsum(axis=0), room, out=np.zeros_like(work), where=room > 0)
        fullest = np.minimum(1.0, np.maximum.accumulate(share[::-1], axis=0)[::-1])
        ahead = np.maximum(0, np.arange(slots + 1) - 1)
        parts = np.floor(fullest * PARTS).astype(np.int64)
        return np.where(capacity > 0, self.prices.of(parts, np.full(len(capacity), PARTS), ahead), 0.0)

    @cached_property
    def work(self) -> Floats:
        """Unit-slots that jobs hold from now on, by the slot in which they are due, (T + 1) x R."""
        now, inventory, slots = self.book.now, self.book.inventory, self.book.ledger.end - self.book.now
        demand = np.concatenate([inventory.worker_demand, inventory.ps_demand])
        amounts, jobs = np.zeros((slots + 1, len(demand))), self.book.jobs
        if jobs:
            places = [min(max(1, due(job) - now), slots) for job in jobs]
            np.add.at(amounts, places, np.array([self.known(job).work for job in jobs]))
        work: Floats = amounts @ demand
        return work

    def may_pay(self, bid: Bid) -> bool:
        """Return whether a payoff may be above 0: no completion is worth more than the soonest, which costs the least
        price at least."""
        book, soonest = self.book, shortest(bid, self.book.ledger)
        worth, least = bid.utility.at(book.now + soonest - bid.arrival), consumption_of(bid, book.ledger).units
        # No time is less full than the whole horizon, and no slot from the soonest on costs less than that one.
        ahead = np.array([max(0, soonest - 1)])
        unit = self.prices.of(self._full[np.newaxis], np.full(len(self._full), PARTS), ahead)[0]
        if worth <= (1.0 - ROUNDING) * float(unit @ np.array(least)):
            return False
        costs = self.units[soonest:] @ np.array(least)
        return worth > float(costs.min(initial=math.inf))

    @cached_property
    def _full(self) -> Ints:
        """Share of all unit-slots of the horizon that is taken, in `PARTS`, R numbers."""
        book = self.book
        room = (book.ledger.end - book.now) * book.inventory.capacity.sum(axis=0).astype(float)
        share = np.divide(self.work.sum(axis=0), room, out=np.zeros(len(room)), where=room > 0)
        parts: Ints = np.floor(np.minimum(1.0, share) * PARTS).astype(np.int64)
        return parts

    def offer(self, bid: Bid, first: int) -> Offer:
        """Return what the bid could be promised, from slot `first` on."""
        book = self.book
        work = np.array(consumption_of(bid, book.ledger).units)
        costs = self.units[first - book.now :] @ work
        return Offer(first, costs, bid.utility.curve(book.ledger.end + 1 - bid.arrival)[first - bid.arrival :])

    def soonest(self, bid: Bid, offer: Offer, *, last: int) -> Kept | None:
        """Return the first slot of the offer that can be kept, with its plan; None if none was found up to `last`.

        The plan for a slot may be complete sooner; it keeps that slot, too, and all later ones. Slots up to one that
        could not be kept are never offered, so the search can end as soon as it has passed `last`. The first slot does
        not depend on the utility, so no other statement finds a slot that the truth does not find.
        """
        plan = self.kept(bid, self.book.ledger.end)
        if plan is None:
            return None
        low, found = 0, Kept(plan.completions[bid.id] - offer.first, plan)
        while low < found.number:
            if low > last:
                return None
            middle = (low + found.number) // 2
            plan = self.kept(bid, offer.first + middle)
            if plan is None:
                low = middle + 1
            else:
                found = Kept(max(low, plan.completions[bid.id] - offer.first), plan)
        return found

    def kept(self, bid: Bid, promised: int) -> Placed | None:
        """Return a plan that keeps every promise and the bid's, and stops few jobs; None if none was found."""
        later = sum(due(job) > promised for job in self.running)
        counts = sorted({min(count, later) for count in (*STOPS, later)})
        if self.beside:
            counts.append(BESIDE)
        plans = (self.plan(bid, promised, stops=count) for count in counts)
        return next((plan for plan in plans if plan is not None), None)

    def plan(self, bid: Bid, promised: int, *, stops: int) -> Placed | None:
        """Return a plan with the bid complete by the promised slot; None if it would break a promise.

        The `stops` running jobs with the latest promises are stopped. With `BESIDE` no other job is placed again.
        """
        moved = NONE_MOVED if stops == BESIDE else self.moved(stops)
        at = bisect_right(moved.dues, promised)
        key = bid.id, stops, at
        if self.late.get(stops, at) < at:
            return None
        if key not in self.plans:
            limits = np.insert(moved.latest, at, FAR)
            placed = self._placed([*moved.rests[:at], bid, *moved.rests[at:]], moved.freed, limits)
            late = np.flatnonzero(placed.ends > limits)
            if len(late) and late[0] < at:
                self.late[stops] = int(late[0])
            self.plans[key] = None if len(late) else placed
        found = self.plans[key]
        return None if found is None or found.completions.get(bid.id, NEVER) > promised else found

    def in_order(self, bid: Bid, promised: int, order: Sequence[str]) -> Placed | None:
        """Return a plan in which all jobs and the bid are placed in this order of ids; None if it breaks a promise.

        Every running job is stopped, also one with an earlier promise than the bid's.
        """
        jobs = {job.bid.id: job for job in (*self.waiting, *self.running)}
        bids = [bid if name == bid.id else self.known(jobs[name]).rest for name in order]
        limits = np.array([FAR if name == bid.id else self._limit(jobs[name]) for name in order], np.int64)
        placed = self._placed(bids, self._rows(jobs.values()), limits)
        if (placed.ends > limits).any():
            return None
        return placed if placed.completions.get(bid.id, NEVER) <= promised else None

    def place(self, jobs: Sequence[Job]) -> Placed:
        """Return the schedules of these jobs, placed in order of their promises, each as early as possible."""
        return self._placed([self.known(job).rest for job in sorted(jobs, key=due)], self._rows(jobs))

    def _placed(self, bids: Sequence[Bid], freed: Ints, limits: Ints | None = None) -> Placed:
        book = self.book
        return place_batch(bids, book.ledger, (book.now, book.ledger.end), freed=freed, due=limits)

    def _limit(self, job: Job) -> int:
        """Return the latest completion of a job with which a plan breaks no promise; `FAR` if it has none.

        A plan is of no use beyond the first job that is late.
        """
        return FAR if job.completion is None else min(latest(job), self.book.ledger.end)

    def saved(self) -> Placed:
        """Return a plan that keeps all promises and stops few running jobs.

        If none is found, no running job is stopped, and jobs without machines are placed beside all others. A job that
        would be late then gets no plan, beginning with the first promise, until nobody is late.
        """
        for stops in sorted({min(count, len(self.running)) for count in (*STOPS, len(self.running))}):
            jobs = (*self.waiting, *self.running[:stops])
            placed = self.place(jobs)
            if not any(is_late(job, placed) for job in jobs):
                return placed
        jobs = tuple(sorted((job for job in self.waiting if job.completion is None), key=due))
        placed = self.place(jobs)
        while late := [job for job in jobs if is_late(job, placed)]:
            jobs = tuple(job for job in jobs if job is not late[0])
            placed = self.place(jobs)
        return placed

    def moves(self, placed: Placed) -> tuple[Move, ...]:
        """Return the moves of jobs whose schedule differs under a plan, in order of admission."""
        plan = placed.schedules()
        changed = (
            (job, plan[job.bid.id]) for job in self.jobs if job.bid.id in plan and _differs(job, plan[job.bid.id])
        )
        return tuple(Move(job.bid.id, schedule) for job, schedule in changed)


def due(job: Job) -> int:
    """Return the promised slot of a job; without a promise, one after all others."""
    return NEVER if job.due is None else job.due


def breaks(job: Job, placed: Placed) -> bool:
    """Return whether a plan completes a planned job after its promised slot, or later than now if that is late."""
    completion = placed.completions.get(job.bid.id)
    return completion is None or completion > latest(job)


def latest(job: Job) -> int:
    """Return the promised slot of a job, or its planned completion if that is later."""
    return max(due(job), job.completion or 0)


def is_late(job: Job, placed: Placed) -> bool:
    """Return whether a plan breaks what a job was promised, or has planned already."""
    return (job.due is not None or job.completion is not None) and breaks(job, placed)


def rest(job: Job, now: int, *, restart: int = 0) -> Bid:
    """Return the work that is left of a job, as a bid that starts at least `restart` slots after its last one."""
    if not job.started(now):
        return job.bid
    left = rest_of(job.bid, job.held, now=now)
    stopped = max(min(p.end, now) for p in job.held if p.start < now)
    first = max(now, left.arrival, stopped + restart)
    return replace(left, arrival=first, delay=tuple(max(0, left.arrival + delay - first) for delay in left.delay))


def _differs(job: Job, schedule: Schedule) -> bool:
    """Return whether a job would hold other machines, or the same ones in other slots, from the schedule's start on."""
    ahead = tuple(p for p in job.held if p.end > schedule.start)
    return job.completion != schedule.completion or ahead != schedule.placements
