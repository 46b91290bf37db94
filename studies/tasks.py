"""Celery tasks of offline studies. A task may run twice, late or never: each one reads the rows to find its work."""

from celery import shared_task
from celery.worker import state as worker_state

from auctions.runtime.retrying import retried
from studies.background import states, waking
from studies.counterfactuals import computing as counterfactuals
from studies.counterfactuals.requests import wake as wake_counterfactuals
from studies.counterfactuals.table import COUNTERFACTUALS
from studies.experiments.computing import compute_some
from studies.experiments.table import QUEUE, RUNS, TASK
from studies.split_learning.plans.computing import compute_next
from studies.split_learning.plans.requests import wake
from studies.split_learning.plans.states import anything_to_do


@shared_task
def compute_plans() -> bool:
    """Compute one plan that waits, or whose worker died, and call for the next."""
    computed = False
    with retried("computing plans"):
        computed = compute_next(_stopping)
        if computed and not _stopping() and anything_to_do():
            wake()
    return computed


@shared_task
def compute_runs() -> int:
    """Compute runs that wait, or whose worker died, for a while; how many. Others are called while there are more."""

    def call_another() -> None:
        if not _stopping() and states.anything_to_do(RUNS):
            waking.wake(TASK, queue=QUEUE)

    count = 0
    with retried("computing runs"):
        count = compute_some(_stopping, begun=call_another)
        if count:
            call_another()
    return count


@shared_task
def compute_counterfactuals() -> bool:
    """Compute one counterfactual that waits or whose worker died, and queue the task for the next one."""
    computed = False
    with retried("computing counterfactuals"):
        computed = counterfactuals.compute_next(_stopping)
        if computed and not _stopping() and states.anything_to_do(COUNTERFACTUALS):
            wake_counterfactuals()
    return computed


def _stopping() -> bool:
    """Return whether this worker was asked to stop; 0 counts as yes, as it does in Celery."""
    return any(
        asked is not None and asked is not False for asked in (worker_state.should_stop, worker_state.should_terminate)
    )
