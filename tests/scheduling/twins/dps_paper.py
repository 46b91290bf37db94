"""Algorithms 2 to 4 of the DPS paper, literally as they are printed, with their faults, slow on purpose.

The point of comparison for the exact kernel, never used to decide anything. Where the text leaves a choice (window,
`<` or `<=`, completion by the horizon) the caller makes it; placements are stored as moved, with at least one PS.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints


@dataclass(frozen=True)
class PaperAnswer:
    """What the paper's algorithms report and what their placement really earns."""

    reported: float
    true: float
    start: int
    completion: int
    workers: dict[int, int]
    pss: dict[int, int]
    worker: int
    ps: int


@dataclass
class Tables:
    """Free units and prices of one worker type and one PS type over one window, as lists by server."""

    free_w: list[int]
    free_p: list[int]
    alpha_a: list[float]
    beta_a: list[float]
    alpha: list[float]
    beta: list[float]
    servers: list[int]
    ratio: Fraction


@dataclass(frozen=True)
class Candidate:
    cost: float
    y: dict[int, int]
    z: dict[int, int]


def best_schedule(
    bid: Bid, inventory: Inventory, *, start: int, used: Ints, prices: Floats, tail: int = 0
) -> PaperAnswer | None:
    """Algorithm 2. Strict `r + Delta < a` is a delay one longer; `tail` = 1 is the inclusive window."""
    best: PaperAnswer | None = None
    end = start + len(used)
    for w in range(len(inventory.workers)):
        for p in range(len(inventory.parameter_servers)):
            for a in range(max(start, bid.arrival), end):
                for count in range(1, bid.chunks + 1):
                    found = _tuple(bid, inventory, w, p, a, count, (start, end, tail), used, prices)
                    if found is not None and found.reported > (0.0 if best is None else best.reported):
                        best = found
    return best


def _tuple(
    bid: Bid,
    inventory: Inventory,
    w: int,
    p: int,
    a: int,
    count: int,
    horizon: tuple[int, int, int],
    used: Ints,
    prices: Floats,
) -> PaperAnswer | None:
    """Lines 3 to 8 of Algorithm 2: the better of COST_C and COST_D."""
    start, end, tail = horizon
    together = bid.worker_time[w] + bid.ps_time[p]
    best: PaperAnswer | None = None
    for algorithm, step in ((_cost_c, together), (_cost_d, together + bid.transfer_time[w])):
        d = max(1, ceil(bid.work * step / count))
        if a + d + tail > end:
            continue
        rows = slice(a - start, a - start + d + tail)
        tables = _tables(bid, inventory, w, p, a, used[rows], prices[rows])
        found = algorithm(tables, count, bid.chunks)
        if found is None:
            continue
        value = bid.utility.at(a + d - bid.arrival)
        true = sum(tables.alpha[s] * n for s, n in found.y.items()) + sum(
            tables.beta[s] * n for s, n in found.z.items()
        )
        if best is None or value - found.cost > best.reported:
            best = PaperAnswer(value - found.cost, value - true, a, a + d, found.y, found.z, w, p)
    return best


def _tables(bid: Bid, inventory: Inventory, w: int, p: int, a: int, used: Ints, prices: Floats) -> Tables:
    rw, rp = inventory.workers[w].demand.index(1), inventory.parameter_servers[p].demand.index(1)
    free = inventory.capacity - used.max(axis=0)
    total = prices.sum(axis=0)
    return Tables(
        free_w=free[:, rw].tolist(),
        free_p=free[:, rp].tolist(),
        alpha_a=prices[0, :, rw].tolist(),
        beta_a=prices[0, :, rp].tolist(),
        alpha=total[:, rw].tolist(),
        beta=total[:, rp].tolist(),
        servers=[s for s in range(len(inventory.servers)) if bid.arrival + bid.delay[s] <= a],
        ratio=inventory.workers[w].bandwidth_mbps / inventory.parameter_servers[p].bandwidth_mbps,
    )


def _cost_c(tables: Tables, count: int, chunks: int) -> Candidate | None:
    """Algorithm 4: all on the server that is cheapest *in the first slot*."""
    able = [s for s in tables.servers if tables.free_w[s] >= count and tables.free_p[s] >= 1]
    if not able:
        return None
    s = min(able, key=lambda s: tables.alpha_a[s] * count + tables.beta_a[s])
    return Candidate(tables.alpha[s] * count + tables.beta[s], {s: count}, {s: 1})


def _cost_d(tables: Tables, count: int, chunks: int) -> Candidate | None:
    """Algorithm 3: workers cheapest first by the first slot's price, then one server for the PSs."""
    order = sorted(tables.servers, key=lambda s: tables.alpha_a[s])
    left = count
    y: dict[int, int] = {}
    last = -1
    for position, s in enumerate(order):  # lines 5 to 8
        y[s] = min(tables.free_w[s], chunks - sum(y.values()), left)
        left -= y[s]
        if y[s] > 0:
            last = position
    if left > 0:
        return None
    candidates = [*_before_last(tables, order, y, last, count), *_from_last(tables, order, y, last, count)]
    return min(candidates, key=lambda candidate: candidate.cost, default=None)


def _before_last(tables: Tables, order: list[int], y: dict[int, int], last: int, count: int) -> Iterator[Candidate]:
    """Lines 14 to 19: PSs on a server before the last used one; none at all if the workers there suffice."""
    cost_w = sum(tables.alpha[s] * n for s, n in y.items())
    for s in order[:last]:
        pss = ceil((count - y[s]) * tables.ratio)
        if max(pss, 1) <= tables.free_p[s]:
            yield Candidate(cost_w + tables.beta[s] * pss, dict(y), {s: max(pss, 1)})


def _from_last(tables: Tables, order: list[int], y: dict[int, int], last: int, count: int) -> Iterator[Candidate]:
    """Lines 20 to 35: PSs on the last used server or a later one, stored only after workers have moved there."""
    cost_w = sum(tables.alpha[s] * n for s, n in y.items())
    ratio = float(tables.ratio)
    for host in order[last:]:
        room, moved = tables.free_w[host] - y[host], dict(y)
        cost = cost_w + tables.beta[host] * ratio * (count - moved[host])
        for source in reversed(order[: last + 1]):
            gain = tables.alpha_a[host] - tables.alpha_a[source] - ratio * tables.beta_a[host]
            if gain > 0 or room <= 0:  # line 24; line 32 breaks
                break
            moves = min(moved[source], room)
            room -= moves
            cost += gain * moves  # line 26: a difference of one slot, added once
            moved[source] -= moves
            moved[host] += moves
            # Line 27 counts the moved workers twice.
            pss = max(1, ceil((count - moved[host] - moves) * tables.ratio))
            if pss <= tables.free_p[host]:
                yield Candidate(cost, {s: n for s, n in moved.items() if n}, {host: pss})
