"""Plans computed in the test's own process: what a worker's process would answer, without starting one."""

from threading import Event

from studies.split_learning.plans import states
from studies.split_learning.plans.child import answer
from studies.split_learning.plans.computing import Course, conclude, order_of


def compute_here() -> bool:
    """Compute the next plan that waits; False if there is none."""
    attempt = states.claim_next()
    if attempt is None:
        return False
    course = Course()
    answer(order_of(attempt), Event(), course.take)
    conclude(attempt, course)
    return True
