"""OASiS by trying everything: how many workers in each slot, and every placement of them and of their PSs."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from itertools import product

from tests.scheduling.twins.documents.numbers import TIE, Document, exact, money, transfer_slots, value_of, whole
from tests.scheduling.twins.documents.online import MOST_STATES, Choice, TooManyTies, best_of

Cell = tuple[str, int, int, int]
"""Pool ("worker" or "ps"), slot, server and resource."""
Usage = frozenset[tuple[Cell, Fraction]]
"""Units in use in each cell that has any."""
Counts = tuple[int, ...]
"""Worker-slots or chunks by slot, or machines by server."""
POOLS = ("worker", "ps")


class Cluster:
    """An instance: what a job needs, prices, and room."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.T: int = document["T"]
        self.capacity = {
            pool: [[exact(units) for units in row] for row in document[f"{pool}_servers"]] for pool in POOLS
        }
        self.resources = range(len(self.capacity["worker"][0]))
        self._kept: dict[tuple[str, int, Fraction, Fraction], Decimal] = {}

    def pace(self, job: Document) -> Fraction:
        """rho, slots of a worker for one chunk: M (tau + 2 e / b)."""
        transfer = transfer_slots(job["grad_mb"], job["worker_bw_mbps"], self.document["slot_seconds"])
        return int(job["minibatches"]) * (exact(job["tau"]) + transfer)

    def worker_slots(self, job: Document) -> int:
        """Constraint (2): E N rho, in whole slots."""
        return max(1, whole(int(job["epochs"]) * int(job["chunks"]) * self.pace(job)))

    def pss(self, job: Document, workers: int) -> int | None:
        """Constraints (6) and (7): PSs for the bandwidth of these workers, and no more PSs than workers."""
        needed = whole(workers * exact(job["worker_bw_mbps"]) / exact(job["ps_bw_mbps"]))
        return needed if needed <= workers else None

    def demand(self, job: Document, pool: str) -> list[Fraction]:
        return [exact(units) for units in job[pool]]

    @cached_property
    def logs(self) -> dict[tuple[str, int], tuple[Decimal, Decimal]]:
        """ln L and ln U of each pool and resource: given, or (23) to (26) of the file's own jobs."""
        given = self.document.get("prices")
        found = {}
        for pool, number in (("worker", "1"), ("ps", "2")):
            for r in self.resources:
                asked = any(exact(job[pool][r]) for job in self.document["jobs"])
                if given is None:
                    low, high = self._low(pool), self._high(pool, r) if asked else None
                elif "L1" in given:
                    low = money(exact(given[f"L{number}"])).ln()
                    high = money(exact(given[f"U{number}"][r])).ln() if asked else None
                else:
                    low = money(exact(given[f"lnL{number}"]))
                    high = money(exact(given[f"lnU{number}"][r])) if asked else None
                found[pool, r] = low, low if high is None else max(low, high)
        return found

    def _low(self, pool: str) -> Decimal:
        """(25) and (26), with the largest eta that is allowed: 1 / eta = min(1, least share of all there is)."""
        everything = self.T * sum((units for row in self.capacity[pool] for units in row), Fraction(0))
        rows = []
        for job in self.document["jobs"]:
            late = value_of(job["utility"], self.T - job["arrival"])
            if late > 0 and self._can_be_done(job):
                rows.append((late, self.worker_slots(job) * sum(self.demand(job, pool), Fraction(0))))
        share = min(Fraction(1), *(volume / everything for _, volume in rows))
        return min(late.ln() - money(volume).ln() for late, volume in rows) + money(share / 4).ln()

    def _high(self, pool: str, r: int) -> Decimal:
        """(23) and (24) at the earliest slot in which the job can be over with N workers."""
        offers = []
        for job in self.document["jobs"]:
            units = exact(job[pool][r])
            if units and self._can_be_done(job):
                slots = max(1, whole(int(job["epochs"]) * self.pace(job)))
                offers.append(value_of(job["utility"], slots - 1).ln() - money(units).ln())
        return max(offers)

    def _can_be_done(self, job: Document) -> bool:
        slots = self.T - job["arrival"] + 1
        return self.pss(job, 1) is not None and self.worker_slots(job) <= job["chunks"] * slots

    def price(self, pool: str, r: int, used: Fraction, capacity: Fraction) -> Decimal:
        """L (U / L)^(g / c)."""
        key = pool, r, used, capacity
        if key not in self._kept:
            low, high = self.logs[pool, r]
            self._kept[key] = (low + (high - low) * money(used / capacity)).exp() if capacity else Decimal(0)
        return self._kept[key]

    def first_usage(self) -> Usage:
        """What is in use before the first job."""
        return frozenset(
            ((pool, t + 1, s, r), exact(units))
            for pool in POOLS
            for t, table in enumerate(self.document.get(f"initial_{pool}_usage") or [])
            for s, row in enumerate(table)
            for r, units in enumerate(row)
            if exact(units)
        )

    def placements(self, job: Document, pool: str, t: int, count: int, used: Usage) -> tuple[Decimal, list[Counts]]:
        """The least cost of these machines in a slot, with every placement of that cost; empty if none fits."""
        busy, demand, rows = dict(used), self.demand(job, pool), self.capacity[pool]
        best, found = Decimal("Infinity"), list[Counts]()
        for counts in product(range(count + 1), repeat=len(rows)):
            if sum(counts) != count:
                continue
            cost = Decimal(0)
            for s, n in enumerate(counts):
                for r, units in enumerate(demand):
                    in_use = busy.get((pool, t, s, r), Fraction(0))
                    if n and units and in_use + n * units > rows[s][r]:
                        cost = Decimal("Infinity")
                    elif n and units and cost.is_finite():
                        cost += money(n * units) * self.price(pool, r, in_use, rows[s][r])
            if cost < best - TIE:
                best, found = cost, []
            if cost.is_finite() and cost <= best + TIE:
                best = min(best, cost)
                found.append(counts)
        return best, found

    def slot_cost(self, job: Document, t: int, workers: int, used: Usage) -> Decimal:
        """The least cost of this number of workers and their PSs in a slot."""
        pss = self.pss(job, workers)
        if pss is None:
            return Decimal("Infinity")
        return self.placements(job, "worker", t, workers, used)[0] + self.placements(job, "ps", t, pss, used)[0]

    def plans(self, job: Document, used: Usage, *, chunks: bool) -> Iterator[tuple[Decimal, Decimal, int, Counts]]:
        """Payoff, value, last active slot, and workers in each slot from arrival on: of every feasible plan.

        `chunks`: whole data chunks are trained in every slot, as in the printed Algorithm 2; else worker-slots.
        """
        first, most = job["arrival"], int(job["chunks"])
        slots = range(first, self.T + 1)
        cost_of = cache(lambda t, workers: self.slot_cost(job, t, workers, used))
        if chunks:
            left, per_slot = int(job["epochs"]) * most, [whole(d * self.pace(job)) for d in range(most * 50)]
            per_slot = [workers for workers in per_slot if workers <= most]
        else:
            left, per_slot = self.worker_slots(job), list(range(most + 1))

        def search(k: int, left: int, cost: Decimal, counts: Counts) -> Iterator[tuple[Decimal, Decimal, int, Counts]]:
            if left == 0:
                last = first + max(i for i, n in enumerate(counts) if n)
                value = value_of(job["utility"], last - job["arrival"])
                yield value - cost, value, last, counts
                return
            if k == len(slots) or left > (len(slots) - k) * (len(per_slot) - 1):
                return
            for part in range(min(left, len(per_slot) - 1), -1, -1):
                workers = per_slot[part]
                more = cost_of(slots[k], workers) if workers else Decimal(0)
                if more.is_finite():
                    yield from search(k + 1, left - part, cost + more, (*counts, workers))

        return search(0, left, Decimal(0), ())

    def choices(self, job: Document, used: Usage, *, chunks: bool = False) -> list[Choice]:
        """All schedules of greatest payoff."""
        best = best_of(
            Choice(payoff, value, last, counts) for payoff, value, last, counts in self.plans(job, used, chunks=chunks)
        )
        if not best or best[0].payoff <= TIE:
            return best[:1]
        found: dict[tuple[int, Usage], Choice] = {}
        for choice in best:
            for after in self._deployed(job, used, choice.after):
                found.setdefault((choice.t_hat, after), Choice(choice.payoff, choice.value, choice.t_hat, after))
                if len(found) > MOST_STATES:
                    raise TooManyTies
        return list(found.values())

    def _deployed(self, job: Document, used: Usage, workers: Counts) -> Iterator[Usage]:
        """The use after every cheapest placement of this number of workers in each slot."""
        parts: list[tuple[str, int, list[Counts]]] = []
        for t, n in enumerate(workers, start=job["arrival"]):
            for pool, count in (("worker", n), ("ps", self.pss(job, n) or 0)):
                if count:
                    parts.append((pool, t, self.placements(job, pool, t, count, used)[1]))
        for chosen in product(*(rows for _, _, rows in parts)):
            yield self._add(job, used, [(pool, t, n) for (pool, t, _), n in zip(parts, chosen, strict=True)])

    def after(self, job: Document, used: Usage, schedule: list[Document]) -> Usage:
        """What is in use once a schedule of the result format is committed."""
        rows = [(pool, row["t"], tuple(row[by])) for row in schedule for pool, by in (("worker", "y"), ("ps", "z"))]
        return self._add(job, used, rows)

    def _add(self, job: Document, used: Usage, rows: list[tuple[str, int, Counts]]) -> Usage:
        after = dict(used)
        for pool, t, counts in rows:
            for s, n in enumerate(counts):
                for r, units in enumerate(self.demand(job, pool)):
                    if n and units:
                        after[pool, t, s, r] = after.get((pool, t, s, r), Fraction(0)) + n * units
        return frozenset(after.items())


class SideBySide:
    """What machines of all jobs can run in one slot together, beside what is in use."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.jobs: list[Document] = cluster.document["jobs"]
        self.busy = dict(cluster.first_usage())
        self._fits = cache(self._one_after_the_other)

    def counts(self, t: int) -> Iterator[Counts]:
        """Workers of each job that can run in slot t."""
        ranges = [range(int(job["chunks"]) + 1) if job["arrival"] <= t else range(1) for job in self.jobs]
        for counts in product(*ranges):
            pss = [self.cluster.pss(job, n) for job, n in zip(self.jobs, counts, strict=True)]
            numbers = tuple(n for n in pss if n is not None)
            if len(numbers) < len(pss):
                continue
            if self._fits("worker", self._free("worker", t), counts) and self._fits("ps", self._free("ps", t), numbers):
                yield counts

    def _free(self, pool: str, t: int) -> tuple[tuple[Fraction, ...], ...]:
        rows = self.cluster.capacity[pool]
        return tuple(
            tuple(units - self.busy.get((pool, t, s, r), Fraction(0)) for r, units in enumerate(row))
            for s, row in enumerate(rows)
        )

    def _one_after_the_other(self, pool: str, room: tuple[tuple[Fraction, ...], ...], counts: Counts) -> bool:
        """Whether these machines of each job have room: every server is tried for the next machine."""
        j = next((j for j, n in enumerate(counts) if n), None)
        if j is None:
            return True
        rest = (*counts[:j], counts[j] - 1, *counts[j + 1 :])
        demand = self.cluster.demand(self.jobs[j], pool)
        for s, row in enumerate(room):
            left = tuple(units - asked for units, asked in zip(row, demand, strict=True))
            enough = all(units >= 0 or not asked for units, asked in zip(left, demand, strict=True))
            if enough and self._fits(pool, (*room[:s], left, *room[s + 1 :]), rest):
                return True
        return False


def most_welfare(cluster: Cluster) -> Decimal:
    """The greatest sum of utilities of any subset of jobs: slot by slot, every number of workers of every job."""
    together = SideBySide(cluster)
    jobs = together.jobs
    states: dict[Counts, Decimal] = {tuple(cluster.worker_slots(job) for job in jobs): Decimal(0)}
    for t in range(1, cluster.T + 1):
        able = list(together.counts(t))
        after: dict[Counts, Decimal] = {}
        for left, total in states.items():
            for counts in able:
                now = tuple(max(0, a - b) for a, b in zip(left, counts, strict=True))
                over = [job for job, before, rest in zip(jobs, left, now, strict=True) if before and not rest]
                gained = total + sum(value_of(job["utility"], t - job["arrival"]) for job in over)
                after[now] = max(after.get(now, Decimal(0)), gained)
        states = after
    return max(states.values())
