"""Dorm: the cluster is re-divided when jobs arrive or end, to maximise utilisation with fairness and few changes."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, islice
from math import ceil

import numpy as np

from scheduling.book.state import Cause
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import parameter
from scheduling.model.progress import Machines
from scheduling.model.schedule import Role
from scheduling.model.types import Ints
from scheduling.policies.baselines.base import Baseline
from scheduling.policies.baselines.capacity import FreeCapacity
from scheduling.policies.baselines.dorm_program import Limits, Share, ShareRequest, divide, pss_for
from scheduling.policies.baselines.gang import Gang, ideal_gang, room_for
from scheduling.policies.baselines.pass_job import PassJob, Stopped
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.shares import fair_counts

GAP = 0.05
"""Share of its objective by which the program's answer may be off: to prove the last percents takes minutes."""


@dataclass(frozen=True)
class Dorm(Baseline):
    """An integer program gives workers and PSs to all jobs at once, at every arrival and completion.

    At every event (an arrival; a completion, cancellation or failure; a change of servers or policy) the program
    `dorm_program.divide` is solved, to a proven twentieth (GAP), over the jobs that run and the first `considered`
    that wait and could use some server now, in order of arrival. In a large program the linear relaxation chooses who
    may be adjusted, and the rest is proven. Types are ideal (`gang.ideal_gang`); workers and PSs may be on any servers,
    b / B PSs for each worker, rounded up, also where they are side by side.

    - *Counts*: a job starts, or is adjusted, only with a number of workers that completes it within the horizon on
      different servers (`workers_in_time`). A job that no number completes is rejected; one that has none later,
      as servers changed, waits.
    - *Fair share*: workers by progressive filling (`shares.fair_counts`) over these jobs, without what bound jobs hold,
      or the next larger of these counts, or the largest.
    - *Unfairness*, the sum of the distances from the fair shares, is at most `unfairness` x 2 x number of resources.
    - Who holds a server that takes no new work stays there, and who holds machines that a bound job has later.
    - *Adjustments*: at most ceil(`adjustments` x running jobs) of the jobs that run change machines. Who is adjusted
      does nothing in the next slot. Nobody is stopped entirely; who would be late for the horizon with as many workers
      as now on other machines is not adjusted, nor who holds other types or another number of PSs (another policy
      gave it those, or servers changed).

    A job whose new machines, all of them, have room on one server beside the others' moves there, to the one with the
    least left (the share of the cluster, summed over resources; the first of equals). What holds machines before a
    bound job's begin does not use those either. When only a slot passes, and an upload is over, jobs start, and none is
    adjusted. Of divisions that are equally good HiGHS chooses, the same each time.

    References
    ----------
    OASiS, Section V.A (iv); Sun, Wen, Ta, Yan, Towards distributed machine learning in shared clusters: a
    dynamically-partitioned approach, SMARTCOMP 2017. There every job has a least number of containers at once; here
    jobs may wait, as more come than fit. Workers and PSs are containers of one kind there.
    """

    unfairness: float = parameter(0.1, "Limit of unfairness, as a share of the most there can be.", low=0.0, high=1.0)
    adjustments: float = parameter(0.1, "Share of the running jobs that an event may adjust.", low=0.0, high=1.0)
    considered: int = parameter(20, "Jobs in line that the program looks at.", low=1, high=1000)

    name = "dorm"
    title = "Dorm: machines divided again for the most utilisation within limits of unfairness and change, nobody pays"
    machines = "machines of its ideal types on different servers"
    pause = 1

    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        """Divide the cluster, and give jobs the machines that are new."""
        only_starts = cause is Cause.SLOT
        if only_starts and not any(_can_use_some(task, floor) for task in floor.uploading()):
            return
        running = [
            (task, gang, _counts(task, gang, floor))
            for task in floor.running_now()
            if (gang := floor.memory.ideal_gang(task.job.bid)) is not None
        ]
        # A job is looked at only until enough are found, as there may be thousands.
        waiting = (task for task in floor.in_line() if _can_use_some(task, floor))
        soonest = next(waiting, None)
        if soonest is None and all(task.workers == gang.bid.chunks for task, gang, _ in running):
            return
        new = chain([] if soonest is None else [soonest], waiting)
        ganged = ((task, floor.memory.ideal_gang(task.job.bid)) for task in new)
        able = ((task, gang, counts) for task, gang in ganged if gang and (counts := _counts(task, gang, floor)))
        chosen = sorted([*running, *islice(able, self.considered)], key=lambda row: floor.turn(row[0].job))
        requests = _requests(chosen, floor, only_starts=only_starts)
        movable = [
            task for (task, _, _), request in zip(chosen, requests, strict=True) if request.held and not request.fixed
        ]
        held = {task: floor.stop(task) for task in movable}
        crowded = _crowded(requests, floor)
        for i, (task, _, _) in enumerate(chosen):
            share = requests[i].held
            if task in held and share is not None and (share.workers + share.pss)[crowded].any():
                floor.resume(task, held.pop(task))
                requests[i] = replace(requests[i], fixed=True)
        free = floor.room.free(floor.slots)
        limits = Limits(
            unfairness=self.unfairness * 2 * len(floor.inventory.resources),
            adjustments=ceil(Fraction(self.adjustments) * sum(task.running or task in held for task, _, _ in chosen)),
        )
        shares = divide(requests, floor.inventory, free, limits, gap=GAP)
        _give(
            floor,
            [(task, request, share) for (task, _, _), request, share in zip(chosen, requests, shares, strict=True)],
            held,
        )

    def can_run(self, bid: Bid, floor: PassState) -> bool:
        """Whether the program would run the job on the empty cluster."""
        gang = ideal_gang(bid, floor.inventory, 1)
        counts = () if gang is None else workers_in_time(gang, Fraction(bid.work), floor.slots)
        if gang is None or not counts:
            return False
        if any(_fits_simply(replace(gang, count=least), floor.inventory) for least in (some[0] for some in counts)):
            return True
        everywhere = np.ones(len(floor.inventory.servers), dtype=np.bool_)
        alone = ShareRequest(gang, counts=counts, target=counts[0][0], usable=everywhere)
        empty = FreeCapacity(floor.inventory, now=0, slots=floor.slots).free(floor.slots)
        return divide([alone], floor.inventory, empty, Limits(0.0, 0)) != [None]


def workers_in_time(gang: Gang, left: Fraction, slots: int) -> tuple[range, ...]:
    """Return the numbers of workers that complete `left` mini-batches in `slots` slots on different servers, as ranges.

    Notes
    -----
    N workers of a ring need v / N + c (N - 1) / N^2 for a mini-batch, c being what they wait for one another: that
    falls from N = 2 on, but where c > 2 v two need longer than one. So one worker may be enough where two are not.
    """

    def in_time(count: int) -> bool:
        return replace(gang, count=count).duration(left, spread=True) <= slots

    several = range(2, gang.bid.chunks + 1)
    several = several[bisect_left(several, True, key=in_time) :]
    if not in_time(1):
        return (several,) if several else ()
    if not several:
        return (range(1, 2),)
    return (range(1, several.stop),) if several.start == 2 else (range(1, 2), several)


def _can_use_some(task: PassJob, floor: PassState) -> bool:
    """Whether a waiting job could use some server now, if machines there were free."""
    return not task.running and bool(task.usable.any()) and floor.memory.ideal_gang(task.job.bid) is not None


def _counts(task: PassJob, gang: Gang, floor: PassState) -> tuple[range, ...]:
    """Return `workers_in_time` for a job that starts or moves now."""
    lost = floor.pause if task.first < floor.now else 0
    return workers_in_time(gang, task.left, floor.slots - lost)


def _requests(
    chosen: list[tuple[PassJob, Gang, tuple[range, ...]]], floor: PassState, *, only_starts: bool
) -> list[ShareRequest]:
    fair = fair_counts([gang for _, gang, _ in chosen], floor.inventory, floor.shared_out())
    requests = []
    for (task, gang, counts), share in zip(chosen, fair, strict=True):
        held = _held(task, floor) if task.running else None
        requests.append(
            ShareRequest(
                gang,
                counts=counts,
                target=_target(share, counts),
                usable=task.usable,
                held=held,
                fixed=held is not None
                and (
                    only_starts
                    or _holds_closing_server(task, floor)
                    or not _may_move(task, gang, held, counts, floor.inventory)
                ),
            )
        )
    return requests


def _holds_closing_server(task: PassJob, floor: PassState) -> bool:
    """Whether a server that the job holds closes within the planned slots, so that none of it is free."""
    end = floor.now + floor.slots
    return any(floor.room.closed.get(p.server, end) < end for p in task.hold.placements)


def _crowded(requests: list[ShareRequest], floor: PassState) -> Ints:
    """Return the servers on which the stopped jobs do not fit for all planned slots as they were.

    They end there before a bound job begins that has these machines later, so they keep what they held.
    """
    free, inventory = floor.room.free(floor.slots), floor.inventory
    for request in requests:
        if request.held is not None and not request.fixed:
            free -= request.held.workers[:, None] * inventory.worker_demand[request.gang.worker]
            if request.gang.ps is not None:
                free -= request.held.pss[:, None] * inventory.ps_demand[request.gang.ps]
    return np.flatnonzero((free < 0).any(axis=1))


def _may_move(task: PassJob, gang: Gang, held: Share, counts: tuple[range, ...], inventory: Inventory) -> bool:
    """Whether the program could have given the job its machines, and the job could move elsewhere in time."""
    types = {Role.WORKER: gang.worker, Role.PS: gang.ps}
    ideal = all(p.type == types[p.role] for p in task.held)
    served = int(held.pss.sum()) == pss_for(gang, held.count, inventory)
    return ideal and served and any(held.count in some for some in counts)


def _target(share: int, counts: tuple[range, ...]) -> int:
    """Return the fair share, or the next larger number that completes the job in time, or the largest."""
    larger = (max(share, some[0]) for some in counts if some[-1] >= share)
    return next(larger, counts[-1][-1] if counts else max(1, share))


def _fits_simply(gang: Gang, inventory: Inventory) -> bool:
    """Whether the gang fits the empty cluster with all its PSs on one server: a cheap check that usually succeeds."""
    pss, demand = pss_for(gang, gang.count, inventory), inventory.worker_demand[gang.worker]
    room = room_for(inventory.capacity, demand)
    if gang.ps is None:
        return int(room.sum()) >= gang.count
    rest = inventory.capacity - pss * inventory.ps_demand[gang.ps]
    hosts = (rest >= 0).all(axis=1)
    return bool((hosts & (room.sum() - room + room_for(rest, demand) >= gang.count)).any())


def _held(task: PassJob, floor: PassState) -> Share:
    share = Share(*(np.zeros(len(floor.inventory.servers), dtype=np.int64) for _ in range(2)))
    for p in task.held:
        (share.workers if p.role is Role.WORKER else share.pss)[p.server] += p.count
    return share


def _give(
    floor: PassState, rows: list[tuple[PassJob, ShareRequest, Share | None]], held: dict[PassJob, Stopped]
) -> None:
    """Place jobs as the program decided, then move newly placed jobs to one server if their machines fit one."""
    new = []
    for task, request, share in rows:
        if share is not None and share is request.held:
            if task in held:
                floor.resume(task, held[task])
        elif share is not None:
            gang = replace(request.gang, count=share.count)
            floor.put(task, _machines(share, gang), gang)
            new.append((task, request, gang, share))
    for task, request, gang, share in new:
        before = floor.stop(task)
        server = _one_server(floor, request, gang, int(share.pss.sum()))
        if server is None:
            floor.resume(task, before)
        else:
            floor.put(task, _machines_on(server, gang, int(share.pss.sum())), gang)


def _one_server(floor: PassState, request: ShareRequest, gang: Gang, pss: int) -> int | None:
    """Return the usable server with the least free capacity that has room for all machines."""
    inventory = floor.inventory
    need = gang.count * inventory.worker_demand[gang.worker]
    if gang.ps is not None:
        need = need + pss * inventory.ps_demand[gang.ps]
    free = floor.room.free(floor.slots)
    fitting = np.flatnonzero((free >= need).all(axis=1) & request.usable)
    if not len(fitting):
        return None
    left = (free[fitting] / np.maximum(1, inventory.capacity.sum(axis=0))).sum(axis=1)
    return int(fitting[left.argmin()])


def _machines(share: Share, gang: Gang) -> Machines:
    rows = [(Role.WORKER, s, gang.worker, n) for s, n in enumerate(share.workers.tolist()) if n]
    if gang.ps is not None:
        rows += [(Role.PS, s, gang.ps, n) for s, n in enumerate(share.pss.tolist()) if n]
    return tuple(sorted(rows))


def _machines_on(server: int, gang: Gang, pss: int) -> Machines:
    rows = [(Role.WORKER, server, gang.worker, gang.count)]
    if gang.ps is not None:
        rows.append((Role.PS, server, gang.ps, pss))
    return tuple(sorted(rows))
