"""Plans computed in the test's own process: what a worker's process would answer, without starting one."""

from threading import Event

from studies.background import states
from studies.background.processes import conclude
from studies.job_tables import PLANS
from studies.split_learning.plans.child import answer
from studies.split_learning.plans.computing import PlanProgress, order_of


def compute_here() -> bool:
    """Compute the next plan that waits; False if there is none."""
    attempt = states.claim_next(PLANS)
    if attempt is None:
        return False
    progress = PlanProgress()
    answer(order_of(attempt), Event(), progress.take)
    conclude(attempt, progress)
    return True
