"""Weighted completion by trying everything: every placement of a job, and every schedule of a few jobs together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product

from tests.scheduling.twins.documents.numbers import TIE, Document, exact, money, whole

Counts = tuple[int, ...]
"""Machines by server."""
Cells = dict[tuple[int, int, int], int]
"""Units in use by slot, server and resource."""


@dataclass(frozen=True)
class Way:
    """Machines that stay the same for `slots` slots, whenever that is."""

    slots: int
    m: int
    p: int
    y: Counts
    s: Counts
    units: tuple[tuple[int, int, int], ...]
    """Server, resource and units, where there are any."""

    @property
    def together(self) -> bool:
        """Whether everything is on one server."""
        return sum(1 for y, s in zip(self.y, self.s, strict=True) if y or s) == 1

    @property
    def order(self) -> tuple[int | Counts, ...]:
        """Among equal costs, completions and starts: fewest workers, first types, first host, fewest beside it."""
        hosts = [h for h, n in enumerate(self.s) if n]
        if not hosts:
            hosts = [h for h, n in enumerate(self.y) if n] if self.together else [len(self.y)]
        beside = self.y[hosts[0]] if hosts[0] < len(self.y) else 0
        elsewhere = tuple(-n for n in self.y)
        return sum(self.y), self.m, self.p, hosts[0], int(not self.together), beside, elsewhere

    def document(self, start: int) -> Document:
        """The schedule in the result format."""
        return {
            "t": start,
            "L": self.slots,
            "m": self.m,
            "p": self.p,
            "q": int(self.together),
            "y": {str(h): n for h, n in enumerate(self.y) if n},
            "s": {str(h): n for h, n in enumerate(self.s) if n},
        }


@dataclass(frozen=True)
class Placed:
    """A way that begins in slot `start`."""

    start: int
    way: Way
    cost: Decimal = Decimal(0)

    @property
    def completion(self) -> int:
        return self.start + self.way.slots

    @property
    def order(self) -> tuple[int | tuple[int | Counts, ...], ...]:
        return self.completion, self.start, self.way.order


class Cluster:
    """An instance: the ways of its jobs, and prices."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.capacity: list[list[int]] = document["servers"]
        self.ring = document["arch"] == "ring"
        self.ways = cache(self._ways)

    def job(self, name: object) -> Document:
        return next(job for job in self.document["jobs"] if job["id"] == name)

    def _ways(self, name: object) -> list[Way]:
        """Every placement that fits the empty cluster; PSs may be on several servers."""
        job = self.job(name)
        found = []
        for m, worker in enumerate(self.document["workers"]):
            for y in self._counts(worker, job["D"]):
                if not any(y):
                    continue
                if self.ring:
                    found += [self._way(job, m, -1, y, (0,) * len(y))]
                    continue
                for p, ps in enumerate(self.document["pss"]):
                    ratio = Fraction(worker[self.document["bw"]], ps[self.document["bw"]])
                    most = max(1, whole(sum(y) * ratio))
                    for s in self._counts(ps, most):
                        # (2i): the PSs of every host carry all workers on other servers.
                        if any(s) and all((sum(y) - y[h]) * ratio <= n for h, n in enumerate(s) if n):
                            found.append(self._way(job, m, p, y, s))
        return [way for way in found if all(n <= self.capacity[h][r] for h, r, n in way.units)]

    def _counts(self, demand: list[int], most: int) -> Iterator[Counts]:
        """Machines on each server, `most` in all at most, as many as fit if they were alone."""
        rooms = [min(row[r] // n for r, n in enumerate(demand) if n) for row in self.capacity]
        for counts in product(*(range(min(room, most) + 1) for room in rooms)):
            if sum(counts) <= most:
                yield counts

    def _way(self, job: Document, m: int, p: int, y: Counts, s: Counts) -> Way:
        worker = self.document["workers"][m]
        ps = [0] * len(worker) if p < 0 else self.document["pss"][p]
        units = tuple(
            (h, r, a * worker[r] + b * ps[r])
            for h, (a, b) in enumerate(zip(y, s, strict=True))
            for r in range(len(worker))
            if a * worker[r] + b * ps[r]
        )
        together = sum(1 for a, b in zip(y, s, strict=True) if a or b) == 1
        return Way(self.slots(job, m, p, sum(y), together=together), m, p, y, s, units)

    def slots(self, job: Document, m: int, p: int, n: int, *, together: bool) -> int:
        """max(1, ceil(E D K k / N)); gradients are pushed and parameters pulled, so a transfer counts twice."""
        transfer = Fraction(0) if together else 2 * exact(job["comm"][m])
        if self.ring:
            step = exact(job["v"][m]) + (exact(job["U"]) + transfer) * Fraction(n - 1, n)
        else:
            step = exact(job["v"][m]) + exact(job["U"][p]) + transfer
        return max(1, whole(int(job["E"]) * int(job["D"]) * int(job["K"]) * step / n))

    def price(self, base: Fraction, used: int, capacity: int) -> Decimal:
        """The price (11) of a unit for a slot: lambda^(beta / C) - 1, times kappa."""
        kappa = money(exact(self.document.get("kappa", 1)))
        return kappa * (money(base) ** (Decimal(used) / Decimal(capacity)) - 1)

    def best(self, name: object, used: Cells, *, first: int, last: int, base: Fraction = Fraction(1)) -> Placed | None:
        """The least cost of a job that begins in slot `first` or later and is complete by slot `last`."""
        return next(iter(self.all_best(name, used, first=first, last=last, base=base)), None)

    def all_best(
        self, name: object, used: Cells, *, first: int, last: int, base: Fraction = Fraction(1)
    ) -> list[Placed]:
        """All ways of least cost, in the order in which they are preferred."""
        price = cache(lambda n, capacity: self.price(base, n, capacity))
        found: list[Placed] = []
        for way in self.ways(name):
            for start in range(first, last - way.slots + 1):
                cost = Decimal(0)
                for t in range(start, start + way.slots):
                    for h, r, n in way.units:
                        in_use = used.get((t, h, r), 0)
                        if in_use + n > self.capacity[h][r]:
                            cost = Decimal("Infinity")
                        elif base != 1 and in_use and cost.is_finite():
                            cost += n * price(in_use, self.capacity[h][r])
                    if not cost.is_finite():
                        break
                if cost.is_finite():
                    found.append(Placed(start, way, cost))
                    if base == 1:
                        break
        least = min((placed.cost for placed in found), default=Decimal(0))
        return sorted((one for one in found if one.cost <= least + TIE), key=lambda placed: placed.order)

    def density(self, job: Document) -> Fraction:
        """Weight for the least share of the cluster x slots that the job needs on one server."""
        total = [sum(row[r] for row in self.capacity) for r in range(len(self.capacity[0]))]

        def share(demand: Sequence[int]) -> Fraction:
            return sum((Fraction(n, total[r]) for r, n in enumerate(demand) if total[r]), Fraction(0))

        def room(demand: Sequence[int]) -> int:
            return sum(min(row[r] // n for r, n in enumerate(demand) if n) for row in self.capacity)

        pss = [(-1, [0])] if self.ring else [(p, ps) for p, ps in enumerate(self.document["pss"]) if room(ps)]
        volumes = [
            self.slots(job, m, p, n, together=True) * (n * share(worker) + share(ps))
            for m, worker in enumerate(self.document["workers"])
            for p, ps in pss
            for n in range(1, min(job["D"], room(worker)) + 1)
        ]
        return exact(job["w"]) / min(volumes) if volumes else Fraction(0)


def commit(used: Cells, placed: Placed, sign: int = 1) -> None:
    """Count what a schedule holds as in use, or, with sign -1, no longer."""
    for t in range(placed.start, placed.completion):
        for h, r, n in placed.way.units:
            used[t, h, r] = used.get((t, h, r), 0) + sign * n


def in_use(document: Document) -> Cells:
    """`beta`, slot by slot before tau."""
    return {
        (t + 1, h, r): units
        for h, table in enumerate(document.get("beta") or [])
        for r, row in enumerate(table)
        for t, units in enumerate(row)
        if units and t + 1 < document["tau"]
    }


ORDERS: dict[str, Callable[[Cluster, Document], tuple[Fraction, int]]] = {
    "density": lambda cluster, job: (-cluster.density(job), job["a"]),
    "weight": lambda cluster, job: (-exact(job["w"]), job["a"]),
    "index": lambda cluster, job: (Fraction(0), job["a"]),
}
"""Orders of jobs; ties as in the file."""


def in_order(cluster: Cluster, jobs: Iterable[Document], order: str = "density") -> list[Document]:
    return sorted(jobs, key=lambda job: ORDERS[order](cluster, job))


def pack(
    cluster: Cluster,
    jobs: Sequence[Document],
    used: Cells,
    windows: Iterable[tuple[int, int]],
    base: Fraction = Fraction(1),
) -> dict[str, Placed]:
    """A_maxweight in window after window: each job at its least cost, if its weight is more. `used` grows."""
    placed: dict[str, Placed] = {}
    for first, last in windows:
        for job in jobs:
            name = str(job["id"])
            best = None if name in placed else cluster.best(job["id"], used, first=first, last=last, base=base)
            if best is not None and best.cost < money(exact(job["w"])):
                commit(used, best)
                placed[name] = best
        if len(placed) == len(jobs):
            break
    return placed


def batch_weight(cluster: Cluster, order: str, base: Fraction) -> int:
    """The weight that A_maxweight places by tau, all jobs there from slot 1."""
    document = cluster.document
    jobs = in_order(cluster, [job | {"a": 1} for job in document["jobs"]], order)
    placed = pack(cluster, jobs, {}, [(1, document["tau"])], base)
    return sum(int(job["w"]) for job in document["jobs"] if str(job["id"]) in placed)


def rolling(cluster: Cluster) -> dict[str, int]:
    """Completions where, at every arrival and completion, all jobs that have not started are planned again."""
    jobs = sorted(cluster.document["jobs"], key=lambda job: int(job["a"]))
    plan: dict[str, Placed] = {}
    now = 0
    while True:
        events = [int(job["a"]) for job in jobs] + [placed.completion for placed in plan.values()]
        later = [at for at in events if at > now]
        if not later:
            return {name: placed.completion for name, placed in plan.items()}
        now = min(later)
        # One after the other, as they arrive: each finds the plan of those before it.
        for count in range(1 + sum(1 for job in jobs if job["a"] == now)):
            here = [job for job in jobs if job["a"] < now] + [job for job in jobs if job["a"] == now][:count]
            plan = {name: placed for name, placed in plan.items() if placed.start < now}
            used: Cells = {}
            for placed in plan.values():
                commit(used, placed)
            waiting = [job for job in here if str(job["id"]) not in plan]
            plan |= pack(cluster, in_order(cluster, waiting), used, _doubling(now))


def _doubling(now: int) -> Iterator[tuple[int, int]]:
    reach = 2
    while True:
        yield now, now + reach - 1
        reach *= 2


def by_intervals(cluster: Cluster, *, alpha: int, chained: bool) -> dict[str, int]:
    """Completions where jobs are planned in batches at the ends of slots 1, 2, 4, ... (Algorithms 1 and 2).

    Printed: batch i runs in `alpha` rounds of tau_i slots from alpha x tau_i on, and what is left over is in the next.
    Chained: it runs as soon as the batch before is complete, in rounds until all is placed.
    """
    jobs = cluster.document["jobs"]
    done: dict[str, Placed] = {}
    used: Cells = {}
    tau = 1
    while len(done) < len(jobs):
        batch = in_order(cluster, [job for job in jobs if job["a"] <= tau and str(job["id"]) not in done])
        if chained:
            begin = max([tau, *(placed.completion - 1 for placed in done.values())])
            rounds = 10_000
        else:
            begin, rounds = alpha * tau, alpha
        windows = ((begin + k * tau + 1, begin + (k + 1) * tau) for k in range(rounds if tau > 1 or not chained else 0))
        done |= pack(cluster, batch, used, windows)
        tau *= 2
    return {name: placed.completion for name, placed in done.items()}


def least_total(cluster: Cluster, at_most: int) -> int:
    """The least sum of weight x completion, by trying every way of every job at every start; `at_most` is known."""
    jobs = sorted(cluster.document["jobs"], key=lambda job: -int(job["w"]))
    ways = {job["id"]: _undominated(cluster.ways(job["id"])) for job in jobs}
    best = at_most
    used: Cells = {}

    def fits(placed: Placed) -> bool:
        return all(
            used.get((t, h, r), 0) + n <= cluster.capacity[h][r]
            for t in range(placed.start, placed.completion)
            for h, r, n in placed.way.units
        )

    def soonest(job: Document) -> int:
        """The earliest completion beside what is placed: what is placed later can only make it later."""
        at = int(job["a"]) + 1
        while not any(at - way.slots >= job["a"] and fits(Placed(at - way.slots, way)) for way in ways[job["id"]]):
            at += 1
        return at

    def search(left: list[Document], total: int) -> None:
        nonlocal best
        if not left:
            best = min(best, total)
            return
        floors = [int(job["w"]) * soonest(job) for job in left]
        if total + sum(floors) >= best:
            return
        job, rest = left[0], left[1:]
        weight = int(job["w"])
        at = floors[0] // weight
        while total + weight * at + sum(floors[1:]) < best:
            for way in ways[job["id"]]:
                placed = Placed(at - way.slots, way)
                if placed.start >= job["a"] and fits(placed):
                    commit(used, placed)
                    search(rest, total + weight * at)
                    commit(used, placed, -1)
            at += 1

    search(jobs, 0)
    return best


def _undominated(ways: list[Way]) -> list[Way]:
    """Those that no other one beats in slots and in all it holds."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda way: (way.slots, sum(n for *_, n in way.units))):
        held = {(h, r): n for h, r, n in way.units}
        if not any(
            other.slots <= way.slots and all(n <= held.get((h, r), 0) for h, r, n in other.units) for other in kept
        ):
            kept.append(way)
    return kept
