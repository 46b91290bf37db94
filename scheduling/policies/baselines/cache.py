"""Caches of baselines for the jobs of one ledger, kept between events: derived data, never part of the book."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from scheduling.book.ledger import Ledger
from scheduling.book.state import Job
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.progress import Stretch, done_in, stretches
from scheduling.policies.baselines.allocation import Allocation
from scheduling.policies.baselines.forecast import Forecast
from scheduling.policies.baselines.gang import Gang, fixed_gang, ideal_gang
from scheduling.policies.baselines.priority import Priority, Ranked, Row
from scheduling.policies.baselines.shares import common_share, demand_of

MOST_GANGS = 20_000
"""Largest number of gangs cached for one ledger."""

MOST_JOBS = 20_000
"""Largest number of jobs cached for one ledger, unless a single call needs more."""


@dataclass(eq=False)
class JobFacts:
    """Facts derived from a job of the book; a job that is moved is a new object, with new facts."""

    job: Job
    pause: int
    _left: tuple[int, Fraction] | None = None
    """Slot of the last count, and the work left then."""
    _rank: tuple[tuple[object, int], Priority | None] | None = None
    """The policy and the slot of the last rank, and the rank."""

    @cached_property
    def hold(self) -> Allocation:
        """Return all placements of the job, past and future."""
        return Allocation(self.job.held)

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """Return the stretches in which the job works on these placements, in order."""
        return stretches(self.job.bid, self.job.held, pause=self.pause)

    @cached_property
    def _end(self) -> int:
        """Return the first slot after all these stretches."""
        return max((one.end for one in self.stretches), default=0)

    def left(self, now: int) -> Fraction:
        """Return the exact number of mini-batches left at slot `now`."""
        until = min(now, self._end)
        kept = self._left
        if kept is None or kept[0] != until:
            kept = self._left = until, self.job.bid.work - done_in(self.job.bid, self.stretches, until=until)
        return kept[1]

    def rank(
        self, policy: object, now: int, compute: Callable[[], Priority | None], *, ages: bool = False
    ) -> Priority | None:
        """Return the policy's rank for the work done before slot `now`, computed once for each amount of work.

        If a job `ages`, its rank changes while it waits and is computed once per slot.
        """
        of = policy, now if ages else min(now, self._end)
        kept = self._rank
        if kept is None or kept[0] != of:
            kept = self._rank = of, compute()
        return kept[1]

    @cached_property
    def upload(self) -> int:
        """Return the slot from which the job can use the first server."""
        return self.job.bid.arrival + min(self.job.bid.delay)

    @cached_property
    def uploaded(self) -> int:
        """Return the slot from which the job can use every server."""
        return self.job.bid.arrival + max(self.job.bid.delay, default=0)


@dataclass
class Cache:
    """Cached facts about recently used jobs, and cached gangs."""

    inventory: Inventory
    slots: int
    jobs: dict[str, JobFacts] = field(default_factory=dict)
    whole: dict[str, tuple[Bid, Gang | None]] = field(default_factory=dict)
    """Whole gangs, by the bid's id."""
    fixed: dict[str, tuple[Bid, int, Gang | None]] = field(default_factory=dict)
    """Fixed gangs with their seed, by bid id; the most recently used ones."""
    rows: dict[str, tuple[object, Row]] = field(default_factory=dict)
    """The last waiting and running jobs, in the order of a policy."""
    ideal: dict[str, tuple[Bid, dict[int, Gang | None]]] = field(default_factory=dict)
    """Gangs of the ideal types by number of workers, by bid id; the most recently used ones."""
    forecasts: tuple[Forecast, ...] = ()
    """The last two forecasts, with and without the new job: one of them is used again for the next job."""
    demand: dict[tuple[int, int | None, int], list[int]] = field(default_factory=dict)
    """Units that gangs take in forecasts, by worker type, PS type and count, R numbers each."""
    volumes: dict[tuple[int, int | None, int], Fraction] = field(default_factory=dict)
    """Dominant shares of these units."""
    least: dict[tuple[int, int | None, int], tuple[tuple[int, int], ...]] = field(default_factory=dict)
    shares: dict[tuple[int, int | None, int], int] = field(default_factory=dict)
    """Shares of all servers that workers with their PSs take, in a common unit, by worker type, PS type and count."""

    @classmethod
    def of(cls, ledger: Ledger) -> "Cache":
        """Return the cache of a ledger; create it if there is none."""
        kept, slots = ledger.derived.get("baselines"), ledger.end - ledger.start
        if not isinstance(kept, Cache) or kept.inventory is not ledger.inventory or kept.slots != slots:
            kept = ledger.derived["baselines"] = Cache(ledger.inventory, slots)
        return kept

    def recall(self, jobs: Iterable[Job], *, pause: int) -> list[JobFacts]:
        """Return the facts about these jobs and drop the facts about others."""
        rows = [self.known(job, pause=pause) for job in jobs]
        self.jobs = {known.job.bid.id: known for known in rows}
        if len(self.whole) > 2 * len(rows) + 100:
            self.whole = {name: gang for name, gang in self.whole.items() if name in self.jobs}
        return rows

    def known(self, job: Job, *, pause: int) -> JobFacts:
        """Return the facts about one job."""
        known = self.jobs.get(job.bid.id)
        if known is None or known.job is not job or known.pause != pause:
            if len(self.jobs) >= MOST_JOBS:
                self.jobs = {}
            known = self.jobs[job.bid.id] = JobFacts(job, pause)
        return known

    def row(self, name: str, of: object, jobs: tuple[Job, ...], rank: Callable[[Job], Ranked | None]) -> Row:
        """Return jobs in order, updating the row cached under `name` if it was for the same `of` (policy, slot)."""
        kept = self.rows.get(name)
        row = (kept[1] if kept is not None and kept[0] == of else Row()).after(jobs, rank)
        self.rows[name] = of, row
        return row

    @cached_property
    def smallest(self) -> list[int]:
        """Return the least units of each resource that a worker of any type takes, R numbers."""
        least: list[int] = self.inventory.worker_demand.min(axis=0).tolist()
        return least

    def fixed_gang(self, bid: Bid, *, seed: int) -> Gang | None:
        """Return `gang.fixed_gang`, cached."""
        kept = self.fixed.pop(bid.id, None)
        if kept is None or kept[0] is not bid or kept[1] != seed:
            kept = bid, seed, fixed_gang(bid, self.inventory, slots=self.slots, seed=seed)
        self.fixed[bid.id] = kept
        if len(self.fixed) > MOST_GANGS:
            self.fixed.pop(next(iter(self.fixed)), None)
        return kept[2]

    def ideal_gang(self, bid: Bid, count: int = 1) -> Gang | None:
        """Return `gang.ideal_gang`, cached."""
        kept = self.ideal.get(bid.id)
        if kept is None or kept[0] is not bid:
            if len(self.ideal) >= MOST_GANGS:
                self.ideal = {}
            kept = self.ideal[bid.id] = bid, {1: ideal_gang(bid, self.inventory, 1)}
        gangs, one = kept[1], kept[1][1]
        if count not in gangs and one is not None:
            gangs[count] = replace(one, count=count)
        return gangs.get(count)

    def share(self, gang: Gang, count: int) -> int:
        """Return `shares.common_share` of `count` workers of a gang with their PSs; it has the order of dominant
        shares."""
        of = (gang.worker, gang.ps, count)
        share = self.shares.get(of)
        if share is None:
            share = self.shares[of] = common_share(demand_of(gang, count, self.inventory), self.inventory.total)
        return share

    def least_units(self, gang: Gang, count: int) -> tuple[tuple[int, int], ...]:
        """Return the resources and units that `count` workers of a gang with one PS always take."""
        of = (gang.worker, gang.ps, count)
        rows = self.least.get(of)
        if rows is None:
            units = count * self.inventory.worker_demand[gang.worker]
            if gang.ps is not None:
                units = units + self.inventory.ps_demand[gang.ps]
            rows = self.least[of] = tuple((r, n) for r, n in enumerate(units.tolist()) if n)
        return rows
