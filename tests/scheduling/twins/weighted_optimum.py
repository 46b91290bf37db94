"""The least total of weight x completion, proven: a time-indexed integer program over every schedule of every job."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints


@dataclass(frozen=True)
class Way:
    """One way to run a job, whenever: what it holds, S x R units, and for how long."""

    held: Ints
    exact: Fraction
    """Slots from start to completion, not rounded."""

    @property
    def slots(self) -> int:
        return max(1, math.ceil(self.exact))

    def dominates(self, other: "Way") -> bool:
        return self.slots <= other.slots and bool((self.held <= other.held).all())


Column = tuple[int, Way, int]
"""The number of a job, the way in which it runs, and its first slot."""


def ways(bid: Bid, inventory: Inventory) -> list[Way]:
    """Every way that no other beats in time and in all it holds; workers and PSs anywhere they fit."""
    kept: list[Way] = []
    for way in sorted(every_way(bid, inventory), key=lambda way: (way.slots, int(way.held.sum()))):
        if not any(other.dominates(way) for other in kept):
            kept.append(way)
    return kept


def least_total(bids: Sequence[Bid], inventory: Inventory, *, at_most: float, first: int = 1) -> float:
    """The optimum of (2), weight x completion; `at_most` is the total of a schedule that is known."""
    found = [ways(bid, inventory) for bid in bids]
    weights = [bid.utility.value for bid in bids]
    soonest = [max(bid.arrival, first) + min(way.slots for way in many) for bid, many in zip(bids, found, strict=True)]
    floor = sum(w * c for w, c in zip(weights, soonest, strict=True))
    columns: list[tuple[int, Way, int]] = []
    for j, (bid, many) in enumerate(zip(bids, found, strict=True)):
        latest = soonest[j] + math.floor((at_most - floor) / weights[j] + 1e-9)
        columns += [(j, w, t) for w in many for t in range(max(bid.arrival, first), latest - w.slots + 1)]
    chosen = _cheapest(columns, weights, _within(columns, inventory.capacity, first))
    return float(round(sum(weights[j] * (t + way.slots) for j, way, t in chosen), 6))


def total_without_foresight(bids: Sequence[Bid], inventory: Inventory) -> float:
    """Weight x completion if the jobs that wait are planned again at every arrival, each time optimally.

    Of several optimal plans it takes any.
    """
    found = [ways(bid, inventory) for bid in bids]
    weights = [bid.utility.value for bid in bids]
    arrivals = [max(bid.arrival, 1) for bid in bids]
    # Machines are never idle while a job waits, so one job after another takes longer than any optimal plan.
    slots = max(arrivals) + sum(max(way.slots for way in many) for many in found)
    free = np.repeat(inventory.capacity[np.newaxis], slots, axis=0)
    waiting, total, moments = set(range(len(bids))), 0.0, sorted(set(arrivals))
    for now, until in zip(moments, [*moments[1:], slots], strict=True):
        columns: list[Column] = [
            (j, way, t)
            for j in sorted(waiting)
            if arrivals[j] <= now
            for way in found[j]
            for t in range(now, slots - way.slots + 1)
        ]
        for j, way, t in _cheapest(columns, weights, _within(columns, free[now:], now)) if columns else []:
            if t < until:
                waiting.remove(j)
                free[t : t + way.slots] -= way.held
                total += weights[j] * (t + way.slots)
    return float(round(total, 6))


def _cheapest(columns: Sequence[Column], weights: Sequence[float], within: LinearConstraint) -> list[Column]:
    """Return the columns, one for each job, of least weight x completion."""
    result = milp(
        c=np.array([weights[j] * (t + way.slots) for j, way, t in columns]),
        integrality=np.ones(len(columns), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=[_once(columns), within],
        options={"mip_rel_gap": 0.0},
    )
    if result.status != 0:
        raise AssertionError(f"HiGHS: {result.message}")
    return [columns[int(i)] for i in np.flatnonzero(result.x > 0.5)]


def _once(columns: Sequence[Column]) -> LinearConstraint:
    jobs = sorted({j for j, _, _ in columns})
    rows = [jobs.index(j) for j, _, _ in columns]
    matrix = coo_array((np.ones(len(rows)), (rows, range(len(rows)))), shape=(len(jobs), len(rows)))
    return LinearConstraint(matrix.tocsr(), lb=1, ub=1)


def _within(columns: Sequence[Column], free: Ints, first: int) -> LinearConstraint:
    """Hold at most `free` units in each slot from `first` on, (T x) S x R."""
    cells = free.shape[-2] * free.shape[-1]
    slots = max(t + way.slots for _, way, t in columns) - first
    rows, columns_, units = [], [], []
    for i, (_, way, start) in enumerate(columns):
        flat = way.held.ravel()
        for cell in np.flatnonzero(flat):
            for t in range(start - first, start - first + way.slots):
                rows.append(t * cells + int(cell))
                columns_.append(i)
                units.append(int(flat[cell]))
    matrix = coo_array((units, (rows, columns_)), shape=(slots * cells, len(columns)))
    return LinearConstraint(matrix.tocsr(), ub=np.resize(free, slots * cells))


def every_way(bid: Bid, inventory: Inventory) -> Iterator[Way]:
    """Every set of machines that can run the job."""
    capacity = inventory.capacity
    for w, demand in enumerate(inventory.worker_demand):
        for y in _counts(capacity, demand, bid.chunks):
            if not any(y):
                continue
            held = np.outer(y, demand)
            if bid.architecture is Architecture.RING:
                yield Way(held, _ring_slots(bid, w, y))
                continue
            for p, ps_demand in enumerate(inventory.ps_demand):
                ratio = inventory.workers[w].bandwidth_mbps / inventory.parameter_servers[p].bandwidth_mbps
                most = max(1, math.ceil(sum(y) * ratio))
                for s in _counts(capacity - held, ps_demand, most):
                    if any(s) and _served(y, s, ratio):
                        yield Way(held + np.outer(s, ps_demand), _ps_slots(bid, w, p, y, s))


def _counts(free: Ints, demand: Ints, most: int) -> Iterator[tuple[int, ...]]:
    """Machines on each server, as many as fit, `most` in all."""
    room = [int(min(max(row[r], 0) // demand[r] for r in np.flatnonzero(demand))) for row in free]
    yield from (y for y in product(*(range(min(n, most) + 1) for n in room)) if sum(y) <= most)


def _served(y: tuple[int, ...], s: tuple[int, ...], ratio: Fraction) -> bool:
    """(2i): the PSs of every server that hosts some carry all workers that are on other servers."""
    return all((sum(y) - y[h]) * ratio <= s[h] for h in range(len(s)) if s[h])


def _ps_slots(bid: Bid, w: int, p: int, y: tuple[int, ...], s: tuple[int, ...]) -> Fraction:
    together = len({h for h in range(len(y)) if y[h] or s[h]}) == 1
    step = bid.worker_time[w] + bid.ps_time[p] + (0 if together else bid.transfer_time[w])
    return bid.work * step / sum(y)


def _ring_slots(bid: Bid, w: int, y: tuple[int, ...]) -> Fraction:
    together, count = len([n for n in y if n]) == 1, sum(y)
    exchange = bid.reduce_time + (0 if together else bid.transfer_time[w])
    step = bid.worker_time[w] + exchange * Fraction(count - 1, count)
    return bid.work * step / count
