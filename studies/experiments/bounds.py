"""Upper bound on the welfare of every policy on a workload, with the same bytes each time."""

from typing import Final

from scheduling.model.types import Json
from scheduling.offline import OfflineProblem, lagrangian
from studies.workloads.simulation.replay import Progress
from studies.workloads.workload import Workload

ENOUGH_S: Final = 1e9
"""Time limit in seconds that is never reached: steps are counted, so that the speed of a machine changes nothing."""
FEWEST, MOST = 50, 500
"""Least and largest number of subgradient steps."""
WORK: Final = 2e9
"""Largest product of jobs, slots and steps: about 10 CPU-seconds."""
MOST_SLOTS: Final = 100_000
"""Largest number of slots counted one by one, so that a gap of years does not fill the memory; any end is valid."""


def bound_of(workload: Workload, progress: Progress) -> Json:
    """Return an upper bound on the welfare of every schedule of every policy: `kind`, `covers`, `value`, `steps`.

    `progress` is called with the progress of the computation, counted in jobs.
    """
    bids = workload.jobs.bids
    if not bids:
        return {"kind": "alone", "covers": "any", "value": 0.0, "steps": 0}
    end = min(bids[-1].arrival + workload.plan.horizon, MOST_SLOTS)
    steps = int(min(MOST, max(FEWEST, WORK // (len(bids) * end))))
    taken = 0

    def left() -> float:
        nonlocal taken
        taken += 1
        progress(min(taken, steps) * len(bids) // steps, len(bids))
        return ENOUGH_S

    problem = OfflineProblem(bids, workload.inventory, start=0, end=end)
    answer = lagrangian(problem, left, steps=steps).answer
    proved = {"kind": str(answer.kind), "covers": str(answer.covers)}
    return {**proved, "value": answer.bound, "steps": answer.steps}
