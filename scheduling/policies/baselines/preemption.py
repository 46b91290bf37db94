"""Start jobs in order of a key and preempt running jobs with a greater key."""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter, itemgetter

from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.priority import Key, Priority, Ranked, Row, sums_behind

Ranking = Callable[[PassJob], Priority | None]
"""Return the priority of a job and its allocation; None if it is impossible."""


def start_in_order(floor: PassState, ranked: Sequence[tuple[Key, PassJob, Gang]], *, preempt: bool) -> None:
    """Start jobs in order of key; with `preempt`, stop running jobs with a greater key, the greatest first.

    `ranked` is sorted. A job that is stopped comes later in the same pass, and may start elsewhere.
    """
    # Who starts below was passed already, so no other can become a victim.
    running = [(key, task) for key, task, _ in ranked if task.running] if preempt else []
    keys = [key for key, _ in running]
    for key, task, gang in ranked:
        if not task.running:
            worse = running[bisect_right(keys, key) :]
            if not worse and floor.full:
                return  # nobody behind it has anyone to stop, either
            floor.start_instead(task, gang, (other for _, other in reversed(worse) if other.running))


def in_order_of_rank(tasks: Iterable[PassJob], rank: Ranking) -> list[tuple[Key, PassJob, Gang]]:
    """Return the jobs that have a rank, least key first, equals in the given order."""
    found = ((task, rank(task)) for task in tasks)
    return sorted(((of.key, task, of.gang) for task, of in found if of is not None), key=itemgetter(0))


def newcomer_settles(floor: PassState, policy: object, rank: Ranking) -> bool:
    """Start the new job if that is possible; return whether no other change is necessary.

    Valid if waiting jobs' keys are constant and running jobs' keys only decrease: then only the new job can change the
    plan.
    """
    if not floor.settled:
        return False
    new = floor.newcomer
    mine = rank(new)
    if mine is None:
        return False
    gang = mine.gang
    if floor.start(new, gang):
        return True
    running = floor.ranked_running(policy, rank)
    worse = bisect_right(running.keys, mine.key)
    if worse == len(running.ranked) or not floor.may_fit(gang, running.units_behind[worse]):
        return True
    return not floor.may_fit_instead(new, gang, [floor.meet(one.job) for one in running.ranked[worse:]])


def preempt_in_order(floor: PassState, policy: object, rank: Ranking) -> None:
    """Run `start_in_order` over all jobs, with `preempt`, where keys depend only on the work done before now.

    If the line is known, its order is kept from event to event. Jobs that would not fit even if all jobs with a greater
    key were stopped are skipped.
    """
    line = floor.ranked_line(policy, rank)
    if line is None:
        start_in_order(floor, in_order_of_rank(floor.in_order, rank), preempt=True)
    else:
        _Pass(floor, floor.ranked_running(policy, rank)).over(line)


def all_in_order(floor: PassState, policy: object, rank: Ranking) -> list[Ranked]:
    """Return all possible jobs in order of key, before any job is started or stopped."""
    line = floor.ranked_line(policy, rank)
    if line is None:
        return [*Row().after(tuple(task.job for task in floor.in_order), lambda job: floor.as_ranked(job, rank)).ranked]
    together = sorted([*line, *floor.ranked_running(policy, rank).ranked], key=attrgetter("turn"))
    if any(one.turn == other.turn for one, other in pairwise(together)):
        place = {id(job): number for number, job in enumerate(floor.jobs)}
        together.sort(key=lambda one: (one.turn, place[id(one.job)]))
    return together


class _Pass:
    """One pass over a known line; it creates pass jobs only for the running jobs that it stops."""

    def __init__(self, floor: PassState, running: Row) -> None:
        self.floor = floor
        # Who starts in the pass was passed already, so no other can become a victim.
        self.victims = running.ranked
        self.keys = running.keys
        self.behind = running.units_behind
        """Units that each victim and all behind it still hold."""
        self.worse = 0
        """The first victim whose key is greater than that of the job whose turn it is."""
        self.stopped: list[int] = []
        """Victims that were stopped and whose turn is to come."""
        self.full = floor.full

    def over(self, line: Sequence[Ranked]) -> None:
        """Visit all jobs in order."""
        for one in self._in_turn(line):
            key = one.turn[0]
            while self.worse < len(self.keys) and self.keys[self.worse] <= key:
                self.worse += 1
            nobody = self.worse == len(self.keys)
            if nobody and self.full:
                return  # nobody behind it has anyone to stop, either
            if self.floor.may_fit(one.gang, None if nobody else self.behind[self.worse]):
                self._start(one)

    def _start(self, one: Ranked) -> None:
        floor = self.floor
        standing = (v for v in range(len(self.victims) - 1, self.worse - 1, -1) if self._stands(v))
        if floor.start_instead(floor.meet(one.job), one.gang, (floor.meet(self.victims[v].job) for v in standing)):
            self.full = floor.full
            gone = [v for v in range(self.worse, len(self.victims)) if v not in self.stopped and not self._stands(v)]
            if gone:
                for v in gone:
                    insort(self.stopped, v)
                none = [0] * len(floor.room.idle)
                self.behind = sums_behind(
                    [one.units if self._stands(v) else none for v, one in enumerate(self.victims)]
                )

    def _stands(self, victim: int) -> bool:
        return self.floor.runs(self.victims[victim].job)

    def _in_turn(self, line: Sequence[Ranked]) -> Iterator[Ranked]:
        """Yield the waiting jobs and the jobs that were stopped meanwhile, in order."""
        for one in line:
            while self.stopped and self._before(self.victims[self.stopped[0]], one):
                yield self.victims[self.stopped.pop(0)]
            yield one
        while self.stopped:
            yield self.victims[self.stopped.pop(0)]

    def _before(self, one: Ranked, other: Ranked) -> bool:
        """Whether `one` comes before `other`; ties go to the earlier admission."""
        if one.turn != other.turn:
            return one.turn < other.turn
        return next(job for job in self.floor.jobs if job is one.job or job is other.job) is one.job
