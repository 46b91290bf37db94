"""What a run of preemptive queues took and proves, in fractions, and the least that any schedule takes."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import linprog

from tests.scheduling.twins.documents.numbers import Document
from tests.scheduling.twins.preemptive_exact import Outcome, Piece, number

CLOUD = -1
Span = tuple[Fraction, Fraction]


def workers(document: Document) -> list[tuple[int, int]]:
    """Server and type of each worker, in the order of the file."""
    return [(s, kind) for s, row in enumerate(document["servers"]) for kind in row["workers"]]


def qualified(document: Document, job: Document) -> list[int]:
    """The workers of the job's type."""
    return [w for w, (_, kind) in enumerate(workers(document)) if kind == job.get("worker_type", 0)]


def chunk_ends(outcome: Outcome) -> dict[tuple[Any, int, int], Fraction]:
    """Return the completion of each chunk, by job, worker and number."""
    ends: dict[tuple[Any, int, int], Fraction] = {}
    for piece in outcome.pieces:
        key = piece.job, piece.worker, piece.chunk
        ends[key] = max(ends.get(key, Fraction(0)), piece.end)
    return ends


@dataclass(frozen=True)
class Flow:
    """Time from arrival, summed over jobs: of the mean bit of work, of the mean chunk."""

    fractional: Fraction
    chunks: Fraction


def flow(document: Document, outcome: Outcome) -> Flow:
    jobs = {job["id"]: job for job in document["jobs"]}
    ends = chunk_ends(outcome)
    length: dict[tuple[Any, int, int], Fraction] = defaultdict(Fraction)
    for piece in outcome.pieces:
        length[piece.job, piece.worker, piece.chunk] += piece.end - piece.start
    fractional = Fraction(0)
    for piece in outcome.pieces:
        job = jobs[piece.job]
        part = (piece.end - piece.start) / length[piece.job, piece.worker, piece.chunk] / job["D"]
        fractional += part * ((piece.start + piece.end) / 2 - number(job["r"]))
    chunks = sum(((end - number(jobs[j]["r"])) / jobs[j]["D"] for (j, _, _), end in ends.items()), Fraction(0))
    return Flow(fractional, chunks)


def broken_duals(document: Document, outcome: Outcome) -> list[tuple[Any, int, Fraction, Fraction, Fraction]]:
    """Job, worker, time, alpha and limit where (6a) does not hold: alpha is at most (t - r) / D + p beta.

    Beta of a worker is the sum of 1 / D over the chunks sent to it that are not complete, those in transit too.
    """
    jobs = {job["id"]: job for job in document["jobs"]}
    sent = [(w, number(jobs[j]["r"]), end, Fraction(1, jobs[j]["D"])) for (j, w, _), end in chunk_ends(outcome).items()]
    found = []
    for job in document["jobs"]:
        alpha = max(outcome.alpha[job["id"]])
        for w in qualified(document, job):
            first = number(job["r"]) + number(job["delta"][workers(document)[w][0]])
            mine = [row[1:] for row in sent if row[0] == w]
            changes = sorted({first} | {at for start, end, _ in mine for at in (start, end) if at > first})
            for at in changes:
                beta = sum((part for start, end, part in mine if start <= at < end), Fraction(0))
                limit = (at - number(job["r"])) / job["D"] + number(job["p0"]) * beta
                if alpha > limit:
                    found.append((job["id"], w, at, alpha, limit))
    return found


def ps_hosts(document: Document, outcome: Outcome) -> Counter[str]:
    """Return the hosts of parameter servers, one for each stretch in which a job runs; none is shared (Algorithm 5)."""
    server = {w: s for w, (s, _) in enumerate(workers(document))} | {CLOUD: CLOUD}
    where: dict[Any, Counter[int]] = defaultdict(Counter)
    for piece in outcome.pieces:
        where[piece.job][server[piece.worker]] += piece.end - piece.start  # type: ignore[assignment]
    order = {job["id"]: k for k, job in enumerate(sorted(document["jobs"], key=lambda job: number(job["r"])))}
    stretches = sorted(
        ((start, order[job], end, job) for job in where for start, end in _stretches(outcome.pieces, job)),
    )
    taken: list[tuple[int, Span]] = []
    hosts: Counter[str] = Counter(edge=0, cloud=0, fallback=0, none=0)
    for start, _, end, job in stretches:
        busy = Counter(s for s, (begin, until) in taken if begin <= start < until)
        free = [s for s, row in enumerate(document["servers"]) if len(row["pss"]) > busy[s]]
        if set(where[job]) == {CLOUD}:
            hosts["cloud"] += 1
        elif free:
            hosts["edge"] += 1
            taken.append((max(free, key=lambda s: (where[job][s], -s)), (start, end)))
        else:
            hosts["fallback" if document["cloud"] else "none"] += 1
    return hosts


def _stretches(pieces: list[Piece], job: Any) -> list[Span]:
    """The longest spans in which something of a job is processed."""
    spans: list[Span] = []
    for start, end in sorted((piece.start, piece.end) for piece in pieces if piece.job == job):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((start, end))
    return spans


class NoMigration:
    """The least total time where chunks never move: every deal of chunks, and every order of jobs.

    Given completions, preempting by earliest completion keeps them on every worker, so some order of jobs, the same on
    all workers, is optimal, and a job is not delayed by those after it. `at_most` is the total of a known schedule.
    """

    def __init__(self, document: Document, at_most: Fraction | None = None) -> None:
        self.document = document
        self.jobs: list[Document] = document["jobs"]
        self.server = [s for s, _ in workers(document)]
        self.alone = [
            min(c for _, c in self._ways(job, [[] for _ in self.server])) - number(job["r"]) for job in self.jobs
        ]
        self.best = at_most

    def total(self) -> Fraction:
        """Sum of completion - arrival."""
        self._search(list(range(len(self.jobs))), [[] for _ in self.server], Fraction(0))
        if self.best is None:
            raise ValueError("a job has nowhere to go")
        return self.best

    def _search(self, left: list[int], busy: list[list[Span]], so_far: Fraction) -> None:
        if not left:
            self.best = so_far if self.best is None else min(self.best, so_far)
            return
        for j in left:
            others = [k for k in left if k != j]
            rest = sum((self.alone[k] for k in others), Fraction(0))
            for after, completion in sorted(self._ways(self.jobs[j], busy), key=lambda way: way[1]):
                took = completion - number(self.jobs[j]["r"])
                if self.best is not None and so_far + took + rest >= self.best:
                    break
                self._search(others, after, so_far + took)

    def _ways(self, job: Document, busy: list[list[Span]]) -> Iterator[tuple[list[list[Span]], Fraction]]:
        """Every deal of a job's chunks behind those that go first: what is busy then, and its completion."""
        able = qualified(self.document, job)
        cloud = self.document["cloud"]
        for counts in product(range(job["D"] + 1), repeat=len(able)):
            away = job["D"] - sum(counts)
            if away < 0 or (away and not cloud) or self._again(able, counts, busy):
                continue
            ends, after = [], list(busy)
            if away:
                each = number(job["p1"] if away == job["D"] else job["p0"])
                ends.append(number(job["r"]) + number(job["delta_cloud"]) + each)
            for w, count in zip(able, counts, strict=True):
                if count:
                    release = number(job["r"]) + number(job["delta"][self.server[w]])
                    after[w], end = _filled(busy[w], release, count * number(job["p0"]))
                    ends.append(end)
            yield after, max(ends)

    def _again(self, able: list[int], counts: tuple[int, ...], busy: list[list[Span]]) -> bool:
        """Whether another deal is the same but for the numbers of two workers in the same place with the same to do."""
        return any(
            self.server[able[a]] == self.server[able[b]] and busy[able[a]] == busy[able[b]] and counts[a] < counts[b]
            for a in range(len(able))
            for b in range(a + 1, len(able))
        )


def _filled(busy: list[Span], release: Fraction, left: Fraction) -> tuple[list[Span], Fraction]:
    """Return the next chunk of a worker after this work, as early as possible, and its end."""
    now, added = release, list[Span]()
    for start, end in [*busy, (Fraction(10**9), Fraction(10**9))]:
        part = min(max(Fraction(0), start - now), left)
        if part:
            added.append((now, now + part))
            left -= part
        if not left:
            break
        now = max(now, end)
    return sorted([*busy, *added]), added[-1][1]


def lower_bound(document: Document, horizon: int) -> float:
    """No schedule's total time is below: chunks in parts, on any worker, without communication (Section V).

    A linear program in whole slots, one variable for each job, worker and slot; all times are whole.
    """
    jobs, places = document["jobs"], workers(document)
    columns: list[tuple[int, int, int]] = []
    for j, job in enumerate(jobs):
        ready = {w: int(job["r"]) + int(job["delta"][places[w][0]]) for w in qualified(document, job)}
        if document["cloud"]:
            ready[CLOUD] = int(job["r"]) + int(job["delta_cloud"])
        columns += [(j, w, t) for w, first in ready.items() for t in range(first, horizon)]
    chunks = np.array([job["D"] for job in jobs], dtype=np.float64)
    each = np.array([float(number(job["p1"])) for job in jobs])
    cost = [((t + 0.5 - int(jobs[j]["r"])) / each[j] + 0.5) / chunks[j] for j, _, t in columns]
    limits: dict[tuple[str, int, int], int] = {}
    cells = []
    for n, (j, w, t) in enumerate(columns):
        cells.append((limits.setdefault(("job", j, t), len(limits)), n))
        if w != CLOUD:
            cells.append((limits.setdefault(("worker", w, t), len(limits)), n))
    within = np.zeros((len(limits), len(columns)))
    within[tuple(zip(*cells, strict=True))] = 1.0
    most = [chunks[j] if kind == "job" else 1.0 for kind, j, _ in limits]
    done = np.zeros((len(jobs), len(columns)))
    for n, (j, _, _) in enumerate(columns):
        done[j, n] = 1.0 / each[j]
    result = linprog(cost, A_ub=within, b_ub=most, A_eq=done, b_eq=chunks, method="highs")
    if result.status != 0:
        raise ArithmeticError(result.message)
    return float(f"{result.fun:.9g}")
