"""Dominant resource fairness, placed: whole workers on real servers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, lcm
from operator import le, sub

import numpy as np

from scheduling.arrays import Ints
from scheduling.baselines.baseline import Baseline
from scheduling.baselines.floor import Floor
from scheduling.baselines.gang import Gang, find_place, ideal_gang
from scheduling.baselines.room import Room
from scheduling.baselines.task import Task
from scheduling.bid import Bid
from scheduling.inventory import Inventory
from scheduling.policy import Cause


@dataclass(frozen=True)
class Drf(Baseline):
    """Every job runs with as many workers of its ideal types as its fair share, re-scaled at events.

    At every event (an arrival; a completion, cancellation or failure; a change of servers or policy):

    1. *Targets* (`fair_counts`): progressive filling of dominant shares, in whole workers with their PSs, as if the
       cluster were one server, without what bound jobs hold. A job that so few could not complete within the
       horizon has the fewest that could on the empty cluster instead: its share may be less for ever.
    2. Jobs that wait start, in order of arrival, with their target of workers (at least 1). Where there is no place
       (`gang.find_place`), running jobs above their target shrink to it (at least 1), the one with the greatest share
       first, until there is. If all of them would not do, the job starts with one worker less, and so on; if even one
       has no place it waits and none shrinks. Those that shrank for nothing have their machines back.
    3. Running jobs below their target grow, the one with the least share first: to the most workers up to the target
       for which there is a place, if it is then complete sooner than it would be.

    A job that shrinks or grows is placed anew, and does nothing in the first slot. No job is stopped entirely. When
    only a slot passes jobs that wait are started, and nothing else.

    References
    ----------
    Weighted completion, Section 7 (ii). Shrinking only for jobs that wait and growing only where it helps are ours:
    without them every event costs every job a slot.
    """

    name = "drf"
    title = "DRF: every job has its fair share of workers, re-scaled as jobs come and go, nobody pays"
    pause = 1

    def arrange(self, floor: Floor, cause: Cause | None) -> None:
        """Start jobs that wait at their fair share, and re-scale the others."""
        rows = ((task, floor.memory.ideal_gang(task.job.bid)) for task in floor.in_order)
        gangs = {task: gang for task, gang in rows if gang is not None}
        counts = fair_counts(list(gangs.values()), floor.inventory, shared_out(floor))
        wanted = {
            task: _in_time(floor, task, gang, max(1, count))
            for (task, gang), count in zip(gangs.items(), counts, strict=True)
        }
        self._start_all(floor, wanted, shrink=cause is not Cause.SLOT)
        if cause is not Cause.SLOT:
            below = [task for task in wanted if task.running and task.workers < wanted[task].count]
            for task in sorted(below, key=lambda task: _share(floor, task, wanted)):
                _grow(floor, task, wanted[task])

    def _start_all(self, floor: Floor, wanted: dict[Task, Gang], *, shrink: bool) -> None:
        """Step 2. Who could not have one worker even if all above their targets shrank is not looked at."""
        over = None
        for task in [task for task in wanted if not task.running]:
            if over is None:
                over = _above(floor, wanted) if shrink else []
                spare = _spare(floor, over, wanted)
            if floor.may_fit(wanted[task], spare, count=1) and _start(floor, task, wanted, over):
                over = None

    def can_run(self, bid: Bid, floor: Floor) -> bool:
        """Whether up to its target of workers alone could complete the job on the empty cluster."""
        gang = ideal_gang(bid, floor.inventory, 1)
        if gang is None:
            return False
        alone = max(1, fair_counts([gang], floor.inventory, floor.inventory.capacity.sum(axis=0))[0])
        empty = Room(floor.inventory, now=0, slots=floor.slots)
        usable = np.ones(len(floor.inventory.servers), dtype=np.bool_)
        gangs = _fewer(replace(gang, count=alone))
        return any(find_place(one, empty, Fraction(bid.work), usable=usable) is not None for one in gangs)


def fair_counts(gangs: list[Gang], inventory: Inventory, capacity: Ints) -> list[int]:
    """Workers of each job under progressive filling of dominant shares.

    The job with the least dominant share (the first of equals) takes one worker more, and the PSs that needs, again
    and again. One that has D workers, or for whose next worker there is no capacity left, takes no more.

    Parameters
    ----------
    gangs
        Their types; counts do not matter.
    capacity
        Of all servers together, R numbers.
    """
    counts = [0] * len(gangs)
    left: list[int] = capacity.tolist()
    least = [inventory.worker_demand[worker].tolist() for worker in {gang.worker for gang in gangs}]
    heap = [(0, j) for j in range(len(gangs))]  # sorted, so it is a heap
    known: dict[tuple[int, int | None, int], tuple[list[int], int]] = {}
    while heap and any(all(map(le, units, left)) for units in least):
        _, j = heappop(heap)
        gang, count = gangs[j], counts[j] + 1
        kind = (gang.worker, gang.ps, count)
        if kind not in known:
            more = demand_of(gang, count, inventory)
            known[kind] = (more - demand_of(gang, count - 1, inventory)).tolist(), _common_share(more, capacity)
        extra, share = known[kind]
        if count > gang.bid.chunks or not all(map(le, extra, left)):
            continue
        counts[j] = count
        left = [*map(sub, left, extra)]
        heappush(heap, (share, j))
    return counts


def _common_share(demand: Ints, capacity: Ints) -> int:
    """`dominant_share` times what makes all shares of this capacity whole numbers, which are quick to compare."""
    units = [max(1, int(most)) for most in capacity]
    whole = lcm(*units)
    return max(int(number) * (whole // most) for number, most in zip(demand, units, strict=True))


def demand_of(gang: Gang, count: int, inventory: Inventory) -> Ints:
    """What so many workers take with the PSs for all of them, R numbers."""
    demand: Ints = count * inventory.worker_demand[gang.worker]
    if gang.ps is not None and count:
        ratio = inventory.workers[gang.worker].bandwidth_mbps / inventory.pss[gang.ps].bandwidth_mbps
        demand = demand + ceil(count * ratio) * inventory.ps_demand[gang.ps]
    return demand


def dominant_share(demand: Ints, capacity: Ints) -> Fraction:
    """The greatest share of any resource's capacity, exact; what is not there counts as one unit."""
    return max(Fraction(int(d), max(1, int(c))) for d, c in zip(demand, capacity, strict=True))


def shared_out(floor: Floor) -> Ints:
    """What all servers have now without bound jobs, R numbers."""
    held = floor.held_by(task for task in floor.tasks if task.running)
    return np.array(floor.room.idle, dtype=np.int64) + held


def _in_time(floor: Floor, task: Task, gang: Gang, count: int) -> Gang:
    """The target of `count` workers, or the fewest workers more that complete the job within the horizon."""
    target = floor.memory.ideal_gang(task.job.bid, count) or replace(gang, count=count)
    if target.duration(task.left, spread=True) + task.lost() <= floor.slots:
        return target
    empty = Room(floor.inventory, now=floor.now, slots=floor.slots)
    usable = np.ones(len(floor.inventory.servers), dtype=np.bool_)
    more = (replace(target, count=count) for count in range(target.count, target.bid.chunks + 1))
    enough = (gang for gang in more if find_place(gang, empty, task.left, usable=usable, lost=task.lost()) is not None)
    return next(enough, target)


def _share(floor: Floor, task: Task, wanted: dict[Task, Gang]) -> Fraction:
    demand = demand_of(wanted[task], task.workers, floor.inventory)
    return dominant_share(demand, floor.inventory.total)


def _fewer(gang: Gang, *, above: int = 0) -> Iterable[Gang]:
    """The gang, and with one worker less each, as long as there are more than `above`."""
    return (replace(gang, count=count) for count in range(gang.count, above, -1))


def _above(floor: Floor, wanted: dict[Task, Gang]) -> list[Task]:
    """Jobs that run with more than their target, the one with the greatest share first."""
    over = [other for other in wanted if other.running and other.workers > wanted[other].count]
    return sorted(over, key=lambda other: -_share(floor, other, wanted))


def _spare(floor: Floor, over: list[Task], wanted: dict[Task, Gang]) -> list[int]:
    """Units that at most become free if all of these shrink to their targets, R numbers."""
    spare = floor.held_by(over)
    for other in over:
        for r, units in floor.memory.least_units(wanted[other], wanted[other].count):
            spare[r] -= units
    return spare


def _start(floor: Floor, task: Task, wanted: dict[Task, Gang], over: list[Task]) -> bool:
    """Step 2 for one job that waits; whether it runs now."""
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
    return started


def _grow(floor: Floor, task: Task, gang: Gang) -> None:
    """Step 3 for one job that has less than its share."""
    current = task.workers
    if not floor.may_fit(gang, floor.total(task), count=current + 1):
        return
    before = floor.stop(task)
    grown = any(floor.start(task, more) for more in _fewer(gang, above=current))
    if grown and task.completion is not None and before.completion is not None and task.completion < before.completion:
        return
    if grown:
        floor.stop(task)
    floor.resume(task, before)
