"""Completions: a bid buys a slot by which its job is complete; until then its machines may change.

A promise of machines keeps them for a long job while short ones wait. A promise of a completion lets the market stop
and move the job as long as the promised slot is kept. docs/algorithms/completions.md explains prices and promises.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from scheduling.batch.consumption import consumption_of
from scheduling.batch.planner import Placed, place_batch, plan_alone, shortest
from scheduling.best_response.divided.terms import DividedTerms
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import CounterOffer, Decision, Move, Reason
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import parameter
from scheduling.model.progress import rest_of
from scheduling.model.schedule import Schedule
from scheduling.model.types import Floats
from scheduling.model.validation import LARGEST_MONEY
from scheduling.policies.base import Grant
from scheduling.policies.learned_prices import LearnedPricePolicy, with_default
from scheduling.policies.posted_price import CENT, SMALLEST_MONEY, with_value
from scheduling.pricing.price_function import PriceFunction
from scheduling.pricing.quantile import scarcity_of_roles
from scheduling.pricing.rule import PriceRule

STOPS: Final = (0, 1, 4)
"""Numbers of running jobs that are stopped for a new one; the least that keeps all promises is taken."""
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


@dataclass(frozen=True)
class Promises:
    """Jobs that may be moved, in order of promised slots, with posted prices of completions."""

    book: Book
    policy: "Completions"
    rests: dict[str, Bid] = field(default_factory=dict)
    """The work that is left of jobs, as far as it was asked for, by id."""

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
        """Jobs that hold machines since an earlier slot, the last promise first."""
        closed = self.book.ledger.closed
        found = [job for job in self.jobs if runs(job, self.book.now)]
        able = [job for job in found if not any(p.server in closed for p in job.held)]
        return tuple(sorted(able, key=lambda job: -due(job)))

    @cached_property
    def waiting(self) -> tuple[Job, ...]:
        """Jobs that hold nothing in the current slot, or only from this slot on."""
        return tuple(job for job in self.jobs if not runs(job, self.book.now))

    def rest(self, job: Job) -> Bid:
        """Return the work that is left of a job, as a bid, which is computed once."""
        name = job.bid.id
        if name not in self.rests:
            self.rests[name] = rest(job, self.book.now, restart=self.policy.restart)
        return self.rests[name]

    @cached_property
    def units(self) -> Floats:
        """Posted price of a unit-slot of work for each slot by which it is due, (T + 1) x R, money.

        The price function is evaluated at the greatest share of all unit-slots, from now to that slot or to any later
        one, that is taken by work due in that time. So a later promise never costs more for being fuller.
        """
        book, slots = self.book, self.book.ledger.end - self.book.now
        capacity = book.inventory.capacity.sum(axis=0).astype(float)
        work = np.zeros((slots + 1, len(capacity)))
        for job in book.jobs:
            at = min(max(1, due(job) - book.now), slots)
            for p in job.held:
                length = p.end - max(p.start, book.now)
                if length > 0:
                    work[at] += length * p.units(book.inventory)
        room = np.arange(slots + 1)[:, np.newaxis] * capacity
        share = np.divide(work.cumsum(axis=0), room, out=np.zeros_like(work), where=room > 0)
        fullest = np.minimum(1.0, np.maximum.accumulate(share[::-1], axis=0)[::-1])
        ahead = np.maximum(0, np.arange(slots + 1) - 1)
        parts = np.floor(fullest * PARTS).astype(np.int64)
        return np.where(capacity > 0, self.prices.of(parts, np.full(len(capacity), PARTS), ahead), 0.0)

    def may_pay(self, bid: Bid) -> bool:
        """Return whether a payoff may be above 0: no completion is worth more than the soonest, which costs the least
        price at least."""
        soonest = shortest(bid, self.book.ledger)
        costs = self.units[soonest:] @ np.array(consumption_of(bid, self.book.ledger).units)
        return bid.utility.at(self.book.now + soonest - bid.arrival) > float(costs.min(initial=math.inf))

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
        plans = (self.plan(bid, promised, stops=count) for count in counts)
        return next((plan for plan in plans if plan is not None), None)

    def plan(self, bid: Bid, promised: int, *, stops: int) -> Placed | None:
        """Return a plan with the bid complete by the promised slot; None if it would break a promise.

        The `stops` running jobs with the latest promises are stopped.
        """
        moved = [*self.waiting, *self.running[:stops]]
        placed = self.place(moved, new=(promised, bid))
        if placed.completions.get(bid.id, NEVER) > promised:
            return None
        return None if any(breaks(job, placed) for job in moved if job.completion is not None) else placed

    def place(self, jobs: Sequence[Job], *, new: tuple[int, Bid] | None = None) -> Placed:
        """Return the schedules of these jobs, placed in order of their promises, each as early as possible."""
        book = self.book
        rows = [(due(job), i, self.rest(job)) for i, job in enumerate(jobs)]
        if new is not None:
            rows.append((new[0], len(rows), new[1]))
        rows.sort(key=lambda row: row[:2])
        freed = [p for job in jobs for p in job.held]
        return place_batch([bid for _, _, bid in rows], book.ledger, (book.now, book.ledger.end), freed)

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


@dataclass(frozen=True)
class Completions(LearnedPricePolicy):
    """Posted prices of completions; jobs run in order of their promised slots, and later ones are stopped for them."""

    price: str = parameter("quantile", "quantile: a reserve price from quantiles of past bids.", choices=("quantile",))
    worker_reserve_factor: float = with_default("worker_reserve_factor", 1.0)
    ps_reserve_factor: float = with_default("ps_reserve_factor", 0.2)
    sooner: float = with_default("sooner", 0.0)
    later: float = parameter(
        0.05,
        "Share of its greatest payoff that a bid may lose at most by a later promise, which leaves the market more "
        "freedom. Its job is complete as soon as there is room all the same.",
        low=0.0,
        high=1.0,
    )
    restart: int = parameter(
        0, "Slots in which a job that was stopped holds nothing and does no work.", low=0, high=1000
    )

    name = "completions"
    title = "Completions: posted prices, a promised slot of completion, machines that may change until then"
    architectures = frozenset(Architecture)
    binding = False
    keeps_slots = True

    @property
    def exact(self) -> bool:
        """Whether the granted schedule is optimal for the bid: its promise is, up to `later`, and its machines move."""
        return False

    @property
    def price_rule(self) -> PriceRule:
        """The rule of quantile prices."""
        return self.quantile_rule(scarcity_of_roles, initial_for_all=False)

    def promises(self, book: Book) -> Promises:
        """Return the jobs of a book that may be moved, with the posted prices."""
        return Promises(book, self)

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Promise the bid a slot of nearly its greatest payoff, or reject it if no payoff above 0 can be promised."""
        promises, least = self.promises(book), consumption_of(bid, book.ledger)
        alone, prices = plan_alone(bid, book.ledger), promises.prices.to_json()
        if alone is None:
            text = f"Even the empty cluster could not complete it before slot {book.ledger.end}."
            offered = least.densities(bid.utility.value)
            return Decision.reject(bid.id, Reason.IMPOSSIBLE, text, slot=book.now, density=offered, prices=prices)
        worth = bid.utility.at(alone.completion - bid.arrival)
        offer = promises.offer(bid, alone.completion)
        first = promises.soonest(bid, offer, last=len(offer.costs))
        found = None if first is None else self._promised(bid, offer, first, promises)
        if found is None:
            reason, text, counter = self._refusal(bid, offer, first, promises)
            return Decision.reject(
                bid.id,
                reason,
                text,
                slot=book.now,
                density=least.densities(worth),
                standalone_value=worth,
                counter=counter,
                prices=prices,
            )
        new, promised = found.plan.schedule(bid.id), offer.first + found.number
        value, payment = bid.utility.at(promised - bid.arrival), float(offer.costs[found.number])
        text = (
            f"Admitted: it is complete by slot {promised}, which is worth {value:.2f} and costs {payment:.2f} at the "
            f"posted prices. It is planned to start in slot {new.start} and to be complete at slot {new.completion}; "
            "its machines may change as long as the promised slot is kept."
        )
        return Decision.admit(
            bid.id,
            new,
            text,
            slot=book.now,
            value=value,
            payment=payment,
            standalone_value=worth,
            density=least.densities(worth),
            prices=prices,
            moves=promises.moves(found.plan),
            due=promised,
        )

    def grants(self, book: Book) -> Callable[[Bid], Grant | None]:
        """Return a function from a bid to its grant on this book, as `decide` finds it; None if the bid is rejected."""
        promises = self.promises(book)

        def granted(bid: Bid) -> Grant | None:
            alone = plan_alone(bid, book.ledger) if promises.may_pay(bid) else None
            if alone is None:
                return None
            offer = promises.offer(bid, alone.completion)
            paying = np.flatnonzero(offer.payoffs > 0.0)
            first = promises.soonest(bid, offer, last=int(paying[-1])) if len(paying) else None
            found = None if first is None else self._promised(bid, offer, first, promises)
            if found is None:
                return None
            payment, promised = float(offer.costs[found.number]), offer.first + found.number
            return Grant(found.plan.schedule(bid.id), payment, promised)

        return granted

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """Plan jobs that do not run again, in order of their promises, when something ended or changed.

        A plan that would break a promise that is kept now is not made. If servers or the policy changed, jobs that run
        may be stopped for those without machines, and jobs whose promises cannot be kept get no plan. At other times
        jobs without machines are planned as early as possible, even if that is too late.
        """
        promises = self.promises(book)
        without = any(job.completion is None for job in promises.waiting)
        if not promises.waiting or (cause is Cause.SLOT and not without):
            return ()
        if cause is Cause.CHANGED:
            return promises.moves(promises.saved())
        placed = promises.place(promises.waiting)
        broken = any(job.completion is not None and breaks(job, placed) for job in promises.waiting)
        if broken and without:
            placed = promises.place([job for job in promises.waiting if job.completion is None])
        elif broken:
            return ()
        return promises.moves(placed)

    def prices(self, book: Book) -> Floats:
        """Return the posted price of a unit-slot of work that is due after each slot, T x S x R, money."""
        units = self.promises(book).units[1:]
        return np.where(book.inventory.capacity > 0, units[:, np.newaxis, :], 0.0)

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> DividedTerms:
        """Return the terms of the dual bound at these prices: jobs may be stopped and moved in any slot."""
        return DividedTerms(inventory, prices, start=start)

    def _promised(self, bid: Bid, offer: Offer, first: Kept, promises: Promises) -> Kept | None:
        """Return what the bid is promised; None if no payoff above 0 can be kept. `first` can be kept."""
        payoffs = offer.payoffs[first.number :]
        if payoffs.max() <= 0.0:
            return None
        enough = payoffs >= (1.0 - self.later) * payoffs.max()
        enough[: int(payoffs.argmax())] = False
        number = first.number + int(np.flatnonzero(enough)[-1])
        # An earlier promise leaves less freedom, but its plan keeps the later one, too.
        return Kept(number, promises.kept(bid, offer.first + number) or first.plan)

    def _refusal(
        self, bid: Bid, offer: Offer, first: Kept | None, promises: Promises
    ) -> tuple[Reason, str, CounterOffer | None]:
        """Return why a bid is rejected that the empty cluster could run, and the least value that is admitted."""
        worth = np.flatnonzero(offer.values > 0.0)
        if not len(worth):
            text = "It could run, but even at its earliest possible completion it is worth nothing."
            return Reason.WORTHLESS, text, None
        able = worth[:0] if first is None else worth[worth >= first.number]
        if first is None or not len(able):
            text = (
                "The empty cluster could run it, but not beside the jobs that were promised a completion, while "
                "finishing is worth anything."
            )
            return Reason.NO_ROOM, text, None
        with np.errstate(over="ignore"):  # next to nothing, late in a sigmoid: no value would be enough for that slot
            value = bid.utility.value * float((offer.costs[able] / offer.values[able]).min())
        text = "Every completion that can be promised costs at least what it is worth."
        if bid.utility.value < SMALLEST_MONEY or not value + 2 * CENT <= LARGEST_MONEY:
            return Reason.PRICE, text, None
        least = round(math.ceil(value / CENT) * CENT, 2)
        more = with_value(bid, least + CENT)
        then = self._promised(more, promises.offer(more, offer.first), first, promises)
        if then is None:
            return Reason.PRICE, text, None
        slot = offer.first + then.number
        offered, enough = f"{bid.utility.value:.2f}", f"{least + CENT:.2f}"
        text += f" It offered {offered}; {enough} would have been admitted, complete by slot {slot}."
        return Reason.PRICE, text, CounterOffer(least, then.plan.schedule(bid.id).start, slot)


def due(job: Job) -> int:
    """Return the promised slot of a job; without a promise, one after all others."""
    return NEVER if job.due is None else job.due


def breaks(job: Job, placed: Placed) -> bool:
    """Return whether a plan completes a planned job after its promised slot, or later than now if that is late."""
    completion = placed.completions.get(job.bid.id)
    return completion is None or completion > max(due(job), job.completion or 0)


def is_late(job: Job, placed: Placed) -> bool:
    """Return whether a plan breaks what a job was promised, or has planned already."""
    return (job.due is not None or job.completion is not None) and breaks(job, placed)


def runs(job: Job, now: int) -> bool:
    """Return whether a job holds machines in this slot that it held before."""
    return any(p.start < now < p.end for p in job.held)


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
