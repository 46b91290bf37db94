"""The offline problem of jobs that hold the same machines over one window, as an integer program."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduling.best_response.rigid.durations import durations
from scheduling.model.bid import Architecture, Bid
from scheduling.model.types import Ints
from scheduling.offline.problem import OfflineProblem
from scheduling.offline.program import Cells, Program
from scheduling.offline.reduced_cost_fixing import Filter
from scheduling.offline.rounding_cuts import ResourcesAndCuts
from scheduling.policies.base import Objective
from scheduling.preemptive.workers import machines
from scheduling.solvers.milp import same_ceilings


class _Size(NamedTuple):
    """The fewest workers for a duration."""

    spread: bool
    worker: int
    ps: int | None
    number: int
    slots: int


def rigid_program(problem: OfflineProblem, most: int, fixing: Filter | None = None) -> Program:
    """Every rigid schedule of every job; raises TooLarge above `most` columns.

    Notes
    -----
    For each job, types, duration with the fewest workers n that allow it, and start: is that chosen? Together: one
    column for each server. Spread: workers on each server, which server hosts the PSs, and how many: with h binary
    and y workers on the host, B z >= b (n h - y), which says nothing where h = 0. For welfare (DPS, eq. 12) each host
    has enough for all workers elsewhere, so one is enough; else (weighted completion, 2i) all hosts together have.
    """
    program = Program(problem, most, fixing)
    cells, resources = Cells(program), ResourcesAndCuts(problem.inventory)
    inventory = problem.inventory
    rooms = _Rooms(
        machines(inventory.capacity, inventory.worker_demand), machines(inventory.capacity, inventory.ps_demand)
    )
    for i, bid in enumerate(problem.bids):
        program.open_job(i)
        ready = bid.arrival + np.array(bid.delay) - problem.start
        for size in _sizes(bid, problem, int(rooms.worker.sum(axis=0).max(initial=0))):
            for start in range(max(0, bid.arrival - problem.start), problem.slots - size.slots - problem.tail + 1):
                able = np.flatnonzero(ready <= start).tolist()
                job = _Job(program, cells, i, size, start, start + size.slots + problem.tail)
                if not job.may(resources):
                    continue
                if size.spread:
                    job.add_spread(able, rooms)
                else:
                    job.add_together(able)
    cells.close()
    return program


class _Rooms(NamedTuple):
    """Machines of each type that each empty server has room for, S x W and S x P."""

    worker: Ints
    ps: Ints


def _sizes(bid: Bid, problem: OfflineProblem, room: int) -> Iterator[_Size]:
    most = min(bid.chunks, room)
    table = durations(bid, most=most, slots=problem.slots)
    ring = bid.architecture is Architecture.RING
    for spread, w, p in np.ndindex(table.shape[:3]):
        shortest = problem.slots + 1
        for n in range(2 if spread and ring else 1, most + 1):
            d = int(table[spread, w, p, n])
            if d < shortest:
                shortest = d
                yield _Size(bool(spread), w, None if ring else p, n, d)


class _Job(NamedTuple):
    """One size of one job at one start."""

    program: Program
    cells: Cells
    i: int
    size: _Size
    start: int
    end: int

    def may(self, resources: ResourcesAndCuts) -> bool:
        """Whether that can be better than what is known, with one PS if any."""
        fixing, size = self.program.fixing, self.size
        use = size.number * resources.worker[size.worker]
        if size.ps is not None:
            use = use + resources.ps[size.ps]
        return fixing is None or fixing.holds(self.i, self.start + size.slots, use, self.start, self.end)

    def add_together(self, able: list[int]) -> None:
        """Add the columns of workers on one server, with one PS."""
        inventory, size = self.program.problem.inventory, self.size
        demand = size.number * inventory.worker_demand[size.worker]
        if size.ps is not None:
            demand = demand + inventory.ps_demand[size.ps]
        for s in able:
            if (inventory.capacity[s] >= demand).all():
                column = self.program.completion(self.i, self.start + size.slots)
                self.cells.hold(column, s, demand.tolist(), self.start, self.end)

    def add_spread(self, able: list[int], rooms: _Rooms) -> None:
        """Anywhere."""
        size, rows, program = self.size, self.program.rows, self.program
        hosts = [] if size.ps is None else [s for s in able if rooms.ps[s, size.ps]]
        places = [s for s in able if rooms.worker[s, size.worker]]
        if rooms.worker[places, size.worker].sum() < size.number or (size.ps is not None and not hosts):
            return
        chosen = program.completion(self.i, self.start + size.slots)
        demand = program.problem.inventory.workers[size.worker].demand
        workers = {}
        for s in places:
            workers[s] = program.column(0.0, float(min(rooms.worker[s, size.worker], size.number)))
            self.cells.hold(workers[s], s, demand, self.start, self.end)
        rows.row([(column, 1.0) for column in workers.values()] + [(chosen, -float(size.number))], low=0.0, high=0.0)
        if size.ps is not None:
            self._add_pss(size.ps, hosts, rooms, chosen, workers)

    def _add_pss(self, p: int, hosts: list[int], rooms: _Rooms, chosen: int, workers: dict[int, int]) -> None:
        program, rows, n = self.program, self.program.rows, self.size.number
        inventory, one = program.problem.inventory, program.problem.objective is Objective.WELFARE
        ratio = inventory.workers[self.size.worker].bandwidth_mbps / inventory.parameter_servers[p].bandwidth_mbps
        ratio = same_ceilings(ratio, n)
        most = [min(int(rooms.ps[s, p]), max(1, math.ceil(n * ratio))) for s in hosts]
        host = [program.column() for _ in hosts]
        pss = [program.column(0.0, float(number)) for number in most]
        rows.row([(column, 1.0) for column in host] + [(chosen, -1.0)], low=0.0, high=0.0 if one else math.inf)
        for k, s in enumerate(hosts):
            self.cells.hold(pss[k], s, inventory.parameter_servers[p].demand, self.start, self.end)
            rows.row([(pss[k], 1.0), (host[k], -1.0)], low=0.0)
            rows.row([(pss[k], 1.0), (host[k], -float(most[k]))], high=0.0)
            enough = [(z, float(ratio.denominator)) for z in ([pss[k]] if one else pss)]
            if s in workers:
                enough.append((workers[s], float(ratio.numerator)))
            rows.row([*enough, (host[k], -float(ratio.numerator * n))], low=0.0)
