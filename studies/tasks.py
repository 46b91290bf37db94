"""Celery tasks of offline studies. A task may run twice, late or never: each one reads the rows to find its work.

Each task also computes rows whose worker died (`studies/background/dead_workers.py`).
"""

from collections.abc import Callable
from typing import Any

from celery import shared_task
from celery.worker import state as worker_state

from auctions.runtime.task_errors import errors_logged
from studies.background import states
from studies.background.states import JobTable
from studies.counterfactuals import computing as counterfactuals
from studies.experiments.computing import compute_some
from studies.job_tables import COUNTERFACTUALS, PLAN_RUNS, PLANS, RUNS
from studies.split_learning.plans import computing as plans
from studies.split_learning.runs import computing as plan_runs


@shared_task
def compute_plans() -> bool:
    """Compute one plan that is queued or whose worker died, and wake a worker for the next one."""
    return _compute_one(PLANS, plans.compute_next)


@shared_task
def compute_plan_runs() -> bool:
    """Run one plan whose run is queued or whose worker died, and wake a worker for the next one."""
    return _compute_one(PLAN_RUNS, plan_runs.compute_next)


@shared_task
def compute_counterfactuals() -> bool:
    """Compute one counterfactual that is queued or whose worker died, and wake a worker for the next one."""
    return _compute_one(COUNTERFACTUALS, counterfactuals.compute_next)


@shared_task
def compute_runs() -> int:
    """Compute runs that are queued or whose worker died, for a while; wake other workers while there are more."""
    count = 0
    with errors_logged("computing runs"):
        count = compute_some(_stopping, begun=lambda: _wake_for_more(RUNS))
        if count:
            _wake_for_more(RUNS)
    return count


def _compute_one(table: JobTable[Any], compute_next: Callable[[Callable[[], bool]], bool]) -> bool:
    computed = False
    with errors_logged(f"computing {table.plural}"):
        computed = compute_next(_stopping)
        if computed:
            _wake_for_more(table)
    return computed


def _wake_for_more(table: JobTable[Any]) -> None:
    if not _stopping() and states.anything_to_do(table):
        table.wake()


def _stopping() -> bool:
    """Return whether this worker was asked to stop; 0 counts as yes, as it does in Celery."""
    return any(
        asked is not None and asked is not False for asked in (worker_state.should_stop, worker_state.should_terminate)
    )
