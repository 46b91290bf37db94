"""Lower bounds for schedules at the edge and in a cloud: the relaxation of ILP (4), solved by HiGHS."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField, SchedulingError
from scheduling.model.inventory import Inventory
from scheduling.preemptive.workers import TICKS, Workers


class TooLarge(SchedulingError):
    """The linear program has more unknowns than allowed."""


class NotSolved(SchedulingError):
    """The solver stopped before it reached an optimum."""


class Least(NamedTuple):
    """Lower bounds on the totals of every schedule, slots."""

    fractional: float
    jct: float


class _Way(NamedTuple):
    """A place where a job's chunks can be processed: on one of `room` like workers from `first` on, `each` slots.

    Servers with the same transfer times for every job are one place.
    """

    place: int
    first: float
    each: float
    room: int | None


def least(
    bids: Sequence[Bid],
    inventory: Inventory,
    *,
    step: float,
    ticks: int = TICKS,
    whole: bool = False,
    alone: bool = False,
    most: int | None = None,
    seconds: float | None = None,
) -> Least:
    """Compute lower bounds on the fractional flow and on the total time of jobs.

    ILP (4) relaxed: chunks may be split, a job has no more workers than chunks at once, the cloud is as fast as if
    every job were there alone. Work is charged at the beginning of its step, so a longer step gives a lower bound.

    Parameters
    ----------
    bids
        Jobs, all of which run; times are those of their ideal machines.
    step
        Slots; the unknowns are how much of each job is done in which step and where.
    ticks
        In a slot.
    whole
        All times are whole slots, so some best schedule changes only there, and half a slot is added.
    alone
        Without communication at the edge too, as in the paper's Section V.
    most, seconds
        Unknowns, and time for each of the two programs; no limit by default.

    Raises
    ------
    TooLarge, NotSolved
        If a limit is too small.
    InvalidField
        If a job has nowhere to run.

    References
    ----------
    Preemptive edge-cloud paper, problem (4). The second total is the first with half a chunk's time more for each
    chunk, in the mean of a job's chunks: a job is not complete before its last one.
    """
    workers = Workers(inventory, ticks)
    tasks = [workers.task(bid) for bid in bids]
    if None in tasks:
        i = tasks.index(None)
        raise InvalidField(f"bids[{i}]", f"expected a job that some server can host, got job {bids[i].id}")
    problems: list[tuple[list[Bid], list[list[_Way]], float]] = []
    for kind in sorted({task.worker for task in tasks if task is not None}):
        mine = [(bid, task) for bid, task in zip(bids, tasks, strict=True) if task is not None and task.worker == kind]
        jobs = [bid for bid, _ in mine]
        each = [((task.alone if alone else task.each) / ticks, task.alone / ticks) for _, task in mine]
        ways = _ways(jobs, each, workers, kind)
        problems.append((jobs, ways, _horizon(jobs, ways, step)))
    size = sum(len(_steps(way, step, end)) for _, ways, end in problems for of_job in ways for way in of_job)
    if most is not None and size > most:
        raise TooLarge(f"{size} unknowns, at most {most}")
    fractional, jct = (
        sum(_solve(jobs, ways, step, end, late=0.5 * whole, half=half, seconds=seconds) for jobs, ways, end in problems)
        for half in (0.0, 0.5)
    )
    return Least(fractional, jct)


def _ways(jobs: Sequence[Bid], each: Sequence[tuple[float, float]], workers: Workers, kind: int) -> list[list[_Way]]:
    """Return the places where each job can run; `each` is slots per chunk at the edge and in the cloud."""
    rooms: dict[tuple[bool, tuple[int, ...]], int] = defaultdict(int)
    for s in np.flatnonzero(workers.count[:, kind]).tolist():
        rooms[workers.inventory.cloud[s], tuple(bid.delay[s] for bid in jobs)] += int(workers.count[s, kind])
    return [
        [
            _Way(place, bid.arrival + delays[j], each[j][cloud], None if cloud else room)
            for place, ((cloud, delays), room) in enumerate(rooms.items())
        ]
        for j, bid in enumerate(jobs)
    ]


def _steps(way: _Way, step: float, end: float) -> range:
    """Return the steps with usable time; none if the data arrives after the end."""
    return range(int(way.first // step), int(end // step) + 1)


def _solve(
    jobs: Sequence[Bid],
    ways: Sequence[Sequence[_Way]],
    step: float,
    end: float,
    *,
    late: float,
    half: float,
    seconds: float | None,
) -> float:
    """Solve the transport problem: when and where each job is processed; all jobs use one worker type."""
    cost: list[float] = []
    limits: dict[tuple[str, int, int], tuple[int, float]] = {}
    at: list[tuple[int, int]] = []
    done: list[tuple[int, int, float]] = []
    for j, (bid, mine) in enumerate(zip(jobs, ways, strict=True)):
        for way in mine:
            for k in _steps(way, step, end):
                start = max(k * step, way.first)
                n = len(cost)
                cost.append(((start + late - bid.arrival) / way.each + half) / bid.chunks)
                done.append((j, n, 1.0 / way.each))
                at.append((limits.setdefault(("job", j, k), (len(limits), bid.chunks * step))[0], n))
                if way.room is not None:
                    at.append((limits.setdefault(("place", way.place, k), (len(limits), way.room * step))[0], n))
    rows, columns = zip(*at, strict=True)
    within = scipy.sparse.coo_array((np.ones(len(at)), (rows, columns)), shape=(len(limits), len(cost))).tocsr()
    owners, ways_of, speeds = zip(*done, strict=True)
    all_done = scipy.sparse.coo_array((speeds, (owners, ways_of)), shape=(len(jobs), len(cost))).tocsr()
    chunks = np.array([bid.chunks for bid in jobs], dtype=np.float64)
    result = scipy.optimize.milp(
        np.array(cost),
        constraints=[
            scipy.optimize.LinearConstraint(within, -np.inf, np.array([limit for _, limit in limits.values()])),
            scipy.optimize.LinearConstraint(all_done, chunks, chunks),
        ],
        options={} if seconds is None else {"time_limit": seconds},
    )
    if result.status != 0:
        raise NotSolved(str(result.message))
    return float(result.fun)


def _horizon(jobs: Sequence[Bid], ways: Sequence[Sequence[_Way]], step: float) -> float:
    """Return a time by which some optimal schedule ends: all jobs could be complete in the cloud, or at the edge.

    In the cloud nothing waits, and what is done later elsewhere is done sooner there. At the edge, once all data is
    uploaded, nothing waits beside an idle worker: what is not done has all its chunks on workers, or all workers are
    busy. The first lasts no longer than a chunk, the second no longer than all work does; a chunk more is what the
    cloud may be worth, where it is quicker.
    """
    ends = []
    clouds = [[way.first + way.each for way in mine if way.room is None] for mine in ways]
    if all(clouds):
        ends.append(max(min(done) for done in clouds))
    edge = [[way for way in mine if way.room is not None] for mine in ways]
    if all(edge):
        work = sum(bid.chunks * mine[0].each for bid, mine in zip(jobs, edge, strict=True))
        workers = sum(way.room or 0 for way in edge[0])
        every = [way for mine in edge for way in mine]
        ends.append(max(way.first for way in every) + 2 * max(way.each for way in every) + work / workers)
    return min(ends) + 2 * step
