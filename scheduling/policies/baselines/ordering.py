"""Baselines that order jobs by a priority key: how jobs start and preempt each other."""

from bisect import bisect_right, insort
from collections.abc import Callable
from operator import attrgetter, eq

from scheduling.book.state import Cause, Job
from scheduling.policies.baselines.base import Baseline
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.priority import Key, Priority, Ranked, RankedJobs, sums_behind


class InTurn(Baseline):
    """A baseline that starts jobs in order of priority and preempts running jobs with a greater key."""

    ages = False
    """Whether keys of jobs that wait change from slot to slot."""

    def rank_of(self, task: PassJob, floor: PassState) -> Priority | None:
        """Return the job's priority and gang; None if the job is impossible.

        It depends on the work done before now, and on the current slot only where jobs age.
        """
        raise NotImplementedError

    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        """Start jobs in order of key, preempting greater keys; no job is stopped when only a slot passed."""
        if cause is Cause.SLOT:
            self._start(floor)
        else:
            self._preempt(floor)

    def _start(self, floor: PassState) -> None:
        """Start jobs in order of key that were uploaded.

        Only a job with a promise can have released machines in this slot, and they are used from the next event on.
        """
        ranked = (self._ranked(task.job, floor) for task in floor.uploading() if not task.running)
        for one in sorted((one for one in ranked if one is not None), key=attrgetter("turn")):
            if floor.is_full():
                return
            floor.start(floor.meet(one.job), one.of.gang)

    def _preempt(self, floor: PassState) -> None:
        """Start jobs in order of key, and stop running jobs with a greater key, the greatest first.

        A job that is stopped comes later in the same pass, and may start elsewhere. Jobs that would not fit even if all
        jobs with a greater key were stopped are skipped.
        """
        # Who starts below was passed already, so no other than these can become a victim.
        running = self._running(floor)
        behind, line = running.units_behind, list(self._line(floor).ranked)
        for place, one in enumerate(line, 1):
            gang, worse = one.of.gang, bisect_right(running.keys, one.turn[0])
            more = behind[worse] if worse < len(behind) else None
            if more is None and floor.is_full():
                return  # nobody behind it has anyone to stop, either
            if not floor.may_fit(gang, more) or floor.start(floor.meet(one.job), gang) or more is None:
                continue
            victims = [victim for victim in reversed(running.ranked[worse:]) if floor.runs(victim.job)]
            if floor.displace(floor.meet(one.job), gang, [floor.meet(victim.job) for victim in victims]):
                for victim in victims:
                    if not floor.runs(victim.job):
                        insort(line, victim, lo=place, key=_turn(floor))
                none = [0] * len(floor.room.idle)
                behind = sums_behind([one.units if floor.runs(one.job) else none for one in running.ranked])

    def all_in_order(self, floor: PassState) -> list[Ranked]:
        """Return all possible jobs in order of key, as they were before any job was started or stopped."""
        ranked = sorted([*self._line(floor).ranked, *self._running(floor).ranked], key=attrgetter("turn"))
        turns = [one.turn for one in ranked]
        # Their order of admission takes a look at every job of the book, and few jobs have equal turns.
        return sorted(ranked, key=_turn(floor)) if any(map(eq, turns, turns[1:])) else ranked

    def _line(self, floor: PassState) -> RankedJobs:
        """Return the jobs that waited before the plan began, in order."""
        # Their order is the same at the next event, or in the next slot where jobs age.
        of = (self, floor.now) if self.ages else self
        return floor.memory.row("line", of, floor.line, lambda job: self._ranked(job, floor))

    def _running(self, floor: PassState) -> RankedJobs:
        """Return the jobs that ran before the plan began, in order."""
        return floor.memory.row("running", (self, floor.now), floor.ran, lambda job: self._ranked(job, floor))

    def _ranked(self, job: Job, floor: PassState) -> Ranked | None:
        task = floor.meet(job)
        of = self.rank_of(task, floor)
        return None if of is None else Ranked((of.key, job.bid.arrival), job, of, floor.total(task))


def _turn(floor: PassState) -> Callable[[Ranked], tuple[tuple[Key, int], int]]:
    """Return the key that sorts jobs by priority, then by arrival, then by admission."""
    return lambda one: (one.turn, floor.admitted[one.job.bid.id])
