"""Dorm's integer program: workers and parameter servers of each job on each server, for the most utilisation."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import NamedTuple

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
"""Cost of adjusting a job, in units of utilisation, so that no optimum adjusts a job without a gain."""

LARGEST = 400
"""Columns of the largest program that itself chooses who is adjusted: to prove a larger one takes many seconds."""
NOTHING_FOUND = "HiGHS found no division of the cluster, though to change nothing is one"


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

    Beyond LARGEST columns the linear relaxation chooses who may be adjusted: as many jobs as `limits` allows, those
    that it adjusts most (the first of equals). The program then decides all else, to half the gap.

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
    if program.rows.columns > LARGEST:
        program.keep_all_but(limits.adjustments)
        gap /= 2
    # No time limit: with one, equal inputs could give different answers.
    answer = program.rows.solve(unlimited, gap=gap)
    if answer.values is None or not answer.optimal:
        raise SolverFailed(NOTHING_FOUND)
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
    kept_workers: dict[int, int]
    """Workers that it keeps: as many as it holds, or none; PSs likewise."""
    kept_pss: dict[int, int]
    changes: int
    """1 if it starts or is adjusted: then it has these workers and PSs, and none otherwise."""
    keeps: int | None
    """1 if it keeps what it holds; None for a job that waits."""
    distance: int


class _Kind(NamedTuple):
    """Facts that all jobs with these types share."""

    ratio: Fraction
    """b / B."""
    share: float
    """`share_of_a_worker`."""
    worker_room: Ints
    """Workers that fit on each server, S numbers."""
    ps_room: Ints
    """PSs that fit on each server, S numbers; 0 in a ring."""


class _Program:
    def __init__(self, requests: Sequence[ShareRequest], inventory: Inventory, free: Ints) -> None:
        self.requests, self.inventory, self.free = requests, inventory, free
        self.rows = IntegerProgram()
        total = inventory.capacity.sum(axis=0)
        self._per_unit: Floats = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
        self._kinds: dict[tuple[int, int | None], _Kind] = {}
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
        rows.row([(one.changes, 1.0) for one in self.columns if one.keeps is not None], high=limits.adjustments)

    def keep_all_but(self, adjusted: int) -> None:
        """Let only these many jobs be adjusted: those that the linear relaxation adjusts most, the first of equals."""
        held = [one.changes for one in self.columns if one.keeps is not None]
        share = self.rows.solve(unlimited, whole=False).values
        if share is None:
            raise SolverFailed(NOTHING_FOUND)
        for column in sorted(held, key=lambda column: -round(float(share[column]), 6))[adjusted:]:
            self.rows.fix(column, 0.0)

    def shares(self, values: Floats) -> list[Share | None]:
        """Return the checked share of each job in the solver's answer."""
        numbers: list[int] = np.rint(values).astype(np.int64).tolist()
        found = [
            self._share(numbers, request, columns) for request, columns in zip(self.requests, self.columns, strict=True)
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
        gang, held = request.gang, request.held
        kind, most = self._kind(gang), gang.bid.chunks
        worker = self.inventory.worker_demand[gang.worker]
        ps = None if gang.ps is None else self.inventory.ps_demand[gang.ps]
        workers, pss = np.minimum(kind.worker_room, most), np.minimum(kind.ps_room, ceil(most * kind.ratio))
        return _Columns(
            workers=self._machines(worker, workers * request.usable),
            pss={} if ps is None else self._machines(ps, pss * request.usable),
            kept_workers={} if held is None else self._machines(worker, held.workers),
            kept_pss={} if held is None or ps is None else self._machines(ps, held.pss),
            changes=self.rows.column(cost=0.0 if held is None else ADJUSTED),
            keeps=None if held is None else self.rows.column(),
            distance=self.rows.column(0.0, np.inf, whole=False),
        )

    def _kind(self, gang: Gang) -> _Kind:
        types, inventory = (gang.worker, gang.ps), self.inventory
        if types not in self._kinds:
            workers = room_for(self.free, inventory.worker_demand[gang.worker])
            pss = np.zeros_like(workers) if gang.ps is None else room_for(self.free, inventory.ps_demand[gang.ps])
            share = float(share_of_a_worker(gang, inventory))
            self._kinds[types] = _Kind(_ratio(gang, inventory), share, workers, pss)
        return self._kinds[types]

    def _machines(self, demand: Ints, most: Ints) -> dict[int, int]:
        """Add a column for each server with room for a machine, up to `most`."""
        servers = np.flatnonzero(most)
        columns = self.rows.counts(most[servers].tolist(), cost=-float(demand @ self._per_unit))
        return dict(zip(servers.tolist(), columns, strict=True))

    def _write_job(self, request: ShareRequest, columns: _Columns) -> None:
        rows, workers = self.rows, [(c, 1.0) for c in columns.workers.values()]
        kept = [(c, 1.0) for c in columns.kept_workers.values()]
        if columns.keeps is not None:
            rows.row([(columns.changes, 1.0), (columns.keeps, 1.0)], low=1.0, high=1.0)
            for c in (*columns.kept_workers.values(), *columns.kept_pss.values()):
                rows.row([(c, 1.0), (columns.keeps, -rows.most(c))], low=0.0, high=0.0)
        self._write_counts(request, workers, columns.changes)
        if request.gang.ps is not None:
            ratio = same_ceilings(self._kind(request.gang).ratio, request.gang.bid.chunks)
            served = [
                *((c, 1.0) for c in columns.pss.values()),
                *((c, -float(ratio)) for c in columns.workers.values()),
            ]
            rows.row(served, low=0.0, high=1.0 - 1.0 / ratio.denominator)
        share = self._kind(request.gang).share
        for sign in (1.0, -1.0):
            of_workers = [(c, sign * share * n) for c, n in (*workers, *kept)]
            rows.row([*of_workers, (columns.distance, -1.0)], high=sign * share * request.target)

    def _write_counts(self, request: ShareRequest, workers: Sequence[tuple[int, float]], changes: int) -> None:
        """Write that the workers of a job that starts or is adjusted are within one of the ranges, else none."""
        rows = self.rows
        several = len(request.counts) > 1
        chosen = [rows.column() for _ in request.counts] if several else [changes]
        if several:
            rows.row([*((c, 1.0) for c in chosen), (changes, -1.0)], low=0.0, high=0.0)
        ranges = list(zip(chosen, request.counts, strict=True))
        rows.row([*workers, *((c, -float(some[0])) for c, some in ranges)], low=0.0)
        rows.row([*workers, *((c, -float(some[-1])) for c, some in ranges)], high=0.0)

    def _write_capacity(self) -> None:
        terms: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for request, columns in zip(self.requests, self.columns, strict=True):
            pss = () if request.gang.ps is None else self.inventory.ps_demand[request.gang.ps].tolist()
            workers = self.inventory.worker_demand[request.gang.worker].tolist()
            for demand, machines in (
                (workers, (*columns.workers.items(), *columns.kept_workers.items())),
                (pss, (*columns.pss.items(), *columns.kept_pss.items())),
            ):
                needed = [(r, units) for r, units in enumerate(demand) if units]
                for s, column in machines:
                    for r, units in needed:
                        terms[s, r].append((column, units))
        for s, r in sorted(terms):
            self.rows.capacity_row(terms[s, r], int(self.free[s, r]))

    def _share(self, values: Sequence[int], request: ShareRequest, columns: _Columns) -> Share | None:
        if columns.keeps is not None and values[columns.keeps]:
            return request.held
        share = Share(self._counts(values, columns.workers), self._counts(values, columns.pss))
        count, pss = share.count, int(share.pss.sum())
        if not count and not pss and request.held is None:
            return None
        if not any(count in some for some in request.counts) or pss != pss_for(request.gang, count, self.inventory):
            raise SolverFailed(f"HiGHS gave a job {count} workers and {pss} parameter servers")
        held = request.held
        if held is not None and (share.workers == held.workers).all() and (share.pss == held.pss).all():
            return held
        return share

    def _counts(self, values: Sequence[int], columns: dict[int, int]) -> Ints:
        counts: Ints = np.zeros(len(self.inventory.servers), dtype=np.int64)
        for s, column in columns.items():
            counts[s] = values[column]
        return counts
