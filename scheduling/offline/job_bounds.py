"""A lower bound on the total time of jobs that looks at whole jobs: edge or cloud, and when complete at the edge."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy

from scheduling.model.bid import Bid
from scheduling.model.errors import SchedulingError
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints
from scheduling.preemptive.workers import TICKS, Task, Workers
from scheduling.solvers.milp import SolverFailed

PARTS = (0, 1, 2, 3, 4, 6)
"""Parameters of the dual feasible functions; 0 is the identity."""
AT_ONCE = 30
"""Largest number of cuts that are added in a round."""
INTEGER_ROUNDS = 12
"""Largest number of rounds with integers; each gives a bound."""
GAP = 1e-3
"""Relative gap of each integer program."""
NODES = 10_000
"""Limit of the nodes of each integer program: a number and not a time, so that a bound depends on no machine. Programs
of the paper's settings need a few."""
CHOSEN = 1e-9
"""Values up to this one count as 0."""
SERVER_PARTS = (0, 1, 2)
"""Parameters of the functions that are looked at server by server."""
TOGETHER = 80
"""Cuts that are looked at together, server by server."""
COARSER = 4
"""Completions are known up to this many steps while fractions of jobs may be chosen."""
Cut = tuple[int, int, int]
"""Begin and end of an interval, ticks, and the parameter of a function."""
Span = tuple[int, int, int]
"""A job, and the ticks [from, until) in which it is complete at the edge: a choice."""


class _Weighted(NamedTuple):
    """A cut that counts an interval on some servers more than on others: any weights give a valid one."""

    cuts: Ints
    """Begin and end of an interval, ticks, and the parameter of a function, C x 3."""
    weights: Floats
    """Weight of a worker in each of these on each server, C x S."""


@dataclass(frozen=True)
class _Job:
    """A job that the edge can complete before the cloud; times in ticks."""

    earliest: int
    """Completion at the edge, if it were there alone."""
    cloud: int
    """Completion in the cloud."""
    chunks: int
    each: int
    ready: Ints
    """Ends of uploads, in order, K."""
    workers: Ints
    """Number of workers with each of these uploads, K."""
    at_server: Ints
    """End of the upload to each server with workers of the type, S."""

    def shares(self, until: int) -> Ints:
        """Return the chunks that are ready at each time if all are complete by `until` and as many as can be are early.

        A worker completes no more chunks than its time from the upload until then has room for.
        """
        room = self.workers * np.maximum(0, (until - self.ready) // self.each)
        return np.diff(np.minimum(np.cumsum(room), self.chunks), prepend=0)


@dataclass(frozen=True)
class _Parts:
    """Chunks of a job that is complete at the edge in [from, until), and that are uploaded at the same time; P each."""

    choice: Ints
    first: Ints
    """End of their upload."""
    until: Ints
    each: Ints
    chunks: Ints

    def within(self, intervals: Ints) -> Ints:
        """Return the ticks in which a chunk is at least processed on its worker in intervals [begin, end), I x P."""
        begin, end = intervals[:, :1], intervals[:, 1:]
        inside = np.maximum(0, np.minimum(end, self.until) - np.maximum(begin, self.first))
        needed: Ints = np.maximum(0, self.each - (self.until - self.first - inside))
        return needed

    def counted(self, cuts: Ints) -> Floats:
        """Return what a chunk at least counts in cuts (begin, end, parameter), C x P; a worker holds 1 at most."""
        found = np.zeros((len(cuts), len(self.first)))
        for m in np.unique(cuts[:, 2]).tolist():
            with_m = cuts[:, 2] == m
            intervals = cuts[with_m, :2]
            found[with_m] = _measure(self.within(intervals), intervals, m)
        return found


def least_jct(bids: Sequence[Bid], inventory: Inventory, *, step: float = 1 / 16, ticks: int = TICKS) -> float:
    """Compute a lower bound on the total time from arrival to completion of all jobs, slots.

    No schedule that processes each chunk on one worker or in the cloud is below it, preemptive or not, with all
    arrivals known. Who has a chunk in the cloud is complete no sooner than if the whole job were there. So each job is
    all at the edge or all in the cloud, and the edge saves some jobs some time. At the edge a job is complete no sooner
    than if it were alone, and a chunk that is uploaded at f and complete by c is processed in any interval for at
    least its length less what of [f, c) is outside. As many chunks as can be have the earliest uploads. The chunks of a
    worker fit in every interval, and so do their lengths under every dual feasible function (half an interval counts as
    half, and more as all of it, and so on): W workers hold no more than W of them. Where all of that holds, the chosen
    jobs are dealt to servers: a chunk has one server in all intervals, and uploads that are early for one job are late
    for another. If they do not fit, the dual variables of this linear program are the weights of another cut.
    Completions are known up to a span of time; spans that are chosen are halved until none is longer than a step (than
    four of them while fractions of jobs may be chosen). What such an integer program saves at most is subtracted from
    the times in the cloud. No limit is a time, so the bound is the same on every machine.

    Parameters
    ----------
    bids
        Jobs, all of which run.
    inventory
        With a cloud; its size, parameter servers and storage are not limits here.
    step
        Slots up to which a completion is known; a shorter one gives a higher bound.
    ticks
        In a slot.

    Raises
    ------
    SchedulingError
        If a job has nowhere to run, or no cloud.
    SolverFailed
        If an integer program ends without a solution.
    """
    workers = Workers(inventory, ticks)
    total, by_type = 0, dict[int, list[_Job]]()
    for bid in bids:
        task = workers.task(bid)
        if task is None or not workers.count[workers.clouds, task.worker].any():
            raise SchedulingError(f"expected a cloud with workers for job {bid.id}, got none")
        delay = np.array(bid.delay, dtype=np.int64)
        away = int(delay[workers.clouds[workers.count[workers.clouds, task.worker] > 0]].min()) * ticks + task.alone
        total += away
        job = _at_edge(bid, task, workers, delay, away)
        if job is not None and job.earliest < job.cloud:
            by_type.setdefault(task.worker, []).append(job)
    saved = 0.0
    for kind, jobs in by_type.items():
        _, on_server = np.unique(workers.server[workers.of_type[kind]], return_counts=True)
        saved += _most(jobs, on_server, max(1, int(step * ticks)), ticks)
    return total / ticks - saved


def _at_edge(bid: Bid, task: Task, workers: Workers, delay: Ints, away: int) -> _Job | None:
    """Return the job as one of the edge; None if no worker there has its type."""
    server = workers.server[workers.of_type[task.worker]]
    ready = delay[server] * workers.ticks
    if not len(ready):
        return None
    arrival = bid.arrival * workers.ticks
    rounds = np.arange(1, bid.chunks + 1, dtype=np.int64) * task.each
    ends = np.sort((ready[:, None] + rounds[None, : max(1, away // task.each)]).ravel())
    earliest = int(ends[bid.chunks - 1]) if len(ends) >= bid.chunks else away
    times, workers_of = np.unique(ready, return_counts=True)
    at_server = arrival + delay[np.unique(server)] * workers.ticks
    return _Job(arrival + earliest, arrival + away, bid.chunks, task.each, arrival + times, workers_of, at_server)


def _parts(jobs: Sequence[_Job], spans: Sequence[Span]) -> _Parts:
    rows = []
    for i, (j, _, until) in enumerate(spans):
        shares = zip(jobs[j].ready.tolist(), jobs[j].shares(until).tolist(), strict=True)
        rows += [(i, first, until, jobs[j].each, chunks) for first, chunks in shares if chunks]
    return _Parts(*np.array(rows, dtype=np.int64).T)


def _at_servers(jobs: Sequence[_Job], spans: Sequence[Span], on_server: Ints) -> _Parts:
    """Return as many chunks of each choice as each server has room for, N x S."""
    rows = []
    for i, (j, _, until) in enumerate(spans):
        job = jobs[j]
        room = on_server * np.maximum(0, (until - job.at_server) // job.each)
        one = np.ones_like(room)
        rows.append(np.array([i * one, job.at_server, until * one, job.each * one, room]))
    return _Parts(*np.concatenate(rows, axis=1))


def _most(jobs: Sequence[_Job], on_server: Ints, step: int, ticks: int) -> float:
    """Return the most slots that the edge can save these jobs, all of one type, with that many workers on servers, S.

    Cuts are added until none is violated, and spans that are chosen are halved until none is longer than a step: first
    with fractions of choices, then with integers. Servers are looked at one by one only with integers.
    """
    workers = int(on_server.sum())
    spans = [(j, job.earliest, job.cloud) for j, job in enumerate(jobs)]
    cuts, weighted = list[Cut](), list[_Weighted]()
    best, rounds, integer = np.inf, 0, False
    while rounds < INTEGER_ROUNDS:
        longest = step if integer else COARSER * step
        parts = _parts(jobs, spans)
        pooled = _rows(parts, cuts, len(spans))
        by_server, limits = _weighted_rows(jobs, spans, weighted, on_server)
        rows = scipy.sparse.vstack([pooled, scipy.sparse.csr_array(by_server)])
        result = _solve(
            jobs, spans, rows, np.concatenate([np.full(len(cuts), workers), limits]), ticks, integer=integer
        )
        best = min(best, -(result.mip_dual_bound if integer else result.fun))
        new = _violated(parts, result.x, workers, cuts)
        taken = result.x > CHOSEN
        chosen = [span for span, x in zip(spans, result.x.tolist(), strict=True) if x > 0.5]
        overfull = _overfull(jobs, chosen, on_server) if integer and chosen and not new else []
        wide = [bool(taken[i]) and until - low > longest for i, (_, low, until) in enumerate(spans)]
        cuts += new
        weighted += overfull
        rounds += integer
        if any(wide) and (integer or not new):
            halved = (_split(one, longest) if split else [one] for one, split in zip(spans, wide, strict=True))
            spans = list(chain.from_iterable(halved))
        elif not new and not overfull:
            if integer:
                break
            integer = True
    return float(best)


def _split(span: Span, longest: int) -> list[Span]:
    """Return the halves of a span, with the earlier one halved again until it is no longer than that."""
    (j, low, until), later = span, list[Span]()
    while until - low > longest:
        middle = (low + until) // 2
        later.append((j, middle, until))
        until = middle
    return [(j, low, until), *reversed(later)]


def _solve(
    jobs: Sequence[_Job],
    spans: Sequence[Span],
    rows: "scipy.sparse.csr_array",
    limits: Floats,
    ticks: int,
    *,
    integer: bool,
) -> "scipy.optimize.OptimizeResult":
    n = len(spans)
    once = scipy.sparse.csr_array((np.ones(n), ([j for j, _, _ in spans], np.arange(n))), shape=(len(jobs), n))
    result = scipy.optimize.milp(
        -np.array([jobs[j].cloud - low for j, low, _ in spans]) / ticks,
        constraints=scipy.optimize.LinearConstraint(
            scipy.sparse.vstack([once, rows]),
            -np.inf,
            np.concatenate([np.ones(len(jobs)), limits]),
        ),
        integrality=np.full(n, int(integer)),
        bounds=scipy.optimize.Bounds(0, 1),
        options={"node_limit": NODES, "mip_rel_gap": GAP} if integer else {},
    )
    if result.x is None:
        raise SolverFailed(f"HiGHS: {result.message}")
    return result


def _rows(parts: _Parts, cuts: Sequence[Cut], spans: int) -> "scipy.sparse.csr_array":
    """Return the coefficients of the cuts, C x N."""
    rows = parts.chunks * parts.counted(np.array(cuts, dtype=np.int64).reshape(-1, 3))
    count = len(parts.choice)
    of_span = scipy.sparse.csr_array((np.ones(count), (np.arange(count), parts.choice)), shape=(count, spans))
    return scipy.sparse.csr_array(rows) @ of_span


def _violated(parts: _Parts, x: Floats, workers: int, cuts: Collection[Cut]) -> list[Cut]:
    """Return the most violated cuts."""
    # Intervals that begin with a later upload of a job cost twice the time and cut off next to nothing.
    begins, ends = np.unique(parts.first[np.diff(parts.choice, prepend=-1) > 0]), np.unique(parts.until)
    intervals = np.array([(begin, end) for begin in begins.tolist() for end in ends.tolist() if end > begin])
    chosen = np.flatnonzero(x[parts.choice] > CHOSEN)
    some = _Parts(*(column[chosen] for column in vars(parts).values()))
    needed, weight = some.within(intervals), some.chunks * x[some.choice]
    known = set(cuts)
    found = []
    for m in PARTS:
        excess = _measure(needed, intervals, m) @ weight - workers
        over = np.flatnonzero(excess > 1e-6 * workers).tolist()
        found += [(float(excess[i]), (*intervals[i].tolist(), m)) for i in over]
    # Cuts of intervals that begin or end at the same time say nearly the same: programs with all of them are slower.
    begun, ended, kept = set[int](), set[int](), list[Cut]()
    for _, cut in sorted(found, reverse=True):
        if cut not in known and cut[0] not in begun and cut[1] not in ended:
            begun.add(cut[0])
            ended.add(cut[1])
            kept.append(cut)
    return kept[:AT_ONCE]


def _overfull(jobs: Sequence[_Job], chosen: Sequence[Span], on_server: Ints) -> list[_Weighted]:
    """Return cuts that no schedule violates and these choices do; none if their chunks can be dealt to servers.

    The chunks of each job are dealt so that cuts hold as little as possible beyond the workers that there are. The
    first one returned is that of all together, then those of single ones that are violated, too.
    """
    parts = _at_servers(jobs, chosen, on_server)
    cuts = _fullest(jobs, chosen, parts)
    n, c, s = len(chosen), len(cuts), len(on_server)
    loads = parts.counted(cuts)
    cut, part = loads.nonzero()
    beyond = np.arange(c * s)
    # The stubs of linprog know no sparse matrices; the solver does.
    held: Any = scipy.sparse.csr_array(
        (
            np.concatenate([loads[cut, part], np.full(c * s, -1.0)]),
            (np.concatenate([cut * s + part % s, beyond]), np.concatenate([part, n * s + beyond])),
        ),
        shape=(c * s, (n + c) * s),
    )
    of_job: Any = scipy.sparse.csr_array((np.ones(n * s), (parts.choice, np.arange(n * s))), shape=(n, (n + c) * s))
    most = np.concatenate([parts.chunks.astype(float), np.full(c * s, np.inf)])
    result = scipy.optimize.linprog(
        np.concatenate([np.zeros(n * s), np.ones(c * s)]),
        A_ub=held,
        b_ub=np.tile(on_server.astype(float), c),
        A_eq=of_job,
        b_eq=np.array([float(jobs[j].chunks) for j, _, _ in chosen]),
        bounds=[(0.0, limit) for limit in most.tolist()],
        method="highs",
    )
    if result.x is None:
        raise SolverFailed(f"HiGHS: {result.message}")
    duals = np.asarray(result.ineqlin.marginals, dtype=np.float64)
    weights: Floats = np.maximum(0.0, -duals).round(6).reshape(c, s)
    some = np.flatnonzero(weights.any(axis=1))
    candidates = [_Weighted(cuts[some], weights[some])]
    candidates += [_Weighted(cuts[[k]], weights[[k]]) for k in some.tolist() if len(some) > 1]
    rows, limits = _weighted_rows(jobs, chosen, candidates, on_server)
    violated = rows.sum(axis=1) > limits + 1e-6 * on_server.sum()
    return [one for one, yes in zip(candidates, violated, strict=True) if yes]


def _fullest(jobs: Sequence[_Job], chosen: Sequence[Span], parts: _Parts) -> Ints:
    """Return the cuts, C x 3, that hold most if every job has its earliest uploads."""
    begins, ends = np.unique(parts.first).tolist(), np.unique(parts.until).tolist()
    cuts = np.array([(begin, end, m) for begin in begins for end in ends if end > begin for m in SERVER_PARTS])
    early = _parts(jobs, chosen)
    held = early.counted(cuts) @ early.chunks
    return cuts[np.argsort(-held, kind="stable")[:TOGETHER]]


def _weighted_rows(
    jobs: Sequence[_Job], spans: Sequence[Span], cuts: Sequence[_Weighted], on_server: Ints
) -> tuple[Floats, Floats]:
    """Return the coefficients of weighted cuts, C x N, and their limits, C.

    A choice counts as what its chunks hold, times the weights, if they are dealt to the servers where that is least.
    """
    rows, limits = np.zeros((len(cuts), len(spans))), np.zeros(len(cuts))
    if not cuts:
        return rows, limits
    parts = _at_servers(jobs, spans, on_server)
    room = parts.chunks.reshape(len(spans), -1)
    chunks = np.array([[jobs[j].chunks] for j, _, _ in spans])
    for c, (some, weights) in enumerate(cuts):
        loads = parts.counted(some).reshape(len(some), *room.shape)
        cost = np.einsum("cns,cs->ns", loads, weights)
        order = np.argsort(cost, axis=1, kind="stable")
        dealt = np.minimum(np.cumsum(np.take_along_axis(room, order, 1), axis=1), chunks)
        rows[c] = (np.diff(dealt, axis=1, prepend=0) * np.take_along_axis(cost, order, 1)).sum(axis=1)
        limits[c] = (weights * on_server).sum()
    return rows, limits


def _measure(needed: Ints, intervals: Ints, m: int) -> Floats:
    """Return a dual feasible function of needed / length, I x N: if some are at most 1 together, so are their values.

    With x (m + 1) rounded down, divided by m, and x itself if nothing is rounded (m = 0: always x).

    References
    ----------
    Fekete and Schepers, New classes of fast lower bounds for bin packing problems, Mathematical Programming 91 (2001).
    """
    length = intervals[:, 1:] - intervals[:, :1]
    share = needed / length
    if m == 0:
        return share
    whole, rest = np.divmod(needed * (m + 1), length)
    values: Floats = np.where(rest == 0, share, whole / m)
    return values
