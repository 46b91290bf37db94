"""The least total time of jobs whose chunks never move, as integer programs over whole slots."""

from collections import defaultdict
from itertools import pairwise
from math import ceil

from scheduling.offline.problem import OfflineProblem
from scheduling.offline.program import Solved, TooLarge
from scheduling.offline.queued_greedy import queued_greedy
from scheduling.offline.queued_job import QueuedJob, queued_job
from scheduling.preemptive.workers import Workers
from scheduling.solvers.milp import NEAR, IntegerProgram
from scheduling.solvers.time_limit import Left


def queued_optimum(problem: OfflineProblem, most: int, left: Left) -> Solved:
    """Chunks of a job are dealt to workers of the edge and to the cloud, where none waits.

    Parameters
    ----------
    most
        Columns of a program.

    Raises
    ------
    TooLarge
        If there are more pairs of a job and a worker than that.
    InvalidField
        If some chunk does not take whole slots, at least one: then no schedule of whole slots need be the best. If a
        job has nowhere to run.

    Notes
    -----
    A job has workers of its ideal type only, so jobs of one type do not meet those of another: a program for each.
    The solver looks for less than the objective of the best list schedule, which bounds each completion.
    """
    workers = Workers(problem.inventory, 1)
    of_type: dict[int, list[QueuedJob]] = defaultdict(list)
    for i, bid in enumerate(problem.bids):
        job = queued_job(i, bid, problem, workers)
        of_type[job.type].append(job)
    since = -float(sum(bid.arrival - problem.start for bid in problem.bids))
    total = Solved(since, since, optimal=True)
    for jobs in sorted(of_type.values(), key=len):
        total = _both(total, _least(problem, jobs, most, left))
    return total


def _least(problem: OfflineProblem, jobs: list[QueuedJob], most: int, left: Left) -> Solved:
    """The least sum of completions of jobs of one type, counted from the start."""
    if sum(len(job.ready) for job in jobs) > most:
        raise TooLarge(f"more than {most} pairs of a job and a worker")
    late = sum(job.earliest for job in jobs if job.earliest > problem.slots)
    if late and not problem.open_end:
        return Solved(None, None, optimal=False)
    # A job that even alone is complete after the end takes nothing from the others before it.
    within = [job for job in jobs if job.earliest <= problem.slots]
    rest = _least_within(problem, within, most, left) if within else Solved(0, 0, optimal=True)
    return _both(Solved(late, late, optimal=True), rest)


def _least_within(problem: OfflineProblem, jobs: list[QueuedJob], most: int, left: Left) -> Solved:
    """The same of jobs that alone are complete by the end."""
    alone = [job.earliest for job in jobs]
    last = problem.slots + problem.open_end
    ends = queued_greedy(jobs, problem.slots, left)
    known = sum(ends) if max(ends) <= last else None
    if known == sum(alone):
        return Solved(known, known, optimal=True)
    program = _Program(most)
    try:
        for job, first in zip(jobs, alone, strict=True):
            # The others take at least what they take alone.
            until = last if known is None else min(last, known - 1 - sum(alone) + first)
            program.add(job, range(first, min(until, problem.slots) + 1), late=until > problem.slots)
    except TooLarge:
        return Solved(sum(alone), known, optimal=False)
    program.share_workers()
    return program.solve(left, known)


def _both(one: Solved, other: Solved) -> Solved:
    """Return the sum of the results of two independent sets of jobs."""
    bound = None if one.bound is None or other.bound is None else one.bound + other.bound
    found = None if one.incumbent is None or other.incumbent is None else one.incumbent + other.incumbent
    return Solved(bound, found, one.optimal and other.optimal)


class _Program:
    """Jobs of one worker type.

    Notes
    -----
    F_j(b) is binary: job j is complete by slot b. x_jw(b) is the number of chunks of j on worker w if F_j(b) = 1, and
    0 otherwise; with those in the cloud they sum to D_j F_j(b). A worker processes one job in a slot. Given all
    completions, the earliest-deadline order keeps them if all slots a < b have room for the chunks that are ready at a
    or later and due by b: sum_j p0_j x_jw(b) <= b - a. This holds for whole slots, too. In the cloud a chunk takes p0,
    or p1 if the whole job is there.
    """

    def __init__(self, most: int) -> None:
        self._rows, self._most = IntegerProgram(), most
        self._jobs: list[tuple[QueuedJob, range]] = []
        self._done: list[int] = []
        self._on: list[dict[int, list[int]]] = []
        """Columns x at the slots of the job's span, by job and worker."""

    def add(self, job: QueuedJob, span: range, *, late: bool) -> None:
        """A job that is complete in some slot of the span, or `late`: in the one after it, without any worker."""
        rows = self._rows
        done = [self._column(low=0.0 if late or by < span[-1] else 1.0, cost=-1.0) for by in span]
        for before, after in pairwise(done):
            rows.row([(after, 1.0), (before, -1.0)], low=0.0)
        rooms = {w: [job.room(w, by) for by in span] for w in job.ready}
        on = {w: self._chunks(room, done) for w, room in rooms.items() if any(room)}
        parts = [[(curve[k], 1.0) for curve in on.values()] for k in range(len(span))]
        if job.cloud is not None:
            away = self._chunks([job.chunks * (by >= job.cloud + job.each) for by in span], done)
            whole = self._column()
            for k, by in enumerate(span):
                parts[k].append((away[k], 1.0))
                if by >= job.cloud + job.alone:
                    parts[k].append((whole, float(job.chunks)))
        for part, column in zip(parts, done, strict=True):
            rows.row([*part, (column, -float(job.chunks))], low=0.0, high=0.0)
        self._jobs.append((job, span))
        self._done += done
        self._on.append(on)

    def _chunks(self, room: list[int], done: list[int]) -> list[int]:
        """Those on one worker, or in the cloud, if the job is complete by each slot: the last are the job's own."""
        at = [self._column(float(most), whole=k == len(room) - 1) for k, most in enumerate(room)]
        for k, most in enumerate(room):
            more, less = [(at[k], 1.0)], [(done[k], -float(most))]
            if k:
                more.append((at[k - 1], -1.0))
                less.append((done[k - 1], float(most)))
                self._rows.row(more, low=0.0)
            self._rows.row(more + less, high=0.0)
        return at

    def share_workers(self) -> None:
        """A worker's time is enough for all it has to do; of equal workers, the first one has the most."""
        workers = sorted({w for on in self._on for w in on})
        equal: dict[tuple[int | None, ...], list[int]] = defaultdict(list)
        for w in workers:
            equal[tuple(job.ready.get(w) for job, _ in self._jobs)].append(w)
            mine = [(job, span, on[w]) for (job, span), on in zip(self._jobs, self._on, strict=True) if w in on]
            for since in sorted({job.ready[w] for job, _, _ in mine}):
                late = [(job.each, span, at) for job, span, at in mine if job.ready[w] >= since]
                for by in range(since + 1, max(span.stop for _, span, _ in late)):
                    terms = [
                        (at[min(by, span[-1]) - span.start], float(each)) for each, span, at in late if by >= span.start
                    ]
                    if len(terms) > 1:
                        self._rows.row(terms, high=float(by - since))
        for first, then in (pair for alike in equal.values() for pair in pairwise(alike)):
            loads = [(on[w][-1], sign) for on in self._on for w, sign in ((first, 1.0), (then, -1.0)) if w in on]
            self._rows.row(loads, low=0.0)

    def solve(self, left: Left, known: int | None) -> Solved:
        """The least sum of completions: less than what is known, or that."""
        latest = sum(span.stop for _, span in self._jobs)
        if known is not None:
            self._rows.row([(column, 1.0) for column in self._done], low=float(latest - known + 1))
        solution = self._rows.solve(left)
        if solution.values is not None:
            known = latest - sum(round(solution.values[column]) for column in self._done)
        if solution.optimal:
            return Solved(known, known, known is not None)
        # Stopped early, the solver may know less than what jobs take alone.
        bound = max(latest + solution.bound, latest - len(self._done))
        return Solved(ceil(bound - NEAR), known, optimal=False)

    def _column(self, high: float = 1.0, *, low: float = 0.0, cost: float = 0.0, whole: bool = True) -> int:
        if self._rows.columns >= self._most:
            raise TooLarge(f"more than {self._most} columns")
        return self._rows.column(low, high, cost=cost, whole=whole)
