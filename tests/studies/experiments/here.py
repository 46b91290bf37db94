"""Runs computed in the test's own process: what a worker's process would answer, without starting one."""

from studies.background import states
from studies.background.processes import conclude
from studies.experiments.child import Workloads, answer
from studies.experiments.computing import Course, order_of
from studies.job_tables import RUNS


def compute_here(*, most: int | None = None) -> int:
    """Compute runs until none waits, or so many; how many."""
    workloads, count = Workloads(), 0
    while count != most and (attempt := states.claim_next(RUNS)) is not None:
        course = Course()
        answer(order_of(attempt), workloads, course.take)
        conclude(attempt, course)
        count += 1
    return count
