"""Runs computed in the test's own process: what a worker's process would answer, without starting one."""

from studies.background import states
from studies.background.processes import conclude
from studies.experiments.child import Workloads, answer
from studies.experiments.computing import RunProgress, order_of
from studies.job_tables import RUNS


def compute_here(*, most: int | None = None) -> int:
    """Compute runs until none waits, or this number; return the number of runs."""
    workloads, count = Workloads(), 0
    while count != most and (attempt := states.claim_next(RUNS)) is not None:
        progress = RunProgress()
        answer(order_of(attempt), workloads, progress.take)
        conclude(attempt, progress)
        count += 1
    return count
