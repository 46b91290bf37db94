"""Whether whole machines can have elastic jobs complete by given slots."""

from collections import defaultdict
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

from scheduling.offline.corners import corners
from scheduling.offline.elastic_machines import Machines, Run, SideBySide, units
from scheduling.rows import Rows


def can_keep(machines: Machines, ends: dict[int, int], known: list[SideBySide], seconds: float) -> bool | None:
    """Whether these jobs can all be complete by these slots, counted from the start; None: not found out in time.

    Parameters
    ----------
    ends
        By job. The other jobs do not run.
    known
        What holds in every slot, whatever else: it is implied, and spares the search.

    Notes
    -----
    Whole workers and PSs on each server in each slot, and of each run in each slot how many there are of both: to
    decide these says more than to decide what one of many servers has. Slots in which the same jobs go on with the
    same servers can change places, so the job with most workers has them in falling order there. Capacities are also
    rounded, and PSs on the hull of whole ones, as where machines are divided.
    """
    return _Programme(machines, ends, known).feasible(seconds)


class _Slot(NamedTuple):
    """What makes a slot different from others."""

    hosts: list[tuple[int, tuple[int, ...], tuple[int, ...]]]
    """Runs that go on, with the servers for their workers and for their PSs."""
    free: bytes


_Held = defaultdict[tuple[int, int], list[tuple[int, int, int]]]
"""Of a resource of a server: columns with the room for each alone, and the demand of one."""


class _Programme:
    def __init__(self, machines: Machines, ends: dict[int, int], known: list[SideBySide]) -> None:
        self._machines, self._ends, self._known = machines, ends, known
        self._free = machines.question.free()
        self._scarce = {s: kind.scarce for kind in machines.kinds for s in kind.servers}
        self._rows = Rows()
        self._runs = [r for r, run in enumerate(machines.runs) if run.job in ends]
        self._chosen = {r: self._rows.column() for r in self._runs}
        """Whether a job takes this one of its runs."""
        self._counts: list[dict[int, int]] = []
        """Of each slot, columns of the workers of runs."""
        slots = [self._slot(t) for t in range(max(ends.values(), default=0))]
        for t, slot in enumerate(slots):
            self._counts.append(self._add_slot(t, slot))
            if t and slot == slots[t - 1]:
                self._put_in_order(t)
        for job in ends:
            self._rows.row([(self._chosen[r], 1.0) for r in self._runs if machines.runs[r].job == job], low=1.0)
        for r in self._runs:
            done = [(counts[r], 1.0) for counts in self._counts if r in counts]
            self._rows.row([*done, (self._chosen[r], -float(machines.runs[r].way.worker_slots))], low=0.0)

    def feasible(self, seconds: float) -> bool | None:
        """Whether there is a solution."""
        if not self._rows.columns:
            return not self._ends
        solution = self._rows.solve(seconds)
        return True if solution.values is not None else None if solution.feasible else False

    def _slot(self, t: int) -> _Slot:
        hosts = []
        for r in self._runs:
            run = self._machines.runs[r]
            if not run.first <= t < self._ends[run.job]:
                continue
            bid = self._machines.question.bids[run.job]
            ready = bid.arrival + np.array(bid.delay) - self._machines.question.start <= t
            workers, pss = (np.flatnonzero(ready & (room > 0)).tolist() for room in self._machines.rooms(run))
            if workers and pss:
                hosts.append((r, tuple(workers), tuple(pss)))
        return _Slot(hosts, self._free[t].tobytes())

    def _add_slot(self, t: int, slot: _Slot) -> dict[int, int]:
        """Columns of the workers of each run that goes on."""
        rows, held = self._rows, _Held(list)
        counts: dict[int, int] = {}
        for r, *hosts in slot.hosts:
            run = self._machines.runs[r]
            ratio = run.way.worker.bandwidth_mbps / run.way.ps.bandwidth_mbps
            most = (run.most, ceil(run.most * ratio))
            workers, pss = (rows.column(0.0, float(number)) for number in most)
            counts[r] = workers
            sides = zip(
                (workers, pss), (run.way.worker, run.way.ps), self._machines.rooms(run), hosts, most, strict=True
            )
            for total, machine, room, servers, number in sides:
                cells = {s: rows.column(0.0, float(min(room[s], number))) for s in servers}
                rows.row([*((c, 1.0) for c in cells.values()), (total, -1.0)], low=0.0, high=0.0)
                for s, c in cells.items():
                    for resource in self._scarce[s]:
                        if machine.demand[resource]:
                            held[s, resource].append((c, int(room[s]), machine.demand[resource]))
            self._serve(run, workers, pss)
            rows.row([(workers, 1.0), (self._chosen[r], -float(run.most))], high=0.0)
        self._fit(t, held)
        for each in self._known:
            terms = [(column, float(each.weights[r])) for r, column in counts.items() if each.weights[r]]
            if sum(rows.most(column) * weight for column, weight in terms) > each.most:
                rows.row(terms, high=each.most)
        return counts

    def _fit(self, t: int, held: _Held) -> None:
        """Machines fit their servers, also where demand and capacity are rounded down to units of k."""
        for (s, resource), demands in held.items():
            most = int(self._free[t, s, resource])
            for k in (1, *units(demands, most)):
                if sum(d // k * room for _, room, d in demands) > most // k:
                    self._rows.row([(c, float(d // k)) for c, _, d in demands if d >= k], high=float(most // k))

    def _serve(self, run: Run, workers: int, pss: int) -> None:
        """PSs for the bandwidth of all workers, which are whole."""
        ratio = run.way.worker.bandwidth_mbps / run.way.ps.bandwidth_mbps
        self._rows.row([(pss, float(ratio.denominator)), (workers, -float(ratio.numerator))], low=0.0)
        for low, high in pairwise(corners(ratio, run.most)):
            wide, rise = high.pss - low.pss, high.workers - low.workers
            most = float(wide * low.workers - rise * low.pss)
            self._rows.row([(workers, float(wide)), (pss, -float(rise))], high=most)

    def _put_in_order(self, t: int) -> None:
        """The slot before has no fewer workers of the largest job."""
        before, counts = self._counts[t - 1], self._counts[t]
        most: dict[int, int] = defaultdict(int)
        for r in counts:
            run = self._machines.runs[r]
            most[run.job] = max(most[run.job], run.most)
        if most:
            largest = max(most, key=most.__getitem__)
            mine = [r for r in counts if self._machines.runs[r].job == largest]
            self._rows.row([*((before[r], 1.0) for r in mine), *((counts[r], -1.0) for r in mine)], low=0.0)
