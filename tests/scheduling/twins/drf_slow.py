"""DRF by its rules, with every job looked at in each of them, at every event."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from scheduling.book.state import Cause
from scheduling.policies.baselines.capacity import FreeCapacity
from scheduling.policies.baselines.drf import Drf
from scheduling.policies.baselines.gang import Gang, find_place, ideal_gang
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.shares import demand_of, dominant_share, fair_counts

Wanted = dict[PassJob, Gang]


@dataclass(frozen=True)
class SlowDrf(Drf):
    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        rows = ((task, ideal_gang(task.job.bid, floor.inventory, 1)) for task in floor.in_order)
        gangs = {task: gang for task, gang in rows if gang is not None}
        capacity = np.array(floor.room.idle, dtype=np.int64) + floor.held_by(
            task for task in floor.tasks if task.running
        )
        counts = fair_counts(list(gangs.values()), floor.inventory, capacity)
        wanted = {
            task: _in_time(floor, task, replace(gang, count=max(1, count)))
            for (task, gang), count in zip(gangs.items(), counts, strict=True)
        }
        for task in [task for task in wanted if not task.running]:
            _start(floor, task, wanted, [] if cause is Cause.SLOT else _above(floor, wanted))
        if cause is not Cause.SLOT:
            below = [task for task in wanted if task.running and task.workers < wanted[task].count]
            for task in sorted(below, key=lambda task: _share(floor, task, wanted)):
                _grow(floor, task, wanted[task])


def _in_time(floor: PassState, task: PassJob, target: Gang) -> Gang:
    if target.duration(task.left, spread=True) + task.lost() <= floor.slots:
        return target
    empty = FreeCapacity(floor.inventory, now=floor.now, slots=floor.slots)
    usable = np.ones(len(floor.inventory.servers), dtype=np.bool_)
    more = (replace(target, count=count) for count in range(target.count, target.bid.chunks + 1))
    enough = (gang for gang in more if find_place(gang, empty, task.left, usable=usable, lost=task.lost()) is not None)
    return next(enough, target)


def _share(floor: PassState, task: PassJob, wanted: Wanted) -> Fraction:
    return dominant_share(demand_of(wanted[task], task.workers, floor.inventory), floor.inventory.total)


def _fewer(gang: Gang, *, above: int = 0) -> Iterable[Gang]:
    return (replace(gang, count=count) for count in range(gang.count, above, -1))


def _above(floor: PassState, wanted: Wanted) -> list[PassJob]:
    over = [other for other in wanted if other.running and other.workers > wanted[other].count]
    return sorted(over, key=lambda other: -_share(floor, other, wanted))


def _start(floor: PassState, task: PassJob, wanted: Wanted, over: list[PassJob]) -> None:
    shrunk = []
    started = floor.start(task, wanted[task])
    for other in over:
        if started:
            break
        before = floor.stop(other)
        if floor.start(other, wanted[other]):
            shrunk.append((other, before))
            started = floor.start(task, wanted[task])
        else:
            floor.resume(other, before)
    started = started or any(floor.start(task, gang) for gang in _fewer(wanted[task]))
    for other, before in reversed(shrunk):
        after = floor.stop(other)
        floor.resume(other, before if not started or floor.has_room(before.hold) else after)


def _grow(floor: PassState, task: PassJob, gang: Gang) -> None:
    current, before = task.workers, floor.stop(task)
    for more in _fewer(gang, above=current):
        if floor.start(task, more):
            sooner = task.completion is not None and before.completion is not None
            if sooner and (task.completion or 0) < (before.completion or 0):
                return
            floor.stop(task)
            break
    floor.resume(task, before)
