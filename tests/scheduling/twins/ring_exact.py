"""The best response of a ring, slow and obvious: every worker type, count and start, on one server or spread."""

import math
from collections.abc import Iterator
from fractions import Fraction

from scheduling.model.bid import Bid
from tests.scheduling.twins.rigid_exact import Found, Problem


def duration(bid: Bid, worker: int, count: int, *, spread: bool) -> int:
    """Slots that a ring of `count` workers needs (weighted completion, eq. 14)."""
    exchange = bid.reduce_time + (bid.transfer_time[worker] if spread else 0)
    iteration = bid.worker_time[worker] + exchange * Fraction(count - 1, count)
    return max(1, math.ceil(bid.work * iteration / count))


def every(problem: Problem) -> Iterator[Found]:
    """The cheapest feasible schedule of every (type, count, start, server) and, spread, (type, count, start)."""
    bid = problem.bid
    for w in range(len(problem.inventory.workers)):
        for n in range(1, bid.chunks + 1):
            for a in range(problem.start, problem.start + len(problem.used)):
                yield from _on_one(problem, w, n, a)
                if n > 1:
                    yield from _spread(problem, w, n, a)


def _on_one(problem: Problem, w: int, n: int, a: int) -> Iterator[Found]:
    d = duration(problem.bid, w, n, spread=False)
    window = problem.window(a, d)
    if window is None:
        return
    demand = n * problem.inventory.worker_demand[w]
    for h, free in enumerate(window.free):
        if (free >= demand).all():
            yield _found(problem, float(demand @ window.price[h]), a, d, n, w, h, ((h, n),))


def _spread(problem: Problem, w: int, n: int, a: int) -> Iterator[Found]:
    d = duration(problem.bid, w, n, spread=True)
    window = problem.window(a, d)
    if window is None:
        return
    demand = problem.inventory.worker_demand[w]
    room, price = window.room(demand), window.price @ demand
    counts, left = [], n
    for s in sorted(range(len(room)), key=lambda s: (price[s], s)):
        take = min(left, room[s])
        if take:
            counts.append((s, take))
            left -= take
    if left == 0 and len(counts) > 1:
        cost = float(sum(c * price[s] for s, c in counts))
        yield _found(problem, cost, a, d, n, w, len(room), tuple(sorted(counts)))


def _found(
    problem: Problem, cost: float, a: int, d: int, n: int, w: int, host: int, counts: tuple[tuple[int, int], ...]
) -> Found:
    value = problem.bid.utility.at(a + d - problem.bid.arrival)
    # Equals on one server come before those that are spread.
    return Found(value - cost, cost, a + d, a, n, w, 0, host, 0, counts)


def best(problem: Problem, above: float = 0.0) -> Found | None:
    """The first in tie order of those with payoff above `above`."""
    return min((found for found in every(problem) if found.payoff > above), key=lambda f: f.order, default=None)
