"""Whole machines of elastic jobs side by side in one slot."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from math import ceil, isfinite

import numpy as np
from numpy.typing import NDArray

from scheduling.arrays import Floats, Ints
from scheduling.offline.elastic_machines import Machines
from scheduling.rows import Rows

SLACK = 1e-6
"""Of the solver's word."""


class Slots:
    """What is free in each slot, and where machines may be: which slots allow no less than others."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        question = machines.question
        self.free = question.free()
        self._scarce = {s: kind.scarce for kind in machines.kinds for s in kind.servers}
        """Servers with room for any machine, and what can run out there."""
        at = question.start + np.arange(question.slots)[:, None]
        self._hosts: list[list[NDArray[np.bool_]]] = []
        for run in machines.runs:
            bid = question.bids[run.job]
            ready = at >= bid.arrival + np.array(bid.delay)
            self._hosts.append([ready & (room > 0) for room in machines.rooms(run)])
        """Of each run, of its workers and of its PSs: servers that may have one, T x S."""
        free = self.free.reshape(question.slots, -1)
        self._no_less: NDArray[np.bool_] = np.asarray((free[:, None] >= free[None]).all(axis=2))

    def live(self, r: int, t: int) -> bool:
        """Whether the run's machines are somewhere to be placed."""
        return all(bool(hosts[t].any()) for hosts in self._hosts[r])

    def allows(self, t: int, other: int, runs: Iterable[int]) -> bool:
        """Whether what these runs may have in the other slot they may have in slot t."""
        return bool(self._no_less[t, other]) and all(
            bool((hosts[t] | ~hosts[other]).all()) for r in runs for hosts in self._hosts[r]
        )

    def equal(self, t: int, other: int, runs: Collection[int]) -> bool:
        """Whether these runs may have the same in both."""
        return self.allows(t, other, runs) and self.allows(other, t, runs)

    def most(self, t: int, weights: Floats, seconds: float, limits: Ints | None = None) -> tuple[Ints | None, float]:
        """The most that weight x workers come to in a slot, and a number they do not exceed there: inf if not found.

        Parameters
        ----------
        weights
            Of a worker of each run, none negative.
        limits
            Of the workers of each run; None: as many as there is room for.
        """
        rows = Rows()
        held: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        placed: list[tuple[int, int, Sequence[int]]] = []
        counts: dict[int, tuple[int, int]] = {}
        for r in np.flatnonzero(weights > 0.0).tolist():
            run = self.machines.runs[r]
            ratio = run.way.worker.bandwidth_mbps / run.way.ps.bandwidth_mbps
            number = run.most if limits is None else min(run.most, int(limits[r]))
            most = (number, ceil(number * ratio))
            totals = rows.column(0.0, float(most[0]), cost=-float(weights[r])), rows.column(0.0, float(most[1]))
            sides = zip(
                totals, (run.way.worker, run.way.ps), self._hosts[r], self.machines.rooms(run), most, strict=True
            )
            for total, machine, hosts, room, n in sides:
                terms = []
                for s in np.flatnonzero(hosts[t]).tolist():
                    cell = rows.column(0.0, float(min(room[s], n)))
                    terms.append((cell, 1.0))
                    placed.append((cell, s, machine.demand))
                    for k in self._scarce[s]:
                        if machine.demand[k]:
                            held[s, k].append((cell, int(room[s]), machine.demand[k]))
                rows.row([*terms, (total, -1.0)], low=0.0, high=0.0)
            counts[r] = totals
            rows.row([(totals[1], float(ratio.denominator)), (totals[0], -float(ratio.numerator))], low=0.0)
        for (s, k), demands in held.items():
            if sum(room * demand for _, room, demand in demands) > self.free[t, s, k]:
                rows.row([(cell, float(demand)) for cell, _, demand in demands], high=float(self.free[t, s, k]))
        if not rows.columns:
            return None, 0.0
        solution = rows.solve(seconds, presolve=False)
        bound = -solution.bound
        if solution.values is None:
            return None, bound if isfinite(bound) else np.inf
        whole = np.rint(solution.values).astype(np.int64)
        return self._pattern(t, whole, placed, counts), bound + SLACK * abs(bound)

    def _pattern(
        self, t: int, whole: Ints, placed: list[tuple[int, int, Sequence[int]]], counts: dict[int, tuple[int, int]]
    ) -> Ints | None:
        """What was found, if it keeps to every unit: a solver does to some millionths."""
        use = np.zeros_like(self.free[t])
        for cell, s, demand in placed:
            use[s] += whole[cell] * np.array(demand)
        workers = np.zeros(len(self.machines.runs), dtype=np.int64)
        for r, (number, pss) in counts.items():
            workers[r] = whole[number]
            if whole[pss] < self.machines.runs[r].way.pss(int(whole[number])):
                return None
        return workers if (use <= self.free[t]).all() else None
