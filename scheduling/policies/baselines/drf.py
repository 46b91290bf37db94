"""Dominant resource fairness, placed: whole workers on real servers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from operator import attrgetter

import numpy as np

from scheduling.book.state import Cause
from scheduling.model.bid import Bid
from scheduling.policies.baselines.base import Baseline, drained_parameter
from scheduling.policies.baselines.capacity import FreeCapacity
from scheduling.policies.baselines.gang import Gang, find_place, ideal_gang
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.shares import fair_counts


@dataclass(frozen=True)
class Drf(Baseline):
    """Every job runs with as many workers of its ideal types as its fair share, re-scaled at events.

    At every event (an arrival; a completion, cancellation or failure; a change of servers or policy):

    1. *Targets* (`shares.fair_counts`): progressive filling of dominant shares, in whole workers with their PSs, as
       if the cluster were one server, without what bound jobs hold. A job that so few could not complete within the
       horizon has the fewest that could on the empty cluster instead: its share may be less for ever.
    2. Jobs that wait start, in order of arrival, with their target of workers (at least 1). Where there is no place
       (`gang.find_place`), running jobs above their target shrink to it (at least 1), the one with the greatest share
       first, until there is. If all of them would not do, the job starts with one worker less, and so on; if even one
       has no place it waits and none shrinks. Those that shrank for nothing have their machines back.
    3. Running jobs below their target grow, the one with the least share first: to the most workers up to the target
       for which there is a place, if it is then complete sooner than it would be.

    A job that shrinks or grows is placed again, and does nothing in the first slot. No job is stopped entirely. When
    only a slot passes jobs that wait are started, and nothing else.

    References
    ----------
    Weighted completion, Section 7 (ii). Shrinking only for jobs that wait and growing only where it helps are ours:
    without them every event costs every job a slot.
    """

    keep_drained: bool = drained_parameter()

    name = "drf"
    title = "DRF: every job has its fair share of workers, re-scaled as jobs come and go, nobody pays"
    pause = 1

    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        """Start jobs that wait at their fair share, and re-scale the others."""
        event = _Event(floor)
        event.start_all(shrink=cause is not Cause.SLOT)
        if cause is not Cause.SLOT:
            event.grow_all()

    def can_run(self, bid: Bid, floor: PassState) -> bool:
        """Whether up to its target of workers alone could complete the job on the empty cluster."""
        gang = ideal_gang(bid, floor.inventory, 1)
        if gang is None:
            return False
        alone = max(1, fair_counts([gang], floor.inventory, floor.inventory.capacity.sum(axis=0))[0])
        empty = FreeCapacity(floor.inventory, now=0, slots=floor.slots)
        usable = np.ones(len(floor.inventory.servers), dtype=np.bool_)
        gangs = _fewer(replace(gang, count=alone))
        return any(find_place(one, empty, Fraction(bid.work), usable=usable) is not None for one in gangs)


class _Event:
    """One event. It creates pass jobs only for waiting jobs whose first worker may have room."""

    def __init__(self, floor: PassState) -> None:
        self.floor = floor
        free = sorted((job for job in floor.jobs if not job.bound), key=attrgetter("bid.arrival"))
        rows = ((job, floor.memory.ideal_gang(job.bid)) for job in free)
        self.rows = [(job, gang) for job, gang in rows if gang is not None]
        """Jobs that may be moved, in order of arrival, then of admission, each with a gang of its types."""
        self.place = {job.bid.id: place for place, (job, _) in enumerate(self.rows)}
        self.ran = [task for task in floor.running_now() if task.job.bid.id in self.place]
        """Tasks that held machines before, in that order."""
        self.run = self.ran
        """Jobs that hold machines by now, in any order."""
        self._targets: dict[PassJob, Gang] = {}

    @cached_property
    def counts(self) -> list[int]:
        """Return the number of workers of each fair share, one for each row."""
        return fair_counts([gang for _, gang in self.rows], self.floor.inventory, self.floor.shared_out())

    def target(self, task: PassJob) -> Gang:
        """Do step 1 for one job."""
        gang = self._targets.get(task)
        if gang is None:
            place = self.place[task.job.bid.id]
            gang = _in_time(self.floor, task, self.rows[place][1], max(1, self.counts[place]))
            self._targets[task] = gang
        return gang

    def start_all(self, *, shrink: bool) -> None:
        """Do step 2; skip jobs that could not have one worker even if all jobs above their targets shrank."""
        before = {task.job.bid.id for task in self.ran}
        over: list[PassJob] | None = None
        for job, gang in self.rows:
            if job.bid.id in before:
                continue
            if over is None:
                over = self._above() if shrink else []
                spare = self._spare(over)
                if self.floor.is_full(spare):
                    return
            if self.floor.may_fit(gang, spare, count=1) and self._start(self.floor.meet(job), over):
                self.run = [*self.run, self.floor.meet(job)]
                over = None

    def grow_all(self) -> None:
        """Do step 3."""
        below = [task for task in self.run if task.workers < task.job.bid.chunks]
        below = [task for task in below if task.workers < self.target(task).count]
        for task in sorted(below, key=lambda task: (self._share(task), self.place[task.job.bid.id])):
            self._grow(task)

    def _above(self) -> list[PassJob]:
        """Return jobs that run with more than their target, greatest share first, without jobs that started now."""
        # A target is at least the fair share; most jobs have no more than that, so their target is not computed.
        over = [task for task in self.ran if task.workers > max(1, self.counts[self.place[task.job.bid.id]])]
        over = [task for task in over if task.workers > self.target(task).count]
        return sorted(over, key=lambda task: -self._share(task))

    def _share(self, task: PassJob) -> int:
        """Return a number that orders jobs as their dominant shares do."""
        return self.floor.memory.units(self.target(task), task.workers).order

    def _spare(self, over: list[PassJob]) -> list[int]:
        """Return an upper bound on the units that become free if all of these shrink to their targets, R numbers."""
        spare = self.floor.held_by(over)
        for other in over:
            target = self.target(other)
            for r, units in self.floor.memory.units(target, target.count).least:
                spare[r] -= units
        return spare

    def _start(self, task: PassJob, over: list[PassJob]) -> bool:
        """Do step 2 for one waiting job; return whether it runs now."""
        floor, shrunk = self.floor, []
        started = floor.start(task, self.target(task))
        for other in over:
            if started:
                break
            before = floor.stop(other)
            if floor.start(other, self.target(other)):
                shrunk.append((other, before))
                started = floor.start(task, self.target(task))
            else:
                floor.resume(other, before)
        started = started or any(floor.start(task, gang) for gang in _fewer(self.target(task)))
        for other, before in reversed(shrunk):
            after = floor.stop(other)
            floor.resume(other, before if not started or floor.has_room(before.hold) else after)
        return started

    def _grow(self, task: PassJob) -> None:
        """Do step 3 for one job that has less than its share."""
        floor, gang, current = self.floor, self.target(task), task.workers
        if not floor.may_fit(gang, floor.total(task), count=current + 1):
            return
        before = floor.stop(task)
        grown = any(floor.start(task, more) for more in _fewer(gang, above=current))
        if (
            grown
            and task.completion is not None
            and before.completion is not None
            and task.completion < before.completion
        ):
            return
        if grown:
            floor.stop(task)
        floor.resume(task, before)


def _in_time(floor: PassState, task: PassJob, gang: Gang, count: int) -> Gang:
    """Return the gang of `count` workers, or of the fewest more that complete the job within the horizon."""
    target = replace(gang, count=count)
    if target.duration(task.left, spread=True) + task.lost() <= floor.slots:
        return target
    empty = FreeCapacity(floor.inventory, now=floor.now, slots=floor.slots)
    usable = np.ones(len(floor.inventory.servers), dtype=np.bool_)
    more = (replace(target, count=count) for count in range(target.count, target.bid.chunks + 1))
    enough = (gang for gang in more if find_place(gang, empty, task.left, usable=usable, lost=task.lost()) is not None)
    return next(enough, target)


def _fewer(gang: Gang, *, above: int = 0) -> Iterable[Gang]:
    """Yield the gang with one worker less each time, while it has more than `above` workers."""
    return (replace(gang, count=count) for count in range(gang.count, above, -1))
