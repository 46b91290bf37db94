"""Fluid relaxation: time and jobs are divisible (`best_response.divided`), and all servers are one."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.best_response.divided.kernel import ENOUGH, Modes
from scheduling.best_response.divided.modes import EVER, Mode, Rooms, best_modes, list_modes
from scheduling.best_response.elastic.type_pairs import type_pairs
from scheduling.best_response.rigid.index import value_by_slot
from scheduling.model.bid import Architecture, Bid
from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints
from scheduling.offline.hull import hull_vertices
from scheduling.offline.problem import Covers, OfflineProblem
from scheduling.offline.rounding_cuts import ResourcesAndCuts
from scheduling.policies.base import Objective


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
    resources = ResourcesAndCuts(problem.inventory)
    rooms = Rooms(problem.inventory, worker_use=resources.worker, ps_use=resources.ps)
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
            use=np.array([mode.use for _, mode in flat]).reshape(len(flat), rooms.worker_use.shape[1]),
            first=np.array([max(0, bid.arrival + m.delay - problem.start) for bid, m in flat], dtype=np.int64),
        ),
        value_at=value_at.reshape(len(problem.bids), problem.slots + 2),
        supply=_supply(problem, rooms, resources, hosts),
    )


def _supply(problem: OfflineProblem, rooms: Rooms, resources: ResourcesAndCuts, hosts: Ints) -> Floats:
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
    return resources.supply(problem.free() * ((slots >= first) & there[:, None]))


def _value_at(problem: OfflineProblem, bid: Bid, modes: list[Mode], rooms: Rooms) -> Floats:
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


def _earliest(problem: OfflineProblem, bid: Bid, rooms: Rooms) -> int:
    """No completion is earlier, whatever the types: the shortest delay, and the fastest workers with any PSs."""
    count = np.minimum(bid.chunks, rooms.worker.sum(axis=0))
    update = min(map(float, bid.ps_time), default=0.0) if bid.architecture is Architecture.PS else 0.0
    each = np.array([float(time) for time in bid.worker_time]) + update
    one = np.divide(each, count, out=np.full(len(each), np.inf), where=count > 0)
    hosts = np.array(bid.delay)[(rooms.worker > 0).any(axis=1)]
    first = max(problem.start, bid.arrival + int(hosts.min(initial=EVER)))
    return first + max(1, math.ceil(ENOUGH * bid.work * float(one.min(initial=EVER))))


def _modes(bid: Bid, problem: OfflineProblem, rooms: Rooms) -> list[Mode]:
    """Return the modes of the types that can complete the job by the end, or of all types if none can.

    A job that is stopped may do a part of its work with types with which it could not be complete by the end, so that
    `any` has all types. The list is empty if no completion after the end is allowed and the job may be rejected.
    """
    if problem.covers is Covers.ANY:
        return list_modes(bid, rooms)
    for slots in (problem.slots, EVER) if problem.open_end or not problem.most else (problem.slots,):
        if problem.covers is Covers.ELASTIC:
            found = list(_elastic(bid, problem, rooms, slots))
        else:
            found = list_modes(bid, rooms, slots=slots, rigid=problem.covers is Covers.RIGID)
        if found:
            break
    return found


def _elastic(bid: Bid, problem: OfflineProblem, rooms: Rooms, slots: int) -> Iterator[Mode]:
    """Constraints (2), (3), (6), (7) of the OASiS paper: whole workers with whole parameter servers for them."""
    delay = np.array(bid.delay)
    for way in type_pairs(bid, problem.inventory, slots=slots):
        ratio = way.worker.bandwidth_mbps / way.ps.bandwidth_mbps
        there, beside = rooms.worker[:, way.worker_type], rooms.ps[:, way.ps_type]
        for first in np.unique(delay).tolist():
            most = min(int(there[delay <= first].sum()), int(int(beside[delay <= first].sum()) / ratio))
            for count, pss in hull_vertices(ratio, min(bid.chunks, most))[1:]:
                use = count * rooms.worker_use[way.worker_type] + pss * rooms.ps_use[way.ps_type]
                yield Mode(count / way.worker_slots, tuple(use.tolist()), first)
