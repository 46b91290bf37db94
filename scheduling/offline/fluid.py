"""Fluid relaxation: time and jobs are divisible, and all servers are one.

Each job has *modes*: use of one pair of machine types, together on one server or spread. In any slot a job divides
its time among modes. That is a relaxation of every schedule in which a job holds machines of one worker type and one
PS type at a time, at most one worker for each chunk: what it holds in a slot, and what it gets done, is a mean over
the moments of the slot, each of which lies below the line from nothing to full use of a mode.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.best_response.elastic.type_pairs import type_pairs
from scheduling.best_response.rigid.index import value_by_slot
from scheduling.model.bid import Architecture, Bid
from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints
from scheduling.offline.fluid_kernel import ENOUGH, Modes
from scheduling.offline.hull import hull_vertices
from scheduling.offline.problem import Covers, OfflineProblem
from scheduling.offline.rounding_cuts import ResourcesAndCuts
from scheduling.policies.base import Objective
from scheduling.preemptive.workers import machines

EVER = 10**9
"""Slots."""
NO_TIME = 1e6
"""Speed of a job whose mini-batches take no time."""


@dataclass(frozen=True)
class Mode:
    """Full use of some machines."""

    speed: float
    """Share of the job's work that is done in a slot."""
    use: tuple[float, ...]
    """Use of each resource and rounding cut, G numbers."""
    delay: int
    """Slots from arrival to the first."""


@dataclass(frozen=True)
class Fluid:
    """A problem in arrays: J jobs, T slots, G resources and rounding cuts of all servers."""

    problem: OfflineProblem
    modes: Modes
    value_at: Floats
    """Value of completion at slot 0..T and later, J x (T + 2); minus infinity where it is impossible.

    More is better: if the objective is minimised, values are negative.
    """
    supply: Floats
    """ResourcesAndCuts of all servers that can host a machine, T x G."""

    @property
    def willing(self) -> bool:
        """Whether a job may be rejected."""
        return self.problem.most

    def total(self, value: float) -> float:
        """Convert a sum of values to a value of the objective."""
        return value if self.problem.most else -value


def make_fluid(problem: OfflineProblem) -> Fluid:
    """Build the relaxation of a problem.

    Raises
    ------
    InvalidField
        If a job has to run and no server can host it.
    """
    rooms = _Rooms(problem)
    lists = [best_modes(_modes(bid, problem, rooms)) for bid in problem.bids]
    for i, (bid, modes) in enumerate(zip(problem.bids, lists, strict=True)):
        if not modes and not problem.most:
            raise InvalidField(f"bids[{i}]", f"expected a job that some server can host, got job {bid.id}")
    flat = [(bid, mode) for bid, modes in zip(problem.bids, lists, strict=True) for mode in modes]
    hosts = np.flatnonzero((rooms.worker > 0).any(axis=1) | (rooms.ps > 0).any(axis=1))
    value_at = np.array([_value_at(problem, *row, rooms) for row in zip(problem.bids, lists, strict=True)])
    return Fluid(
        problem=problem,
        modes=Modes(
            begin=np.cumsum([0, *map(len, lists)]).astype(np.int64),
            speed=np.array([mode.speed for _, mode in flat], dtype=np.float64),
            use=np.array([mode.use for _, mode in flat]).reshape(len(flat), rooms.resources.worker.shape[1]),
            first=np.array([max(0, bid.arrival + m.delay - problem.start) for bid, m in flat], dtype=np.int64),
        ),
        value_at=value_at.reshape(len(problem.bids), problem.slots + 2),
        supply=_supply(problem, rooms, hosts),
    )


class _Rooms:
    """Machines that each empty server has room for, types looked at one by one; and what machines take."""

    def __init__(self, problem: OfflineProblem) -> None:
        inventory = problem.inventory
        self.worker = machines(inventory.capacity, inventory.worker_demand)
        self.ps = machines(inventory.capacity, inventory.ps_demand)
        self.resources = ResourcesAndCuts(inventory)
        self.cloud = np.array(inventory.cloud, dtype=np.bool_)


def _supply(problem: OfflineProblem, rooms: _Rooms, hosts: Ints) -> Floats:
    """ResourcesAndCuts of servers that can host a machine, from when the first job may use each.

    PSs of chunks in queues wait for no upload: what they take is there from the first arrival on.
    """
    inventory, slots = problem.inventory, np.arange(problem.start, problem.end)[:, None, None]
    there = np.zeros(len(inventory.servers), dtype=np.bool_)
    there[hosts] = True
    ready = np.array([bid.arrival + np.array(bid.delay) for bid in problem.bids]).reshape(-1, len(there))
    first = np.broadcast_to(ready.min(axis=0, initial=problem.end)[:, None], inventory.capacity.shape)
    if problem.covers is Covers.ANY:
        takes = (rooms.ps > 0) @ (inventory.ps_demand > 0)
        first = np.where(takes, min((bid.arrival for bid in problem.bids), default=problem.end), first)
    return rooms.resources.supply(problem.free() * ((slots >= first) & there[:, None]))


def _value_at(problem: OfflineProblem, bid: Bid, modes: list[Mode], rooms: _Rooms) -> Floats:
    """Minus infinity where it cannot be complete, even alone."""
    value_at = np.full(problem.slots + 2, -np.inf)
    if not modes:
        return value_at
    later = max(problem.end + 1, _earliest(problem, bid, rooms))
    if problem.most:
        value_at[:-1] = value_by_slot(bid, problem.start, problem.slots)
        last = bid.utility.at(later - bid.arrival)
    else:
        weighted = problem.objective is Objective.WEIGHTED_COMPLETION
        weight, since = (bid.utility.value, 0) if weighted else (1.0, bid.arrival)
        value_at[:-1] = -weight * (np.arange(problem.start, problem.end + 1) - since)
        last = -weight * (later - since)
    if problem.open_end:
        value_at[-1] = last
    return value_at


def _earliest(problem: OfflineProblem, bid: Bid, rooms: _Rooms) -> int:
    """No completion is earlier, whatever the types: the shortest delay, and the fastest workers with any PSs."""
    count = np.minimum(bid.chunks, rooms.worker.sum(axis=0))
    update = min(map(float, bid.ps_time), default=0.0) if bid.architecture is Architecture.PS else 0.0
    each = np.array([float(time) for time in bid.worker_time]) + update
    one = np.divide(each, count, out=np.full(len(each), np.inf), where=count > 0)
    hosts = np.array(bid.delay)[(rooms.worker > 0).any(axis=1)]
    first = max(problem.start, bid.arrival + int(hosts.min(initial=EVER)))
    return first + max(1, math.ceil(ENOUGH * bid.work * float(one.min(initial=EVER))))


def best_modes(modes: Iterable[Mode]) -> list[Mode]:
    """Those of which no other is always as good: a part of it that does as much takes no more, and begins no later."""
    ordered = sorted(modes, key=lambda m: (-m.speed, m.use, m.delay))
    speed, delay = np.array([mode.speed for mode in ordered]), np.array([mode.delay for mode in ordered])
    use = np.array([mode.use for mode in ordered])
    kept = 0
    for i, mode in enumerate(ordered):
        # Those kept are the first of all lists, and all are as fast or faster.
        part = np.where(speed[:kept] == speed[i], 1.0, speed[i] / speed[:kept])
        as_good = (part[:, None] * use[:kept] <= use[i]).all(axis=1) & (delay[:kept] <= delay[i])
        if not as_good.any():
            ordered[kept], speed[kept], delay[kept], use[kept] = mode, speed[i], delay[i], use[i]
            kept += 1
    return ordered[:kept]


def _modes(bid: Bid, problem: OfflineProblem, rooms: _Rooms) -> list[Mode]:
    """Return the modes of the types that can complete the job by the end, or of all types if none can.

    The list is empty if no completion after the end is allowed and the job may be rejected.
    """
    for slots in (problem.slots, EVER) if problem.open_end or not problem.most else (problem.slots,):
        if problem.covers is Covers.ELASTIC:
            found = list(_elastic(bid, problem, rooms, slots))
        elif bid.architecture is Architecture.RING:
            found = list(_rings(bid, problem, rooms, slots))
        else:
            found = list(_with_pss(bid, problem, rooms, slots))
        if found:
            break
    return found


def _able(bid: Bid, times: Iterable[Fraction], slots: int) -> list[tuple[int, Fraction]]:
    """Return types with which this number of slots of D workers can suffice, for this part of a mini-batch alone."""
    most = bid.chunks * slots
    return [(i, time) for i, time in enumerate(times) if bid.work * time.numerator <= most * time.denominator]


def _elastic(bid: Bid, problem: OfflineProblem, rooms: _Rooms, slots: int) -> Iterator[Mode]:
    """Constraints (2), (3), (6), (7) of the OASiS paper: whole workers with whole parameter servers for them."""
    delay = np.array(bid.delay)
    for way in type_pairs(bid, problem.inventory, slots=slots):
        ratio = way.worker.bandwidth_mbps / way.ps.bandwidth_mbps
        there, beside = rooms.worker[:, way.worker_type], rooms.ps[:, way.ps_type]
        for first in np.unique(delay).tolist():
            most = min(int(there[delay <= first].sum()), int(int(beside[delay <= first].sum()) / ratio))
            for count, pss in hull_vertices(ratio, min(bid.chunks, most))[1:]:
                use = count * rooms.resources.worker[way.worker_type] + pss * rooms.resources.ps[way.ps_type]
                yield Mode(count / way.worker_slots, tuple(use.tolist()), first)


def _with_pss(bid: Bid, problem: OfflineProblem, rooms: _Rooms, slots: int) -> Iterator[Mode]:
    """One PS is enough together, and in the mean of n workers there is one for each N of them at least.

    Rigid jobs have PSs for all workers that are not beside one. In a cloud PSs are not counted for any others: chunks
    in queues have as many there as they want.
    """
    inventory, delay, able = problem.inventory, np.array(bid.delay), _able(bid, bid.worker_time, slots)
    rigid = problem.covers is Covers.RIGID
    for p, update in _able(bid, bid.ps_time, slots):
        beside = (rooms.ps[:, p] > 0) | (rooms.cloud & (not rigid))
        if not (rooms.ps[:, p] > 0).any():
            continue
        ps = rooms.resources.ps[p] if rigid or not rooms.cloud.any() else 0 * rooms.resources.ps[p]
        for w, step in able:
            room, demand = rooms.worker[:, w], rooms.resources.worker[w]
            fits = (inventory.capacity >= inventory.worker_demand[w] + inventory.ps_demand[p]).all(axis=1)
            one = np.where(beside & (fits | rooms.cloud), room, 0)
            served = float(inventory.parameter_servers[p].bandwidth_mbps / inventory.workers[w].bandwidth_mbps)
            for first, most, in_all in _rooms_by(delay, one, room):
                if most:
                    count = min(bid.chunks, most)
                    yield _mode(bid, count, step + update, count * demand + ps, first)
                count = min(bid.chunks, in_all)
                pss = max(1.0, count / (int(room.max()) + served)) if rigid else 1.0
                yield _mode(bid, count, step + update + bid.transfer_time[w], count * demand + pss * ps, first)


def _rings(bid: Bid, problem: OfflineProblem, rooms: _Rooms, slots: int) -> Iterator[Mode]:
    """One worker, and as many as there can be: what others do lies below the line between these two.

    n workers do n^2 / (a n - c) mini-batches in a slot, a = v + c, c = reduction and transfer of one (weighted
    completion, eq. 14), which is convex in n from 1 on.
    """
    delay = np.array(bid.delay)
    for w, step in _able(bid, bid.worker_time, slots):
        room, demand = rooms.worker[:, w], rooms.resources.worker[w]
        for first, most, in_all in _rooms_by(delay, room, room):
            yield _mode(bid, 1, step, demand, first)
            for count, transfer in ((most, Fraction(0)), (in_all, bid.transfer_time[w])):
                n = min(bid.chunks, count)
                exchange = (bid.reduce_time + transfer) * Fraction(n - 1, n)
                yield _mode(bid, n, step + exchange, n * demand, first)


def _rooms_by(delay: Ints, one: Ints, room: Ints) -> Iterator[tuple[int, int, int]]:
    """After each delay that changes it: most workers on one server, and on all of them."""
    before = (0, 0)
    for first in np.unique(delay[room > 0]).tolist():
        now = (int(one[delay <= first].max(initial=0)), int(room[delay <= first].sum()))
        if now != before:
            before = now
            yield (first, *now)


def _mode(bid: Bid, count: int, step: Fraction, use: Ints | Floats, delay: int) -> Mode:
    if step == 0:
        return Mode(NO_TIME, (0.0,) * len(use), delay)
    return Mode(float(count / (step * bid.work)), tuple(float(x) for x in use), delay)
