"""DPS by trying everything: every placement of every number of workers, and every server for their PSs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import product

from tests.scheduling.twins.documents.numbers import Document, exact, money, transfer_slots, value_of, whole
from tests.scheduling.twins.documents.online import Choice, best_of

Cell = tuple[int, int, str, int]
"""Slot, server, role ("w" or "p") and type."""
Usage = frozenset[tuple[Cell, int]]
"""Machines in use in each cell that has any."""


@dataclass(frozen=True)
class Convention:
    """`window` and `start` as instance files name them."""

    window: str
    start: str

    @property
    def tail(self) -> int:
        """Slots held beyond completion."""
        return int(self.window == "inclusive")

    @property
    def name(self) -> str:
        return f"{self.window}_{self.start}"


CONVENTIONS = [Convention(window, start) for window in ("inclusive", "half_open") for start in ("strict", "ge")]


@dataclass(frozen=True)
class Way:
    """A schedule: `n` machines in each cell, complete at slot `completion`."""

    completion: int
    cells: tuple[tuple[Cell, int], ...]
    cost: Decimal


class Cluster:
    """An instance under one convention: prices and room, given what is in use."""

    def __init__(self, document: Document, convention: Convention) -> None:
        self.document, self.convention = document, convention
        self.T: int = document["T"]
        self.prices: dict[tuple[str, int, int, int], Decimal] = {}
        self.servers = range(len(document["servers"]))
        self.bandwidth = {
            (role, i): exact(row["bw_mbps"])
            for role, kind in (("w", "worker_types"), ("p", "ps_types"))
            for i, row in enumerate(document[kind])
        }

    def capacity(self, server: int, role: str, kind: int) -> int:
        row = self.document["servers"][server]
        return int(row["workers" if role == "w" else "pss"][kind])

    @cached_property
    def etas(self) -> dict[tuple[str, int], Decimal]:
        """Eta of every type: given, or 1 + the most that a job of the file offers for a machine and slot."""
        given = self.document.get("prices")
        if given is not None:
            rows = (("w", given["eta_w"]), ("p", given["eta_p"]))
            return {(role, i): money(exact(eta)) for role, etas in rows for i, eta in enumerate(etas)}
        return {(role, i): 1 + max(self._offers(role, i), default=Decimal(0)) for role, i in self.bandwidth}

    def _offers(self, role: str, kind: int) -> Iterator[Decimal]:
        """Utility for a machine and slot: all machines on one server, at the earliest start, any number of workers."""
        for job in self.document["jobs"]:
            start = min(self.first_slot(job, s) for s in self.servers)
            for _, w, p in self._types():
                if kind != (w if role == "w" else p):
                    continue
                for n in range(1, job["chunks"] + 1):
                    d = self.duration(job, w, p, n, together=True)
                    if start + d <= self.T:
                        machines = n if role == "w" else 1
                        yield value_of(job["utility"], start + d - job["arrival"]) / (
                            machines * (d + self.convention.tail)
                        )

    def _types(self) -> Iterator[tuple[Fraction, int, int]]:
        """Bandwidth of a worker over that of a PS, and both types."""
        for w, p in product(range(len(self.document["worker_types"])), range(len(self.document["ps_types"]))):
            yield self.bandwidth["w", w] / self.bandwidth["p", p], w, p

    def first_slot(self, job: Document, server: int) -> int:
        """The first slot in which the job can use a server."""
        return int(job["arrival"]) + int(job["delay"][server]) + int(self.convention.start == "strict")

    def duration(self, job: Document, w: int, p: int, n: int, *, together: bool) -> int:
        batches = int(job["epochs"]) * int(job["chunks"]) * int(job["minibatches"])
        step = exact(job["worker_time"][w]) + exact(job["ps_time"][p])
        if not together:
            bandwidth = self.document["worker_types"][w]["bw_mbps"]
            step += transfer_slots(job["grad_mb"], bandwidth, self.document["slot_seconds"])
        return max(1, whole(batches * step / n))

    def first_usage(self) -> Usage:
        """What is in use before the first job, as far as the convention's ledger reaches."""
        tables = (("w", "initial_worker_usage"), ("p", "initial_ps_usage"))
        return frozenset(
            ((t + 1, s, role, kind), count)
            for role, key in tables
            for t, table in enumerate(self.document.get(key) or [])
            for s, row in enumerate(table)
            for kind, count in enumerate(row)
            if count and t + 1 < self.T + self.convention.tail
        )

    def ways(self, job: Document, used: Usage) -> Iterator[Way]:
        """Every schedule of a job that fits beside what is in use."""
        busy = dict(used)
        for ratio, w, p in self._types():
            for n in range(1, job["chunks"] + 1):
                lengths = {both: self.duration(job, w, p, n, together=both) for both in (True, False)}
                for a in range(job["arrival"], self.T):
                    yield from self._placed(job, busy, (w, p, n, a), lengths, ratio)

    def _placed(
        self,
        job: Document,
        busy: dict[Cell, int],
        what: tuple[int, int, int, int],
        lengths: dict[bool, int],
        ratio: Fraction,
    ) -> Iterator[Way]:
        w, p, n, a = what
        for host in self.servers:
            for counts in product(range(n + 1), repeat=len(self.servers)):
                if sum(counts) != n:
                    continue
                together = counts[host] == n
                pss = max(1, whole((n - counts[host]) * ratio))
                machines = [(s, "w", w, count) for s, count in enumerate(counts) if count] + [(host, "p", p, pss)]
                way = self._way(job, busy, machines, a, lengths[together])
                if way is not None:
                    yield way

    def _way(
        self, job: Document, busy: dict[Cell, int], machines: list[tuple[int, str, int, int]], a: int, d: int
    ) -> Way | None:
        if a + d > self.T or any(a < self.first_slot(job, s) for s, *_ in machines):
            return None
        cells, cost = [], Decimal(0)
        for s, role, kind, count in machines:
            capacity = self.capacity(s, role, kind)
            for t in range(a, a + d + self.convention.tail):
                cell = t, s, role, kind
                if busy.get(cell, 0) + count > capacity:
                    return None
                cost += count * self.price(role, kind, busy.get(cell, 0), capacity)
                cells.append((cell, count))
        return Way(a + d, tuple(cells), cost)

    def price(self, role: str, kind: int, used: int, capacity: int) -> Decimal:
        """eta^(used / capacity) - 1."""
        key = role, kind, used, capacity
        if key not in self.prices:
            self.prices[key] = self.etas[role, kind] ** (Decimal(used) / Decimal(capacity)) - 1
        return self.prices[key]

    def choices(self, job: Document, used: Usage) -> list[Choice]:
        """All schedules of greatest payoff."""

        def found() -> Iterator[Choice]:
            for way in self.ways(job, used):
                value = value_of(job["utility"], way.completion - job["arrival"])
                yield Choice(value - way.cost, value, way.completion, way.cells)

        best = best_of(found())
        return [Choice(c.payoff, c.value, c.t_hat, add(used, c.after)) for c in best]


def add(used: Usage, cells: Sequence[tuple[Cell, int]]) -> Usage:
    """What is in use once these cells are, too."""
    total = dict(used)
    for cell, count in cells:
        total[cell] = total.get(cell, 0) + count
    return frozenset(total.items())


def most_welfare(cluster: Cluster) -> Decimal:
    """The greatest sum of utilities of any subset of jobs, by trying every schedule of each, or none."""
    jobs = cluster.document["jobs"]
    empty = cluster.first_usage()
    alone: list[list[tuple[Decimal, tuple[tuple[Cell, int], ...]]]] = []
    for job in jobs:
        kept = {
            (value_of(job["utility"], way.completion - job["arrival"]), way.cells) for way in cluster.ways(job, empty)
        }
        alone.append(sorted(kept, key=lambda row: (-row[0], row[1])))
    tops = [max((value for value, _ in rows), default=Decimal(0)) for rows in alone]
    limit = {
        (t, s, role, kind): cluster.capacity(s, role, kind)
        for t in range(1, cluster.T + 1)
        for s in cluster.servers
        for role, kind in cluster.bandwidth
    }
    best = Decimal(0)

    def search(j: int, used: Usage, total: Decimal) -> None:
        nonlocal best
        best = max(best, total)
        if j == len(jobs) or total + sum(tops[j:]) <= best:
            return
        busy = dict(used)
        for value, cells in alone[j]:
            if total + value + sum(tops[j + 1 :]) <= best:
                break
            if all(busy.get(cell, 0) + count <= limit[cell] for cell, count in cells):
                search(j + 1, add(used, cells), total + value)
        search(j + 1, used, total)

    search(0, empty, Decimal(0))
    return best
