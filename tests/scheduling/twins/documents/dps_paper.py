"""Algorithms 2 to 4 of the DPS paper line by line, faults and all: a second reading beside `twins/dps_paper.py`.

Line numbers are those of the paper's listings. A stored placement has at least one PS; a job completes by the horizon.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from tests.scheduling.twins.documents.dps import Cluster, Usage
from tests.scheduling.twins.documents.numbers import Document, money, value_of, whole

Counts = dict[int, int]
"""Machines by server."""


@dataclass(frozen=True)
class Reported:
    """What the printed algorithms say that a job earns, and what their placement earns."""

    reported: Decimal
    true: Decimal


@dataclass(frozen=True)
class Candidate:
    """A placement and what the listing says it costs."""

    cost: Decimal
    y: Counts
    z: Counts


class Window:
    """One worker type and one PS type in the slots from a to t-hat, by server."""

    def __init__(self, cluster: Cluster, job: Document, w: int, p: int, a: int, d: int, used: Usage) -> None:
        slots = range(a, a + d + cluster.convention.tail)
        busy = dict(used)
        self.reachable = [s for s in cluster.servers if a >= cluster.first_slot(job, s)]
        self.free: dict[str, Counts] = {}
        self.first: dict[str, dict[int, Decimal]] = {}
        self.total: dict[str, dict[int, Decimal]] = {}
        for role, kind in (("w", w), ("p", p)):
            room, first, total = {}, {}, {}
            for s in self.reachable:
                capacity = cluster.capacity(s, role, kind)
                in_use = [busy.get((t, s, role, kind), 0) for t in slots]
                room[s] = capacity - max(in_use)
                prices = [cluster.price(role, kind, n, capacity) if capacity else Decimal(0) for n in in_use]
                first[s], total[s] = prices[0], sum(prices, Decimal(0))
            self.free[role], self.first[role], self.total[role] = room, first, total

    def cost(self, y: Counts, z: Counts) -> Decimal:
        """What a placement costs: window prices times machines."""
        workers = sum((n * self.total["w"][s] for s, n in y.items()), Decimal(0))
        return workers + sum((n * self.total["p"][s] for s, n in z.items()), Decimal(0))


def printed(cluster: Cluster, job: Document, used: Usage) -> Reported | None:
    """Algorithm 2: the first of greatest reported payoff, if that is above 0."""
    best: Reported | None = None
    for ratio, w, p in cluster._types():
        for a in range(job["arrival"], cluster.T + 1):
            for count in range(1, job["chunks"] + 1):
                for together in (True, False):
                    d = cluster.duration(job, w, p, count, together=together)
                    if a + d > cluster.T:
                        continue
                    window = Window(cluster, job, w, p, a, d, used)
                    found = cost_c(window, count) if together else cost_d(window, count, job["chunks"], ratio)
                    if found is None:
                        continue
                    value = value_of(job["utility"], a + d - job["arrival"])
                    new = Reported(value - found.cost, value - window.cost(found.y, found.z))
                    if new.reported > (Decimal(0) if best is None else best.reported):
                        best = new
    return best


def cost_c(window: Window, count: int) -> Candidate | None:
    """Algorithm 4: everything on one server, chosen by the prices of the first slot."""
    fit = [s for s in window.reachable if window.free["w"][s] >= count and window.free["p"][s] >= 1]
    if not fit:
        return None
    s = min(fit, key=lambda s: (window.first["w"][s] * count + window.first["p"][s], s))
    return Candidate(window.cost({s: count}, {s: 1}), {s: count}, {s: 1})


def cost_d(window: Window, count: int, chunks: int, ratio: Fraction) -> Candidate | None:
    """Algorithm 3: workers where the first slot is cheapest, then the best server for the PSs."""
    order = sorted(window.reachable, key=lambda s: (window.first["w"][s], s))
    y: Counts = {}
    for s in order:
        y[s] = min(window.free["w"][s], chunks - sum(y.values()), count - sum(y.values()))
    if sum(y.values()) < count:
        return None
    last = max(i for i, s in enumerate(order) if y[s] > 0)
    cost_w = sum((window.total["w"][s] * n for s, n in y.items()), Decimal(0))
    stored = [*_lines_14_to_19(window, order[:last], y, count, ratio, cost_w)]
    for host in order[last:]:
        stored += _lines_21_to_34(window, host, order[: last + 1], y, count, ratio, cost_w)
    return min(stored, key=lambda candidate: candidate.cost, default=None)


def _lines_14_to_19(
    window: Window, hosts: list[int], y: Counts, count: int, ratio: Fraction, cost_w: Decimal
) -> Iterator[Candidate]:
    for s in hosts:
        needed = whole((count - y[s]) * ratio)
        if max(needed, 1) <= window.free["p"][s]:
            yield Candidate(cost_w + window.total["p"][s] * needed, y, {s: max(needed, 1)})


def _lines_21_to_34(
    window: Window, host: int, sources: list[int], before: Counts, count: int, ratio: Fraction, cost_w: Decimal
) -> Iterator[Candidate]:
    y, spare, part = dict(before), window.free["w"][host] - before[host], money(ratio)
    cost = cost_w + window.total["p"][host] * part * (count - y[host])
    for source in reversed(sources):
        change = window.first["w"][host] - window.first["w"][source] - part * window.first["p"][host]
        if change > 0 or spare <= 0:
            return
        moved = min(y[source], spare)
        spare -= moved
        cost += change * moved
        y[source] -= moved
        y[host] += moved
        z = max(1, whole((count - y[host] - moved) * ratio))
        if z <= window.free["p"][host]:
            yield Candidate(cost, {s: n for s, n in y.items() if n}, {host: z})
