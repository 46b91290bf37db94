"""The machines of elastic jobs in one slot, divisible, on server classes."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from scheduling.best_response.elastic.type_pairs import TypePair, type_pairs
from scheduling.model.types import Floats, Ints
from scheduling.offline.hull import hull_vertices
from scheduling.offline.problem import OfflineProblem
from scheduling.offline.server_classes import ServerClass, server_classes
from scheduling.preemptive.workers import machines
from scheduling.solvers.milp import IntegerProgram

ROUNDINGS = 6
"""Largest number of rounding cuts of one resource of one server class, as in `rounding_cuts`."""


class ExecutionMode(NamedTuple):
    """One way to run one job."""

    job: int
    way: TypePair
    first: int
    """Slot from which it can run, counted from the start."""
    most: int
    """Workers at once on the empty servers."""


class Cut(NamedTuple):
    """A cut that is valid in some slots: the sum of weight x workers is at most `most`."""

    weights: Floats
    """Weight of a worker of each run, none negative."""
    most: float
    slots: frozenset[int]


Column = Callable[..., int]
"""The signature of `IntegerProgram.column`."""


class Machines:
    """The runs of all jobs, and the rows that keep their machines within the servers of each class."""

    def __init__(self, problem: OfflineProblem) -> None:
        self.problem = problem
        inventory = problem.inventory
        self._room_w = machines(inventory.capacity, inventory.worker_demand)
        self._room_p = machines(inventory.capacity, inventory.ps_demand)
        self.runs = list(self._runs())
        self._demand = np.array(
            [demand for run in self.runs for demand in (run.way.worker.demand, run.way.ps.demand)], dtype=np.int64
        ).reshape(2 * len(self.runs), len(inventory.resources))
        self.classes = server_classes(problem, self._demand) if self.runs else []
        self._free = problem.free()

    def _runs(self) -> Iterable[ExecutionMode]:
        problem = self.problem
        for i, bid in enumerate(problem.bids):
            delay = np.array(bid.delay)
            for way in type_pairs(bid, problem.inventory, slots=problem.slots):
                workers, pss = self._room_w[:, way.worker_type], self._room_p[:, way.ps_type]
                ratio = way.worker.bandwidth_mbps / way.ps.bandwidth_mbps
                most = min(bid.chunks, int(workers.sum()), int(int(pss.sum()) / ratio))
                if most:
                    wait = max(int(delay[workers > 0].min()), int(delay[pss > 0].min()))
                    yield ExecutionMode(i, way, max(0, bid.arrival + wait - problem.start), most)

    def rooms(self, run: ExecutionMode) -> tuple[Ints, Ints]:
        """Workers and PSs of a run that each empty server has room for, none of the other."""
        return self._room_w[:, run.way.worker_type], self._room_p[:, run.way.ps_type]

    def add_slot(
        self, rows: IntegerProgram, column: Column, t: int, running: dict[int, list[tuple[int, float]]]
    ) -> list[int]:
        """Add what runs in a slot, divided: a column for the workers of each run.

        Parameters
        ----------
        running
            Terms of each run, whose sum is 1 if it runs and 0 otherwise.
        """
        sides: dict[int, list[tuple[int, float]]] = {2 * r + side: [] for r in running for side in (0, 1)}
        for servers in self.classes:
            self._add_class(rows, column, t, servers, sides)
        counts = []
        for r, going in running.items():
            run, workers, pss = self.runs[r], sides[2 * r], sides[2 * r + 1]
            count = column(0.0, float(run.most), whole=False)
            counts.append(count)
            rows.row([*workers, (count, -1.0)], low=0.0, high=0.0)
            rows.row([(count, 1.0)] + [(c, -run.most * v) for c, v in going], high=0.0)
            hull = hull_vertices(run.way.worker.bandwidth_mbps / run.way.ps.bandwidth_mbps, run.most)
            for low, high in pairwise(hull):
                # In whole numbers: workers <= low + slope (PSs - those of low).
                wide, rise = high.pss - low.pss, high.workers - low.workers
                base = wide * low.workers - rise * low.pss
                rows.row(
                    [(count, float(wide))]
                    + [(c, -rise * v) for c, v in pss]
                    + [(c, -float(base) * v) for c, v in going],
                    high=0.0,
                )
        return counts

    def _add_class(
        self,
        rows: IntegerProgram,
        column: Column,
        t: int,
        servers: ServerClass,
        sides: dict[int, list[tuple[int, float]]],
    ) -> None:
        s, number = servers.servers[0], len(servers.servers)
        live: list[tuple[int, int, Ints]] = []
        for item, terms in sides.items():
            run = self.runs[item // 2]
            bid = self.problem.bids[run.job]
            room = self.rooms(run)[item % 2][s]
            if room and bid.arrival + bid.delay[s] <= self.problem.start + t:
                c = column(0.0, float(room * number), whole=False)
                terms.append((c, 1.0))
                live.append((c, int(room), self._demand[item]))
        for r in servers.scarce:
            most, demands = int(self._free[t, s, r]), [(c, room, int(demand[r])) for c, room, demand in live]
            # Whole machines fit only if they do when demand and capacity are counted in units of k, rounded down.
            for k in [1, *units(demands, most)]:
                if sum(d // k * room for _, room, d in demands) > most // k:
                    rows.capacity_row([(c, d // k) for c, _, d in demands], most // k * number)


def units(demands: list[tuple[int, int, int]], most: int) -> list[int]:
    """Demands by which rounding loses most of the capacity.

    Parameters
    ----------
    demands
        Column, room for it alone, and demand of one.
    """
    found = {d for _, _, d in demands if d > 1 and most % d}
    return sorted(found, key=lambda d: (-(most % d), d))[:ROUNDINGS]
