"""Preemptive edge-cloud scheduling chunk by chunk in exact fractions: slow, obvious, and no arrays."""

from collections import Counter
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

END = Fraction(10**9)


@dataclass
class Chunk:
    job: Any
    each: Fraction
    left: Fraction
    release: Fraction
    rank: Fraction
    number: int
    done: Fraction | None = None


@dataclass(frozen=True)
class Piece:
    """A stretch in which a worker (-1: the cloud) processes a chunk."""

    job: Any
    worker: int
    chunk: int
    start: Fraction
    end: Fraction


@dataclass
class Outcome:
    completion: dict[Any, Fraction]
    dispatch: dict[Any, list[int]]
    preemptions: int
    alpha: dict[Any, list[Fraction]]
    pieces: list[Piece]


Log = list[tuple[Chunk, Fraction, Fraction]]


def work(
    chunks: list[Chunk], start: Fraction, end: Fraction, last: Chunk | None = None, log: Log | None = None
) -> tuple[Chunk | None, int]:
    """One worker from start to end: always the first in rank of what is uploaded; who ran last, and preemptions."""
    now, preemptions = start, 0
    while now < end:
        waiting = [c for c in chunks if c.done is None]
        ready = [c for c in waiting if c.release <= now]
        soon = min([c.release for c in waiting if c.release > now], default=end)
        if not ready:
            now = min(soon, end)
            continue
        first = min(ready, key=lambda c: (c.rank, c.number))
        if last is not None and last is not first and last.done is None and last.left < last.each:
            preemptions += 1
        last = first
        until = min(now + first.left, end, soon)
        first.left -= until - now
        if log is not None:
            log.append((first, now, until))
        now = until
        if first.left == 0:
            first.done = now
    return last, preemptions


class Cluster:
    def __init__(self, document: dict[str, Any], ageing: int) -> None:
        self.ageing = ageing
        self.workers = [(s, kind) for s, row in enumerate(document["servers"]) for kind in row["workers"]]
        self.limits = [row.get("storage") for row in document["servers"]]
        self.jobs = {job["id"]: job for job in document["jobs"]}
        self.has_cloud = document["cloud"]
        self.chunks: list[list[Chunk]] = [[] for _ in self.workers]
        self.last: list[Chunk | None] = [None] * len(self.workers)
        self.now, self.number, self.preemptions = Fraction(0), 0, 0
        self.cloud: dict[Any, Fraction] = {}
        self.pieces: list[Piece] = []
        self.sent: dict[Any, list[int]] = {}
        self.behind: dict[Any, Fraction] = {}
        """Ranks of jobs that joined behind all others."""

    def advance(self, to: Fraction) -> None:
        for w, chunks in enumerate(self.chunks):
            log: Log = []
            self.last[w], more = work(chunks, self.now, to, self.last[w], log)
            self.preemptions += more
            self.pieces += [Piece(c.job, w, c.number, start, end) for c, start, end in log]
        self.now = to

    def completion(self, name: Any) -> Fraction | None:
        """None while something of the job is not complete."""
        ends = [c.done for chunks in self.chunks for c in chunks if c.job == name]
        if name in self.cloud:
            ends.append(self.cloud[name])
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None

    def there(self, name: Any) -> bool:
        """Whether the job is not complete."""
        end = self.completion(name)
        return end is None or end > self.now

    def rank(self, job: dict[str, Any]) -> Fraction:
        if job["id"] in self.behind:
            return self.behind[job["id"]]
        return number(job["D"]) * number(job["p0"]) + self.ageing * number(job["r"])

    def stored(self) -> list[Fraction]:
        """What is stored on each server: the chunks of every job that is not complete."""
        total = [Fraction(0)] * len(self.limits)
        for w, chunks in enumerate(self.chunks):
            for chunk in chunks:
                if self.there(chunk.job):
                    total[self.workers[w][0]] += number(self.jobs[chunk.job].get("chunk_size", 0))
        return total


Plan = tuple[list[int], bool, list[Fraction]]


def number(value: Any) -> Fraction:
    return Fraction(str(value))


def simulate(document: dict[str, Any], rule: str, *, limited: bool = False, ageing: int = 0) -> Outcome:
    """Run a document of the shared format; `limited`: servers store what they can; `ageing`: added for coming late."""
    cluster = Cluster(document, ageing)
    sent = cluster.sent
    alpha: dict[Any, list[Fraction]] = {}
    for job in sorted(document["jobs"], key=lambda job: number(job["r"])):
        cluster.advance(number(job["r"]))
        places, alone, alpha[job["id"]] = choose(cluster, job, rule, limited=limited)
        sent[job["id"]] = places
        p0, p1 = number(job["p0"]), number(job["p1"])
        for w in places:
            if w < 0:
                begin = cluster.now + number(job["delta_cloud"])
                end = cluster.cloud[job["id"]] = begin + (p1 if alone else p0)
                cluster.pieces.append(Piece(job["id"], -1, cluster.number, begin, end))
                cluster.number += 1
            else:
                release = cluster.now + number(job["delta"][cluster.workers[w][0]])
                rank = cluster.rank(job)
                cluster.chunks[w].append(Chunk(job["id"], p0, p0, release, rank, cluster.number))
                cluster.number += 1
    cluster.advance(END)
    ends = {name: done for name in sent if (done := cluster.completion(name)) is not None}
    return Outcome(ends, sent, cluster.preemptions, alpha, cluster.pieces)


Times = dict[int, Fraction]


def outlook(cluster: Cluster, job: dict[str, Any]) -> tuple[Times, Times, Times]:
    """For each worker: when work of its rank is over, what a chunk delays, when all work is over."""
    p0 = number(job["p0"])
    before: Times = {}
    harm: Times = {}
    everything: Times = {}
    for w, (s, kind) in enumerate(cluster.workers):
        if kind != job.get("worker_type", 0):
            continue
        delay = number(job["delta"][s])
        ahead = [copy(c) for c in cluster.chunks[w] if c.done is None]
        work(ahead, cluster.now, cluster.now + delay)
        ahead = [c for c in ahead if c.done is None]
        before[w] = delay + sum(c.left for c in ahead if c.rank <= cluster.rank(job))
        everything[w] = delay + sum(c.left for c in ahead)
        harm[w] = p0 * sum(Fraction(1, cluster.jobs[c.job]["D"]) for c in ahead if c.rank > cluster.rank(job))
    return before, harm, everything


def choose(cluster: Cluster, job: dict[str, Any], rule: str, *, limited: bool) -> Plan:
    """Worker of each chunk in the order of placing (-1: cloud), whether without communication, and each least Q."""
    n, p0, p1 = job["D"], number(job["p0"]), number(job["p1"])
    away = number(job["delta_cloud"]) if cluster.has_cloud else None
    before, harm, everything = outlook(cluster, job)

    def greedy(*, first_alone: bool) -> Plan:
        q = {w: (before[w] + p0) / n + harm[w] for w in before}
        stored, size = cluster.stored(), number(job.get("chunk_size", 0))
        places: list[int] = []
        alpha: list[Fraction] = []
        while len(places) < n:
            open_to = [w for w in q if not limited or fits(cluster, stored, size, w)]
            best = min(open_to, key=lambda w: (q[w], w), default=None)
            alone = first_alone and not places
            cloud = None if away is None else (away + (p1 if alone else p0)) / n
            if cloud is not None and (best is None or cloud < q[best]):
                left = n - len(places)
                return places + [-1] * left, alone, alpha + [cloud] * left
            if best is None:
                return [], False, []
            places.append(best)
            alpha.append(q[best])
            q[best] += p0 / n
            stored[cluster.workers[best][0]] += size
        return places, False, alpha

    if rule == "marginal" and away is not None:
        return marginal(cluster, job, before, everything, limited=limited)
    if rule == "paper":
        return greedy(first_alone=True)
    places, alone, alpha = greedy(first_alone=False)
    counts = Counter(w for w in places if w >= 0)
    ends = [before[w] + k * p0 for w, k in counts.items()]
    if away is not None and places:
        ends += [away + p0] * (-1 in places)
        if away + p1 <= max(ends) + sum(k * harm[w] for w, k in counts.items()):
            return [-1] * n, True, [(away + p1) / n] * n
    return places, alone, alpha


def marginal(cluster: Cluster, job: dict[str, Any], before: Times, everything: Times, *, limited: bool) -> Plan:
    """The least growth of all completions and price: by rank, behind all others, or in the cloud."""
    n, away = job["D"], number(job["delta_cloud"]) + number(job["p1"])
    price = price_of_work(cluster, job, before, everything)
    waiting = [c for w in before for c in cluster.chunks[w] if c.done is None]
    last = max((c.rank for c in waiting), default=Fraction(0))
    in_cloud: Plan = ([-1] * n, True, [away / n] * n)
    best, least, behind = in_cloud, away, False
    for ahead, passes in ((before, True), (everything, False)):
        if not passes and last <= cluster.rank(job):
            continue
        places, ends = earliest(cluster, job, ahead, limited=limited)
        if len(places) < n:
            continue
        cost = max(ends) + price
        if passes:
            cost += growth(cluster, job, places)
        if cost < least:
            best, least, behind = (places, False, [end / n for end in ends]), cost, not passes
    if behind:
        cluster.behind[job["id"]] = last
    return best


def price_of_work(cluster: Cluster, job: dict[str, Any], before: Times, everything: Times) -> Fraction:
    """The mean saving for the work of the jobs here, by how much waits and how much comes."""
    present = [other for name, other in cluster.jobs.items() if name in cluster.sent and cluster.there(name)]
    savers = [other for other in present if saving(cluster, other) > 0]
    if not savers or not before:
        return Fraction(0)
    work_of_savers: Fraction = sum(other["D"] * number(other["p0"]) for other in savers)
    density = sum((saving(cluster, other) for other in savers), Fraction(0)) / work_of_savers
    away = number(job["delta_cloud"]) + number(job["p1"])
    waits = sum(everything[w] - number(job["delta"][cluster.workers[w][0]]) for w in before)
    mine = job["D"] * number(job["p0"])
    load = (waits + mine / 2) / (len(before) * away)
    mean = sum(number(other["delta_cloud"]) + number(other["p1"]) for other in savers) / len(savers)
    first = next(cluster.jobs[name] for name in cluster.sent if cluster.there(name))
    span = min(mean, cluster.now - number(first["r"]) + mean / 40)
    comes = work_of_savers / (len(cluster.workers) * span)
    enough = min(Fraction(1), Fraction(len(present), 5))
    price: Fraction = enough * enough * density * mine * (load + 3 * comes / (3 + comes)) / 2
    return price


def saving(cluster: Cluster, job: dict[str, Any]) -> Fraction:
    """Return the time that an idle edge saves over the cloud: chunks dealt evenly, all uploads the least."""
    here = [number(job["delta"][s]) for s, kind in cluster.workers if kind == job.get("worker_type", 0)]
    if not here:
        return Fraction(0)
    rounds: int = -(-job["D"] // len(here))
    return max(Fraction(0), number(job["delta_cloud"]) + number(job["p1"]) - min(here) - rounds * number(job["p0"]))


def earliest(cluster: Cluster, job: dict[str, Any], ahead: Times, *, limited: bool) -> tuple[list[int], list[Fraction]]:
    """Each chunk to the worker that completes it first, while there is storage; and when."""
    p0, size, stored = number(job["p0"]), number(job.get("chunk_size", 0)), cluster.stored()
    free = dict(ahead)
    places: list[int] = []
    ends: list[Fraction] = []
    while len(places) < job["D"]:
        open_to = [w for w in free if not limited or fits(cluster, stored, size, w)]
        if not open_to:
            break
        w = min(open_to, key=lambda w: (free[w], w))
        free[w] += p0
        stored[cluster.workers[w][0]] += size
        places.append(w)
        ends.append(free[w])
    return places, ends


def growth(cluster: Cluster, job: dict[str, Any], places: list[int]) -> Fraction:
    """Return the growth of other jobs' completions: all that waits runs to the end, with this job and without."""
    totals = []
    for new in ([], places):
        ends: dict[Any, Fraction] = dict(cluster.cloud)
        for w, queue in enumerate(cluster.chunks):
            chunks = [copy(c) for c in queue]
            release = cluster.now + number(job["delta"][cluster.workers[w][0]])
            chunks += [
                Chunk(job["id"], number(job["p0"]), number(job["p0"]), release, cluster.rank(job), cluster.number + i)
                for i in range(new.count(w))
            ]
            work(chunks, cluster.now, END)
            for c in chunks:
                if c.job != job["id"] and c.done is not None:
                    ends[c.job] = max(ends.get(c.job, c.done), c.done)
        totals.append(sum(ends.values(), Fraction(0)))
    return totals[1] - totals[0]


def fits(cluster: Cluster, stored: list[Fraction], size: Fraction, worker: int) -> bool:
    limit = cluster.limits[cluster.workers[worker][0]]
    return limit is None or stored[cluster.workers[worker][0]] + size <= number(limit)
