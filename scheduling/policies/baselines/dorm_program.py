"""Dorm's integer program: workers and parameter servers of each job on each server, for the most utilisation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints
from scheduling.policies.baselines.gang import Gang, room_for
from scheduling.solvers.milp import IntegerProgram, SolverFailed, same_ceilings
from scheduling.solvers.time_limit import unlimited

EXCESS = 100.0
"""Cost of a unit of unfairness beyond the limit, in units of utilisation: more than it could gain."""
ADJUSTED = 1e-4
"""Cost of adjusting a job, in units of utilisation, so that no job is adjusted without a gain."""


@dataclass(frozen=True, eq=False)
class Share:
    """Machines of one job: workers and PSs on each server, S numbers each."""

    workers: Ints
    pss: Ints

    @property
    def count(self) -> int:
        """Number of workers on all servers."""
        return int(self.workers.sum())


@dataclass(frozen=True, eq=False)
class ShareRequest:
    """One job of the integer program."""

    gang: Gang
    """Its types; the count does not matter."""
    counts: tuple[range, ...]
    """Numbers of workers if it starts or is adjusted: increasing, disjoint ranges within 1 to D."""
    target: int
    """Workers of its fair share."""
    usable: NDArray[np.bool_]
    """Servers to which its upload has ended, S flags."""
    held: Share | None = None
    """Its present share, which it keeps unless it is adjusted; None if it waits."""
    fixed: bool = False
    """It cannot be adjusted."""


@dataclass(frozen=True)
class Limits:
    """Limits of the integer program."""

    unfairness: float
    """Sum over jobs of the distance of a job's dominant share from its fair one."""
    adjustments: int
    """Running jobs whose machines change."""


def divide(
    requests: Sequence[ShareRequest], inventory: Inventory, free: Ints, limits: Limits, *, gap: float = 0.0
) -> list[Share | None]:
    """Decide which machines each job has from now on.

    Maximise the units held of each resource over all there is of it, summed over resources, less EXCESS x e and
    ADJUSTED for each job that is adjusted, where

    - on each server workers and PSs take no more than is free;
    - a job that waits has no machines, or as one that is adjusted: as many workers as one of `counts` says, and
      ceil(b / B x workers) PSs, none in a ring; one that is not adjusted has what it held;
    - the distances |dominant share - fair share| sum to at most `limits.unfairness` + e, e >= 0. A worker with its
      b / B of a PS has the dominant share max over resources of its units over all there is; a job's is that x workers;
    - at most `limits.adjustments` jobs that hold machines are adjusted.

    Parameters
    ----------
    free
        Units available to jobs that are not fixed, S x R: idle units and units held by such jobs.
    gap
        Relative optimality gap that is accepted.

    Returns
    -------
    list
        The new share of each job; None if it waits.

    Raises
    ------
    SolverFailed
        If HiGHS does not prove an optimum, or its answer breaks a rule.
    """
    open_requests = [request for request in requests if not request.fixed]
    done = sum(
        _distance(request, inventory, request.held.count)
        for request in requests
        if request.fixed and request.held is not None
    )
    program = _Program(open_requests, inventory, free)
    program.write(Limits(limits.unfairness - done, limits.adjustments))
    # No time limit: with one, equal inputs could give different answers.
    answer = program.rows.solve(unlimited, gap=gap)
    if answer.values is None or not answer.optimal:
        raise SolverFailed("HiGHS found no division of the cluster, though to change nothing is one")
    shares = iter(program.shares(answer.values))
    return [request.held if request.fixed else next(shares) for request in requests]


def pss_for(gang: Gang, workers: int, inventory: Inventory) -> int:
    """ceil(b / B x workers); 0 in a ring."""
    return ceil(workers * _ratio(gang, inventory))


def share_of_a_worker(gang: Gang, inventory: Inventory) -> Fraction:
    """Dominant share of one worker with its b / B of a PS, exact."""
    ratio, total = _ratio(gang, inventory), inventory.capacity.sum(axis=0)
    pss = [0] * len(total) if gang.ps is None else inventory.ps_demand[gang.ps].tolist()
    units = [w + ratio * p for w, p in zip(inventory.worker_demand[gang.worker].tolist(), pss, strict=True)]
    return max(Fraction(u, max(1, int(c))) for u, c in zip(units, total, strict=True))


def _ratio(gang: Gang, inventory: Inventory) -> Fraction:
    if gang.ps is None:
        return Fraction(0)
    return inventory.workers[gang.worker].bandwidth_mbps / inventory.parameter_servers[gang.ps].bandwidth_mbps


def _distance(request: ShareRequest, inventory: Inventory, workers: int) -> float:
    return float(share_of_a_worker(request.gang, inventory)) * abs(workers - request.target)


@dataclass(frozen=True)
class _Columns:
    """Column indices; servers without room have no column."""

    workers: dict[int, int]
    pss: dict[int, int]
    runs: int
    adjusted: int
    distance: int


class _Program:
    def __init__(self, requests: Sequence[ShareRequest], inventory: Inventory, free: Ints) -> None:
        self.requests, self.inventory, self.free = requests, inventory, free
        self.rows = IntegerProgram()
        total = inventory.capacity.sum(axis=0)
        self._per_unit: Floats = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
        self.columns = [self._columns_of(request) for request in requests]

    def write(self, limits: Limits) -> None:
        """Write all rows."""
        rows = self.rows
        excess = rows.column(0.0, np.inf, cost=EXCESS, whole=False)
        for request, columns in zip(self.requests, self.columns, strict=True):
            self._write_job(request, columns)
        self._write_capacity()
        distances = [(one.distance, 1.0) for one in self.columns]
        rows.row([*distances, (excess, -1.0)], high=limits.unfairness)
        adjusted = [(c.adjusted, 1.0) for w, c in zip(self.requests, self.columns, strict=True) if w.held is not None]
        rows.row(adjusted, high=limits.adjustments)

    def shares(self, values: Floats) -> list[Share | None]:
        """Return the checked share of each job in the solver's answer."""
        found = [
            self._share(values, request, columns) for request, columns in zip(self.requests, self.columns, strict=True)
        ]
        left = self.free.copy()
        for request, share in zip(self.requests, found, strict=True):
            if share is not None:
                left -= share.workers[:, None] * self.inventory.worker_demand[request.gang.worker]
                if request.gang.ps is not None:
                    left -= share.pss[:, None] * self.inventory.ps_demand[request.gang.ps]
        if (left < 0).any():
            raise SolverFailed("HiGHS gave more machines than servers have room for")
        return found

    def _columns_of(self, request: ShareRequest) -> _Columns:
        gang, demand = request.gang, self.inventory.worker_demand[request.gang.worker]
        most_pss = pss_for(gang, gang.bid.chunks, self.inventory)
        pss = {} if gang.ps is None else self._machines(request, self.inventory.ps_demand[gang.ps], most_pss)
        waits = request.held is None
        return _Columns(
            workers=self._machines(request, demand, gang.bid.chunks),
            pss=pss,
            runs=self.rows.column(0.0 if waits else 1.0, 1.0),
            adjusted=self.rows.column(0.0, 1.0, cost=ADJUSTED),
            distance=self.rows.column(0.0, np.inf, whole=False),
        )

    def _machines(self, request: ShareRequest, demand: Ints, most: int) -> dict[int, int]:
        room = np.where(request.usable, np.minimum(room_for(self.free, demand), most), 0)
        held = float(demand @ self._per_unit)
        return {int(s): self.rows.column(0.0, float(room[s]), cost=-held) for s in np.flatnonzero(room)}

    def _write_job(self, request: ShareRequest, columns: _Columns) -> None:
        rows, chunks = self.rows, float(request.gang.bid.chunks)
        workers = [(c, 1.0) for c in columns.workers.values()]
        rows.row([*workers, (columns.runs, -chunks)], high=0.0)
        changes = columns.runs if request.held is None else columns.adjusted
        self._write_counts(request, workers, changes)
        if request.held is not None:
            _keep_unless(rows, columns.workers, request.held.workers, columns.adjusted)
            _keep_unless(rows, columns.pss, request.held.pss, columns.adjusted)
        if request.gang.ps is not None:
            ratio = same_ceilings(_ratio(request.gang, self.inventory), request.gang.bid.chunks)
            served = [
                *((c, 1.0) for c in columns.pss.values()),
                *((c, -float(ratio)) for c in columns.workers.values()),
            ]
            rows.row(served, low=0.0, high=1.0 - 1.0 / (2 * ratio.denominator))
        share = float(share_of_a_worker(request.gang, self.inventory))
        for sign in (1.0, -1.0):
            of_workers = [(c, sign * share) for c in columns.workers.values()]
            rows.row([*of_workers, (columns.distance, -1.0)], high=sign * share * request.target)

    def _write_counts(self, request: ShareRequest, workers: Sequence[tuple[int, float]], changes: int) -> None:
        """Write that the workers of a job that starts or is adjusted are within one of the ranges."""
        rows, kept = self.rows, 0.0 if request.held is None else float(request.held.count)
        several = len(request.counts) > 1
        chosen = [rows.column() for _ in request.counts] if several else [changes]
        if several:
            rows.row([*((c, 1.0) for c in chosen), (changes, -1.0)], low=0.0, high=0.0)
        ranges = list(zip(chosen, request.counts, strict=True))
        rows.row([*workers, *((c, -float(some[0])) for c, some in ranges)], low=0.0)
        if several or request.counts[0][-1] < request.gang.bid.chunks:
            most = [(c, -float(some[-1])) for c, some in ranges]
            rows.row([*workers, *most, (changes, kept)], high=kept)

    def _write_capacity(self) -> None:
        for s in range(len(self.inventory.servers)):
            for r in range(len(self.inventory.resources)):
                terms = list(self._terms(s, r))
                if terms:
                    self.rows.capacity_row(terms, int(self.free[s, r]))

    def _terms(self, s: int, r: int) -> Iterable[tuple[int, int]]:
        for request, columns in zip(self.requests, self.columns, strict=True):
            units = int(self.inventory.worker_demand[request.gang.worker, r])
            if units and s in columns.workers:
                yield columns.workers[s], units
            units = 0 if request.gang.ps is None else int(self.inventory.ps_demand[request.gang.ps, r])
            if units and s in columns.pss:
                yield columns.pss[s], units

    def _share(self, values: Floats, request: ShareRequest, columns: _Columns) -> Share | None:
        share = Share(self._counts(values, columns.workers), self._counts(values, columns.pss))
        same = request.held is not None and all(
            (new == old).all() for new, old in ((share.workers, request.held.workers), (share.pss, request.held.pss))
        )
        if same:
            return request.held
        count, pss = share.count, int(share.pss.sum())
        if not count and not pss and request.held is None:
            return None
        if not any(count in some for some in request.counts) or pss != pss_for(request.gang, count, self.inventory):
            raise SolverFailed(f"HiGHS gave a job {count} workers and {pss} parameter servers")
        return share

    def _counts(self, values: Floats, columns: dict[int, int]) -> Ints:
        counts: Ints = np.zeros(len(self.inventory.servers), dtype=np.int64)
        for s, column in columns.items():
            counts[s] = round(values[column])
        return counts


def _keep_unless(rows: IntegerProgram, columns: dict[int, int], held: Ints, adjusted: int) -> None:
    """Write that each count stays as held unless the job is adjusted."""
    for s, column in columns.items():
        most = max(rows.most(column), float(held[s]))
        rows.row([(column, 1.0), (adjusted, -most)], high=float(held[s]))
        rows.row([(column, 1.0), (adjusted, float(held[s]))], low=float(held[s]))
