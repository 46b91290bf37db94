"""Baselines that order jobs by a priority key: how jobs start and preempt each other."""

from scheduling.book.state import Cause
from scheduling.policies.baselines.base import Baseline
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.preemption import (
    in_order_of_rank,
    newcomer_settles,
    preempt_in_order,
    start_in_order,
)
from scheduling.policies.baselines.priority import Priority


class InTurn(Baseline):
    """A baseline that starts jobs in order of priority and preempts running jobs with a greater key."""

    falling = False
    """Whether keys of jobs that wait stay, and those of jobs that run only fall."""
    ages = False
    """Whether keys of jobs that wait change from slot to slot."""

    def rank_of(self, task: PassJob, floor: PassState) -> Priority | None:
        """Return the job's priority and gang; None if the job is impossible.

        It depends on the work done before now, and on the current slot only where jobs age.
        """
        raise NotImplementedError

    def is_considered(self, _task: PassJob, _floor: PassState) -> bool:
        """Whether a waiting job may fit now although only slots passed."""
        return True

    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        """Start jobs in order of key, preempting greater keys; no job is stopped when only a slot passed."""

        def rank(task: PassJob) -> Priority | None:
            return self.rank(task, floor)

        if cause is None and self.falling and newcomer_settles(floor, self, rank):
            return
        if cause is Cause.SLOT:
            tasks = (task for task in floor.may_start(cause) if self.is_considered(task, floor))
            start_in_order(floor, in_order_of_rank(tasks, rank), preempt=False)
        else:
            preempt_in_order(floor, self.order(floor), rank)

    def order(self, floor: PassState) -> object:
        """Return the cache key of an order of jobs; it changes every slot where jobs age."""
        return (self, floor.now) if self.ages else self

    def rank(self, task: PassJob, floor: PassState) -> Priority | None:
        """Return `rank_of`, cached."""
        return task.known.rank(self, floor.now, lambda: self.rank_of(task, floor), ages=self.ages)
