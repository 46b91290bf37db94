"""Weighted completion: place jobs so that the sum of weight x completion is small; nobody pays."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from scheduling.batch.consumption import Consumption, ConsumptionPrice, consumption_of, price_above
from scheduling.batch.intervals import Interval, last_interval, next_end
from scheduling.batch.maxweight import Windows, pack
from scheduling.batch.planner import Search, plan_alone
from scheduling.best_response.base import slots_ahead
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move, Reason
from scheduling.model.errors import InvalidField
from scheduling.model.parameters import parameter
from scheduling.model.progress import rest_of, work_done
from scheduling.model.schedule import Placement, Schedule
from scheduling.model.types import Floats
from scheduling.policies.base import Grant, Objective, PolicyBase, value_with
from scheduling.policies.baselines.allocation import units_of
from scheduling.policies.baselines.jain import fits_alone, pack_right_to_left
from scheduling.policies.line import Line, Ranked

LARGEST_LAMBDA = 1e15
EFFORT = 2_000_000
"""Limit of the local search at one event, cells of tables; with `rescaled`, of each of its searches."""
LEAST_GAIN = 1e-9
"""Share of the total that a rescaled job must save."""


@dataclass(frozen=True)
class WeightedCompletion(PolicyBase):
    """A_maxweight over jobs in order of density, replanned at every event or in batches at the ends of intervals.

    docs/algorithms/weighted-completion.md lists the deviations from the paper and their reasons.
    """

    mode: str = parameter(
        "search",
        "search: at every event jobs that have not started are planned again, the first of them by local search; "
        "rolling: all are, without a search; interval: in batches at slots 1, 2, 4, 8, ..., as in the paper's "
        "Algorithm 1.",
        choices=("search", "rolling", "interval"),
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

    planned: int = parameter(
        50,
        "Search mode: jobs that are planned to start later; others in line have no plan, and start as soon as there is "
        "room that these leave free.",
        low=1,
        high=100_000,
    )
    considered: int = parameter(
        500,
        "Search mode: jobs in line that an event looks at, the first in order; it looks at the others only while "
        "machines are idle.",
        low=1,
        high=100_000,
    )
    searched: int = parameter(
        8, "Search mode: jobs whose turns and machines the local search changes.", low=0, high=100
    )
    rescaled: int = parameter(
        0,
        "Search mode: running jobs that an event may stop and start again on other machines, as many as fit, where "
        "that lowers the total of weight x completion; those that are complete last are tried first.",
        low=0,
        high=100,
    )
    restart: int = parameter(
        1, "Slots in which a job that was stopped to be rescaled holds nothing and does no work.", low=0, high=1000
    )
    exact_rest: bool = parameter(
        True,
        "A job that ran before is planned with exactly the work that is left. Without this the work is rounded up to "
        "the same number of mini-batches for each chunk, which can be as much as all of the job.",
        absent=False,
    )

    name = "weighted_completion"
    title = "Weighted completion: jobs with the most weight for their size first, nobody pays"
    objective = Objective.WEIGHTED_COMPLETION
    architectures = frozenset(Architecture)

    def misfits(self) -> Iterator[InvalidField]:
        """Yield an error for each parameter that jain would not use.

        It is used in interval mode: with replanning at every event, its latest starts would never come.
        """
        if self.selection != "jain":
            return
        for name, wanted in (("mode", "interval"), ("order", "density"), ("lambda", 1.0)):
            given = self.to_json()[name]
            if given != wanted:
                yield InvalidField(name, f"expected {wanted} with selection jain, got {given}")

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Admit a job, with a plan if there is one; reject it only if it could never run."""
        line = Line.of(book, self.order, Job(bid, held=(), completion=None))
        least = consumption_of(bid, book.ledger)
        prices = self._price(line, book)
        earliest = _on_empty(bid, book)
        if earliest is None or (self.selection == "jain" and not fits_alone(bid, book.ledger)):
            return _impossible(bid, book, least, prices)
        jobs, plan = self._replan(line, book, prices) if self._at_events else ([], {})
        schedule, worth = plan.get(bid.id), bid.utility.at(earliest.completion - bid.arrival)
        return Decision.admit(
            bid.id,
            schedule,
            self._explain(line, bid, jobs, plan, book),
            slot=book.now,
            value=worth if schedule is None else value_with(bid, schedule),
            standalone_value=worth,
            density=least.densities(bid.utility.value),
            prices=prices.to_json(),
            moves=_moves(line, [job for job in jobs if job.bid.id != bid.id], plan),
        )

    def grants(self, book: Book) -> Callable[[Bid], Grant | None]:
        """Return a function from a bid to its grant on this book, as `decide` finds it; None if the bid is rejected."""

        def granted(bid: Bid) -> Grant | None:
            if _on_empty(bid, book) is None or (self.selection == "jain" and not fits_alone(bid, book.ledger)):
                return None
            if not self._at_events:
                return Grant(None)
            line = Line.of(book, self.order, Job(bid, held=(), completion=None))
            _, plan = self._replan(line, book, self._price(line, book), only=bid.id)
            return Grant(plan.get(bid.id))

        return granted

    def ranks(self, bid: Bid, factors: Sequence[float], book: Book) -> list[tuple[int, bool]] | None:
        """Return the bid's rank in line for its weight times each factor, and whether that weight is positive.

        Equal ranks lead to equal plans. None if weights also have to exceed a price.
        """
        if self.mode != "rolling" or self.lambda_ != 1.0:
            return None
        found = []
        for factor in factors:
            stated = replace(bid, utility=bid.utility.scaled(factor))
            new = Job(stated, held=(), completion=None)
            found.append((Line.of(book, self.order, new).jobs().index(new), stated.utility.value > 0))
        return found

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """Plan again: all jobs that have not started if something ended or changed, else only jobs without a plan."""
        slot = cause is Cause.SLOT
        if self._at_events and not book.waiting and (slot or self._all_run(book)):
            return ()
        line = Line.of(book, self.order)
        if self._at_events:
            return _moves(line, *self._replan(line, book, self._price(line, book), slot=slot))
        interval = self._interval(book)
        jobs = [job for job in line.jobs(planned=False) if interval is not None and job.bid.arrival <= interval.tau]
        return _moves(line, jobs, self._pack(jobs, book, self._price(line, book))) if jobs else ()

    def prices(self, book: Book) -> Floats:
        """Return the price (11) of one unit of each resource for one slot, T x S x R, weight; 0 at lambda 1."""
        price, used = self._price(Line.of(book, self.order), book), book.ledger.used
        return price.of(used, book.inventory.capacity, slots_ahead(len(used)))

    def _price(self, line: Line, book: Book) -> ConsumptionPrice:
        least = line.least_density if self.lambda_ > 1 or line.new is not None else 1.0
        return price_above(self.lambda_, least, book.inventory)

    def _all_run(self, book: Book) -> bool:
        """Whether every job of the book keeps its machines: none can be planned again."""
        return not self.rescaled and all(job.bound or job.started(book.now) for job in book.jobs)

    @property
    def _at_events(self) -> bool:
        """Whether jobs are planned at every event."""
        return self.mode != "interval"

    def _replan(
        self, line: Line, book: Book, prices: ConsumptionPrice, *, only: str | None = None, slot: bool = False
    ) -> tuple[list[Job], dict[str, Schedule]]:
        """Plan the jobs of the line again; if only a slot passed, those without a plan.

        Return the jobs that may have a plan, and their plan.
        """
        if self.mode == "rolling":
            jobs = line.jobs(planned=not slot)
            return jobs, self._pack(jobs, book, prices, only=only)
        jobs, placed = self._search(line, book, prices, slot=slot)
        stopped: list[Ranked] = []
        for one in [] if slot else line.running(book.now)[: self.rescaled]:
            other = self._search(line, book, prices, slot=slot, stopped=[*stopped, one])
            if _total(*other, book) < _total([*jobs, one.job], placed, book) * (1 - LEAST_GAIN):
                stopped.append(one)
                jobs, placed = other
        return jobs, placed

    def _search(
        self, line: Line, book: Book, prices: ConsumptionPrice, *, slot: bool, stopped: Collection[Ranked] = ()
    ) -> tuple[list[Job], dict[str, Schedule]]:
        """Plan the first jobs by local search, among them running jobs that are stopped for it."""
        jobs = line.jobs(planned=not slot, most=self.considered, stopped=stopped)
        freed = [p for job in jobs for p in job.held]
        again = {one.job.bid.id for one in stopped}
        placed = pack(
            [self._rest(job, book.now, restart=self.restart if job.bid.id in again else 0) for job in jobs],
            book.ledger,
            prices,
            doubling(book.now, book.ledger.end),
            freed=freed,
            later=max(0, self.planned - len(line.planned)) if slot else self.planned,
            search=Search(self.searched, EFFORT) if self.searched and not slot else None,
        )
        if len(line.waiting.ranked) <= self.considered or not _idle(book, freed, placed.values()):
            return jobs, placed
        left = line.jobs_after(self.considered)
        ledger = book.ledger.without(freed)
        ledger.restore(placed.values())
        rest = [self._rest(job, book.now) for job in left]
        return [*jobs, *left], placed | pack(rest, ledger, prices, doubling(book.now, ledger.end), later=0)

    def _pack(
        self,
        jobs: Sequence[Job],
        book: Book,
        prices: ConsumptionPrice,
        *,
        only: str | None = None,
    ) -> dict[str, Schedule]:
        """Place jobs, in the given order, in the capacity that other jobs leave free; some may be left out.

        If every price is 0, `only` may name the one bid whose schedule is wanted.
        """
        bids = [self._rest(job, book.now) for job in jobs]
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

    def _rest(self, job: Job, now: int, *, restart: int = 0) -> Bid:
        """Return the work that is left of a job: all of it unless it ran before. It may start `restart` slots from now
        on."""
        if not job.held or not job.started(now):
            return job.bid
        left = rest_of(job.bid, job.held, now=now) if self.exact_rest else _rounded_rest(job, now)
        first = now + restart if restart else job.bid.arrival
        delay = tuple(max(0, job.bid.arrival + delay - first) for delay in job.bid.delay)
        return replace(left, arrival=first, delay=delay)

    def _windows(self, book: Book) -> Iterator[tuple[int, int]]:
        """Yield first slot and latest completion of each call of A_maxweight."""
        now, end = book.now, book.ledger.end
        if self._at_events:
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

    def _explain(self, line: Line, bid: Bid, jobs: Iterable[Job], plan: Mapping[str, Schedule], book: Book) -> str:
        schedule = plan.get(bid.id)
        until = "is complete" if self.rescaled and self.mode == "search" else "has started"
        can_change = f"This is a plan, which can change until the job {until}. Nobody pays here."
        if schedule is not None and schedule.start == book.now:
            what = f"it starts now, in slot {schedule.start}, and is complete at slot {schedule.completion}"
            return f"Admitted: {what}. {can_change}"
        moved = {job.bid.id for job in line.others}
        started = {name for name, planned in plan.items() if planned.start == book.now and name not in moved}
        place, many = line.place_of_new(job for job in jobs if job.bid.id in started)
        where = "alone in line" if many == 1 else f"number {place} of the {many} jobs in line"
        if schedule is None and self.mode == "interval":
            ends = next_end(book.now, slots=book.ledger.end - book.now, alpha=self.alpha)
            return f"Admitted: it is {where}, and is planned with others when slot {ends} is over. Nobody pays here."
        if schedule is None and self.mode == "search" and _starting_later(plan, book.now) >= self.planned:
            what = f"it is {where}, without a planned start, as {self.planned} others are planned first"
        elif schedule is None:
            what = f"it is {where}, without a planned start, as it has no room before slot {book.ledger.end} yet"
        else:
            start, completion = schedule.start, schedule.completion
            what = f"it is {where}, planned to start in slot {start} and to be complete at slot {completion}"
        return f"Admitted: {what}. {can_change}"


def doubling(now: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield horizons of 2, 4, 8, ... slots from `now`, and last the whole one; h - 1 of h slots are usable, as in
    A_dual."""
    reach = 2
    while now + reach - 1 < end:
        yield now, now + reach - 1
        reach *= 2
    yield now, end


def _starting_later(plan: Mapping[str, Schedule], now: int) -> int:
    return sum(schedule.start > now for schedule in plan.values())


def _idle(book: Book, freed: Iterable[Placement], placed: Iterable[Schedule]) -> bool:
    """Return whether a worker of some type fits a server now, when `freed` is free and `placed` is not."""
    inventory, now = book.inventory, book.now
    free = inventory.capacity - book.ledger.used[0]
    free = free + units_of((p for p in book.ledger.sellable(freed) if p.start <= now < p.end), inventory)
    free = free - units_of((p for one in placed for p in one.placements if p.start <= now < p.end), inventory)
    return any(bool((free >= demand).all(axis=1).any()) for demand in inventory.worker_demand)


def _rounded_rest(job: Job, now: int) -> Bid:
    """Return the work that is left of a job, rounded up to the same number of mini-batches for each chunk."""
    left = ceil(job.bid.work - work_done(job.bid, job.held, until=now))
    chunks = max(1, min(job.bid.chunks, left))
    return replace(job.bid, epochs=1, chunks=chunks, minibatches=max(1, ceil(left / chunks)))


def _total(jobs: Iterable[Job], placed: Mapping[str, Schedule], book: Book) -> float:
    """Return weight x completion of jobs under a plan, two horizons from now for those without a schedule.

    A running job that the plan does not move keeps its completion.
    """
    last, total = 2 * book.ledger.end - book.now, 0.0
    for job in jobs:
        known = job.completion if job.started(book.now) else None
        schedule = placed.get(job.bid.id)
        total += job.bid.utility.value * (schedule.completion if schedule is not None else known or last)
    return total


def _moves(line: Line, jobs: Iterable[Job], plan: Mapping[str, Schedule]) -> tuple[Move, ...]:
    """Return the moves of these jobs under a new plan, in order of admission."""
    moved = [job for job in jobs if not _same(job, plan.get(job.bid.id))]
    moved.sort(key=lambda job: line.places[id(job)])
    return tuple(Move(job.bid.id, plan.get(job.bid.id)) for job in moved)


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
