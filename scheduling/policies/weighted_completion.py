"""Weighted completion: place jobs so that the sum of weight x completion is small; nobody pays."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from scheduling.batch.consumption import Consumption, ConsumptionPrice, consumption_price, consumptions
from scheduling.batch.intervals import Interval, last_interval, next_end
from scheduling.batch.maxweight import Windows, pack
from scheduling.batch.planner import plan_alone
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move, Reason
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import parameter
from scheduling.model.progress import work_done
from scheduling.model.schedule import Placement, Schedule
from scheduling.model.types import Floats
from scheduling.policies.base import Grant, Objective, PolicyBase, value_with
from scheduling.policies.baselines.jain import fits_alone, pack_right_to_left

LARGEST_LAMBDA = 1e15
Known = Mapping[str, Consumption]
"""The least consumption of each job, by the bid's id."""


@dataclass(frozen=True)
class WeightedCompletion(PolicyBase):
    """A_maxweight over jobs in order of density, replanned at every event or in batches at the ends of intervals.

    docs/algorithms/weighted-completion.md lists the deviations from the paper and their reasons.
    """

    mode: str = parameter(
        "rolling",
        "rolling: at every event all jobs that have not started are planned again; interval: in batches at slots 1, 2, "
        "4, 8, ..., as in the paper's Algorithm 1.",
        choices=("rolling", "interval"),
    )
    order: str = parameter(
        "density",
        "Whose turn it is first: density is weight over the least share of the cluster x slots the job needs; size is "
        "that share alone, the least first.",
        choices=("density", "weight", "arrival", "size"),
    )
    lambda_: float = parameter(
        1.0,
        "Base of the price (11) that a job's weight must exceed; 1: no price, which measures best.",
        low=1.0,
        high=LARGEST_LAMBDA,
    )
    batches: str = parameter(
        "literal",
        "Interval mode: literal runs a batch from alpha x tau on, as in the paper; chained as soon as the batch before "
        "it is complete.",
        choices=("literal", "chained"),
    )
    alpha: int = parameter(4, "Interval mode: rounds of a literal batch.", low=1, high=1000)
    selection: str = parameter(
        "maxweight",
        "How a batch is packed: maxweight is the paper's A_maxweight; jain the greedy algorithm with deadlines of "
        "Jain et al., in its own order, at no price and in interval mode alone.",
        choices=("maxweight", "jain"),
    )

    name = "weighted_completion"
    title = "Weighted completion: jobs with the most weight for their size first, nobody pays"
    objective = Objective.WEIGHTED_COMPLETION
    architectures = frozenset(Architecture)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selection == "jain":
            self._check_jain()

    def _check_jain(self) -> None:
        """Check that jain is used in interval mode: with replanning at every event, its latest starts would never
        come."""
        for name, wanted in (("mode", "interval"), ("order", "density"), ("lambda", 1.0)):
            given = self.to_json()[name]
            if given != wanted:
                raise InvalidField(name, f"expected {wanted} with selection jain, got {given}")

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Admit a job, with a plan if there is one; reject it only if it could never run."""
        known = consumptions([*(job.bid for job in book.jobs), bid], book.ledger)
        new, others = Job(bid, held=(), completion=None), _open(book)
        jobs = [*others, new]
        prices = self._price([*book.jobs, new], known, book.inventory)
        earliest = _on_empty(bid, book)
        if earliest is None or (self.selection == "jain" and not fits_alone(bid, book.ledger)):
            return _impossible(bid, book, known[bid.id], prices)
        plan = self._pack(jobs, book, known, prices) if self.mode == "rolling" else {}
        schedule = plan.get(bid.id)
        line = in_order([job for job in jobs if not _runs(job, plan.get(job.bid.id), book.now)], known, self.order)
        return Decision.admit(
            bid.id,
            schedule,
            self._explain(new, schedule, book, line),
            slot=book.now,
            value=value_with(bid, schedule),
            standalone_value=bid.utility.at(earliest.completion - bid.arrival),
            density=known[bid.id].densities(bid.utility.value),
            prices=prices.to_json(),
            moves=_moves(others, plan) if self.mode == "rolling" else (),
        )

    def grants(self, book: Book) -> Callable[[Bid], Grant | None]:
        """Return a function from a bid to its grant on this book, as `decide` finds it; None if the bid is rejected."""
        others = _open(book)

        def granted(bid: Bid) -> Grant | None:
            if _on_empty(bid, book) is None or (self.selection == "jain" and not fits_alone(bid, book.ledger)):
                return None
            if self.mode != "rolling":
                return Grant(None)
            known = consumptions([*(job.bid for job in book.jobs), bid], book.ledger)
            new = Job(bid, held=(), completion=None)
            prices = self._price([*book.jobs, new], known, book.inventory)
            return Grant(self._pack([*others, new], book, known, prices, only=bid.id).get(bid.id))

        return granted

    def ranks(self, bid: Bid, factors: Sequence[float], book: Book) -> list[tuple[int, bool]] | None:
        """Return the bid's rank in line for its weight times each factor, and whether that weight is positive.

        Equal ranks lead to equal plans. None if weights also have to exceed a price.
        """
        if self.mode != "rolling" or self.lambda_ != 1.0:
            return None
        known, others = consumptions([*(job.bid for job in book.jobs), bid], book.ledger), _open(book)
        found = []
        for factor in factors:
            stated = replace(bid, utility=bid.utility.scaled(factor))
            new = Job(stated, held=(), completion=None)
            found.append((in_order([*others, new], known, self.order).index(new), stated.utility.value > 0))
        return found

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """Plan again: all jobs that have not started if something ended or changed, else only jobs without a plan."""
        jobs = _open(book)
        if self.mode == "interval" or cause is Cause.SLOT:
            jobs = [job for job in jobs if job.completion is None]
        if self.mode == "interval":
            interval = self._interval(book)
            jobs = [job for job in jobs if interval is not None and job.bid.arrival <= interval.tau]
        if not jobs:
            return ()
        known = consumptions((job.bid for job in book.jobs), book.ledger)
        return _moves(jobs, self._pack(jobs, book, known, self._price(book.jobs, known, book.inventory)))

    def prices(self, book: Book) -> Floats:
        """Return the price (11) of one unit of each resource for one slot, T x S x R, weight; 0 at lambda 1."""
        known = consumptions((job.bid for job in book.jobs), book.ledger)
        return self._price(book.jobs, known, book.inventory).of(book.ledger.used, book.inventory.capacity)

    def _price(self, jobs: Iterable[Job], known: Known, inventory: Inventory) -> ConsumptionPrice:
        return consumption_price(self.lambda_, ((job.bid.utility.value, known[job.bid.id]) for job in jobs), inventory)

    def _pack(
        self, jobs: Sequence[Job], book: Book, known: Known, prices: ConsumptionPrice, *, only: str | None = None
    ) -> dict[str, Schedule]:
        """Place jobs in the capacity that other jobs leave free; jobs that do not fit are left out.

        If every price is 0, `only` may name the one bid whose schedule is wanted.
        """
        bids = [_rest(job, book.now) for job in in_order(jobs, known, self.order)]
        freed = [p for job in jobs for p in job.held]
        placed = self._select(bids, book.ledger, prices, self._windows(book), freed, only)
        interval = self._interval(book) if self.mode == "interval" else None
        if interval is None or not interval.capped or len(placed) == len(bids):
            return placed
        ledger = book.ledger.copy()
        ledger.restore(placed.values())
        left = [bid for bid in bids if bid.id not in placed]
        return placed | self._select(left, ledger, prices, [(book.now, ledger.end)])

    def _select(
        self,
        bids: Sequence[Bid],
        ledger: Ledger,
        prices: ConsumptionPrice,
        windows: Windows,
        freed: Sequence[Placement] = (),
        only: str | None = None,
    ) -> dict[str, Schedule]:
        if self.selection == "jain":
            return pack_right_to_left(bids, ledger, windows, freed=freed)
        return pack(bids, ledger, prices, windows, freed=freed, only=only)

    def _windows(self, book: Book) -> Iterator[tuple[int, int]]:
        """Yield first slot and latest completion of each call of A_maxweight."""
        now, end = book.now, book.ledger.end
        if self.mode == "rolling":
            return doubling(now, end)
        interval = self._interval(book)
        if interval is None:
            return iter(())
        if self.batches == "literal":
            return interval.rounds(self.alpha, now=now, end=end)
        busy = max((job.completion for job in book.jobs if job.completion is not None), default=now)
        return interval.chained(max(busy, now), end=end)

    def _interval(self, book: Book) -> Interval | None:
        return last_interval(book.now, slots=book.ledger.end - book.now, alpha=self.alpha)

    def _explain(self, new: Job, schedule: Schedule | None, book: Book, waiting: Sequence[Job]) -> str:
        many = len(waiting)
        place = waiting.index(new) + 1 if new in waiting else 0
        line = "alone in line" if many == 1 else f"number {place} of the {many} jobs in line"
        if schedule is None and self.mode == "interval":
            ends = next_end(book.now, slots=book.ledger.end - book.now, alpha=self.alpha)
            return f"Admitted: it is {line}, and is planned with others when slot {ends} is over. Nobody pays here."
        if schedule is None:
            what = f"it is {line}, without a planned start, as it has no room before slot {book.ledger.end} yet"
        elif schedule.start == book.now:
            what = f"it starts now, in slot {schedule.start}, and is complete at slot {schedule.completion}"
        else:
            start, completion = schedule.start, schedule.completion
            what = f"it is {line}, planned to start in slot {start} and to be complete at slot {completion}"
        return f"Admitted: {what}. This is a plan, which can change until the job has started. Nobody pays here."


def in_order(jobs: Iterable[Job], known: Known, order: str) -> list[Job]:
    """Sort jobs by density, weight, size or arrival; equal jobs by arrival, then in the given order."""

    def rank(job: Job) -> tuple[float, int]:
        weight, least = job.bid.utility.value, known[job.bid.id]
        merit = {"density": least.density(weight), "weight": weight, "size": -least.volume, "arrival": 0.0}[order]
        return -merit, job.bid.arrival

    return sorted(jobs, key=rank)


def doubling(now: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield horizons of 2, 4, 8, ... slots from `now`, and last the whole one; h - 1 of h slots are usable, as in
    A_dual."""
    reach = 2
    while now + reach - 1 < end:
        yield now, now + reach - 1
        reach *= 2
    yield now, end


def _open(book: Book) -> list[Job]:
    """Return the jobs that may be planned: those that have not started, and those that another policy left paused."""
    return [job for job in book.jobs if not job.bound and (job.completion is None or not job.started(book.now))]


def _runs(job: Job, new: Schedule | None, now: int) -> bool:
    """Whether the job has started, or starts now under a new plan."""
    return job.started(now) or (new is not None and new.start == now)


def _rest(job: Job, now: int) -> Bid:
    """Return the remaining work of a job: all of it unless the job was paused."""
    if not job.started(now):
        return job.bid
    left = ceil(job.bid.work - work_done(job.bid, job.held, until=now))
    chunks = max(1, min(job.bid.chunks, left))
    return replace(job.bid, epochs=1, chunks=chunks, minibatches=max(1, ceil(left / chunks)))


def _moves(jobs: Iterable[Job], plan: Mapping[str, Schedule]) -> tuple[Move, ...]:
    """Return the moves of jobs that have not started, or are paused, under a new plan."""
    rows = ((job, plan.get(job.bid.id)) for job in jobs)
    return tuple(Move(job.bid.id, new) for job, new in rows if not _same(job, new))


def _same(job: Job, new: Schedule | None) -> bool:
    if new is None or job.completion is None:
        return new is None and job.completion is None
    return job.completion == new.completion and job.held == new.placements


def _on_empty(bid: Bid, book: Book) -> Schedule | None:
    """Return the schedule of earliest completion on the empty cluster."""
    return plan_alone(bid, book.ledger)


def _impossible(bid: Bid, book: Book, least: Consumption, prices: ConsumptionPrice) -> Decision:
    explanation = (
        f"Even the empty cluster could not complete it before slot {book.ledger.end}: its machines, its work and "
        "its upload delays do not fit."
    )
    offered = least.densities(bid.utility.value)
    return Decision.reject(
        bid.id, Reason.IMPOSSIBLE, explanation, slot=book.now, density=offered, prices=prices.to_json()
    )
