"""Facts about jobs and gangs, kept between the events of one ledger: derived data, never part of the book."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.state import Job
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.progress import Stretch, stretches
from scheduling.policies.baselines.allocation import Allocation
from scheduling.policies.baselines.gang import Gang, ideal_gang
from scheduling.policies.baselines.priority import Ranked, RankedJobs
from scheduling.policies.baselines.shares import common_share, demand_of, dominant_share

MOST = 20_000
"""Largest number of jobs, and of gangs, whose facts are kept for one ledger."""


@dataclass(eq=False)
class JobFacts:
    """Facts derived from a job of the book; a job that is moved is a new object, with new facts."""

    job: Job
    pause: int
    kept: dict[Hashable, Any] = field(default_factory=dict)
    """Facts that hold as long as the job waits, each under a key of the policy that keeps it."""

    @cached_property
    def hold(self) -> Allocation:
        """Return all placements of the job, past and future."""
        return Allocation(self.job.held)

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """Return the stretches in which the job works on these placements, in order."""
        return stretches(self.job.bid, self.job.held, pause=self.pause)


@dataclass(frozen=True, eq=False)
class GangUnits:
    """Units that `count` workers of a gang take, alone and with the parameter servers for all of them."""

    gang: Gang
    count: int
    inventory: Inventory

    @cached_property
    def least(self) -> tuple[tuple[int, int], ...]:
        """Return the resources and units that the workers with one PS always take."""
        units = self.count * self.inventory.worker_demand[self.gang.worker]
        if self.gang.ps is not None:
            units = units + self.inventory.ps_demand[self.gang.ps]
        return tuple((r, n) for r, n in enumerate(units.tolist()) if n)

    @cached_property
    def order(self) -> int:
        """Return `shares.common_share` of workers and PSs; it has the order of dominant shares."""
        return common_share(demand_of(self.gang, self.count, self.inventory), self.inventory.total)

    @cached_property
    def demand(self) -> list[int]:
        """Return the units of workers and PSs, at most the total capacity, R numbers."""
        demand: list[int] = np.minimum(demand_of(self.gang, self.count, self.inventory), self.inventory.total).tolist()
        return demand

    @cached_property
    def share(self) -> Fraction:
        """Return the dominant share of `demand`."""
        return dominant_share(np.array(self.demand, dtype=np.int64), self.inventory.total)


@dataclass
class Cache:
    """Facts about the jobs and gangs of one ledger."""

    inventory: Inventory
    slots: int
    jobs: dict[str, JobFacts] = field(default_factory=dict)
    gangs: dict[tuple[str, Hashable], tuple[Bid, Gang | None]] = field(default_factory=dict)
    """Gangs by the bid's id and the way in which they were found."""
    sizes: dict[tuple[int, int | None, int], GangUnits] = field(default_factory=dict)
    """Units by worker type, PS type and count."""
    uploads: dict[str, tuple[Bid, int]] = field(default_factory=dict)
    """Slot from which a job can use every server, by the bid's id."""
    rows: dict[str, tuple[object, RankedJobs]] = field(default_factory=dict)
    """The last waiting and running jobs, in the order of a policy."""

    @classmethod
    def of(cls, ledger: Ledger) -> "Cache":
        """Return the cache of a ledger; create it if there is none."""
        kept, slots = ledger.derived.get("baselines"), ledger.end - ledger.start
        if not isinstance(kept, Cache) or kept.inventory is not ledger.inventory or kept.slots != slots:
            kept = ledger.derived["baselines"] = Cache(ledger.inventory, slots)
        return kept

    def known(self, job: Job, *, pause: int) -> JobFacts:
        """Return the facts about one job."""
        known = self.jobs.get(job.bid.id)
        if known is None or known.job is not job or known.pause != pause:
            if len(self.jobs) >= MOST:
                self.jobs = {}
            known = self.jobs[job.bid.id] = JobFacts(job, pause)
        return known

    def gang(self, bid: Bid, way: Hashable, find: Callable[[], Gang | None]) -> Gang | None:
        """Return the gang of a bid, found once for each way to find one."""
        kept = self.gangs.get((bid.id, way))
        if kept is None or kept[0] is not bid:
            if len(self.gangs) >= MOST:
                self.gangs = {}
            kept = self.gangs[bid.id, way] = bid, find()
        return kept[1]

    def uploaded(self, bid: Bid) -> int:
        """Return the slot from which a job can use every server."""
        kept = self.uploads.get(bid.id)
        if kept is None or kept[0] is not bid:
            if len(self.uploads) >= MOST:
                self.uploads = {}
            kept = self.uploads[bid.id] = bid, bid.arrival + max(bid.delay, default=0)
        return kept[1]

    def ideal_gang(self, bid: Bid) -> Gang | None:
        """Return `gang.ideal_gang` of one worker."""
        return self.gang(bid, "ideal", lambda: ideal_gang(bid, self.inventory, 1))

    def units(self, gang: Gang, count: int) -> GangUnits:
        """Return what `count` workers of a gang's types take."""
        kind = (gang.worker, gang.ps, count)
        units = self.sizes.get(kind)
        if units is None:
            units = self.sizes[kind] = GangUnits(gang, count, self.inventory)
        return units

    def row(self, name: str, of: object, jobs: tuple[Job, ...], rank: Callable[[Job], Ranked | None]) -> RankedJobs:
        """Return jobs in order, updating the row cached under `name` if it was for the same `of` (policy, slot)."""
        kept = self.rows.get(name)
        row = (kept[1] if kept is not None and kept[0] == of else RankedJobs()).after(jobs, rank)
        self.rows[name] = of, row
        return row

    @cached_property
    def smallest(self) -> list[int]:
        """Return the least units of each resource that a worker of any type takes, R numbers."""
        least: list[int] = self.inventory.worker_demand.min(axis=0).tolist()
        return least
