"""The rigid best response, slow and obvious: every type, count, start, PS host and number of workers beside the PSs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints


@dataclass(frozen=True)
class Found:
    """One feasible schedule: `counts` are (server, workers), the PSs are all on `host`."""

    payoff: float
    cost: float
    completion: int
    start: int
    workers: int
    worker_type: int
    ps_type: int
    host: int
    pss: int
    counts: tuple[tuple[int, int], ...]

    @property
    def order(self) -> tuple[float, ...]:
        return (
            -self.payoff,
            self.completion,
            self.start,
            self.workers,
            self.worker_type,
            self.ps_type,
            self.host,
        )


@dataclass(frozen=True)
class Problem:
    bid: Bid
    inventory: Inventory
    start: int
    used: Ints
    prices: Floats
    first_start: int | None = None
    tail: int = 0

    def window(self, a: int, d: int) -> "Window | None":
        held = d + self.tail
        first = max(self.start, self.start if self.first_start is None else self.first_start)
        if a < first or a + held > self.start + len(self.used):
            return None
        slots = slice(a - self.start, a - self.start + held)
        usable = np.array([self.bid.arrival + delay <= a for delay in self.bid.delay])
        free = (self.inventory.capacity - self.used[slots]).min(axis=0)
        free[~usable] = -1
        return Window(free, np.where(self.inventory.capacity > 0, self.prices[slots].sum(axis=0), 0.0))


@dataclass(frozen=True)
class Window:
    free: Ints
    """Least units free in any slot, S x R; -1 where the server cannot be used."""
    price: Floats
    """Price of a unit for the whole window, S x R."""

    def room(self, demand: Ints) -> list[int]:
        """Return the number of machines that fit each server."""
        return [int(min(max(row[r], 0) // demand[r] for r in np.flatnonzero(demand))) for row in self.free]


def duration(work: int, step: Fraction, workers: int) -> int:
    return max(1, math.ceil(work * step / workers))


def ps_count(remote: int, ratio: Fraction) -> int:
    return max(1, math.ceil(remote * ratio))


def every(problem: Problem) -> Iterator[Found]:
    """The cheapest feasible schedule of every (types, count, start, host, workers on the host)."""
    bid, inventory = problem.bid, problem.inventory
    end = problem.start + len(problem.used)
    for w, wt in enumerate(inventory.workers):
        for p, pt in enumerate(inventory.parameter_servers):
            step = bid.worker_time[w] + bid.ps_time[p]
            ratio = wt.bandwidth_mbps / pt.bandwidth_mbps
            for n in range(1, bid.chunks + 1):
                together = duration(bid.work, step, n)
                apart = duration(bid.work, step + bid.transfer_time[w], n)
                for a in range(problem.start, end):
                    yield from _central(problem, w, p, n, a, together)
                    yield from _spread(problem, w, p, n, a, apart, ratio)


def _central(problem: Problem, w: int, p: int, n: int, a: int, d: int) -> Iterator[Found]:
    window = problem.window(a, d)
    if window is None:
        return
    demand = n * problem.inventory.worker_demand[w] + problem.inventory.ps_demand[p]
    for h in range(len(problem.inventory.servers)):
        if (window.free[h] >= demand).all():
            cost = float(demand @ window.price[h])
            yield _found(problem, cost, a, d, n, w, p, h, 1, ((h, n),))


def _spread(problem: Problem, w: int, p: int, n: int, a: int, d: int, ratio: Fraction) -> Iterator[Found]:
    window = problem.window(a, d)
    if window is None:
        return
    wd, pd = problem.inventory.worker_demand[w], problem.inventory.ps_demand[p]
    room, price = window.room(wd), window.price @ wd
    cheapest = sorted(range(len(room)), key=lambda s: (price[s], s))
    for h in range(len(room)):
        for g in range(min(n - 1, room[h]) + 1):
            s = ps_count(n - g, ratio)
            if (window.free[h] < g * wd + s * pd).any():
                continue
            counts, left = ([(h, g)] if g else []), n - g
            for server in cheapest:
                take = min(left, room[server]) if server != h else 0
                if take:
                    counts.append((server, take))
                    left -= take
            if left == 0:
                cost = float(sum(c * price[server] for server, c in counts) + s * (window.price[h] @ pd))
                yield _found(problem, cost, a, d, n, w, p, h, s, tuple(sorted(counts)))


def _found(
    problem: Problem,
    cost: float,
    a: int,
    d: int,
    n: int,
    w: int,
    p: int,
    h: int,
    s: int,
    counts: tuple[tuple[int, int], ...],
) -> Found:
    value = problem.bid.utility.at(a + d - problem.bid.arrival)
    return Found(value - cost, cost, a + d, a, n, w, p, h, s, counts)


def best(problem: Problem, above: float = 0.0) -> Found | None:
    """The first in tie order of those with payoff above `above`."""
    return min((found for found in every(problem) if found.payoff > above), key=lambda f: f.order, default=None)
