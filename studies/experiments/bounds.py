"""What no policy can exceed on a workload: one bound for all of them, the same bytes each time."""

from typing import Final

from scheduling.model.types import Json
from scheduling.offline import Question, lagrangian
from studies.workloads.simulation.replay import Progress
from studies.workloads.workload import Workload

ENOUGH_S: Final = 1e9
"""Steps are counted, not timed: a bound that depends on how fast a machine is would not be the same twice."""
FEWEST, MOST = 50, 500
"""Steps of the descent."""
WORK: Final = 2e9
"""Jobs x slots x steps: some 10 CPU-seconds."""
MOST_SLOTS: Final = 100_000
"""Looked at one by one. Jobs that come after a gap of years must not fill the memory; any end gives a bound."""


def bound_of(workload: Workload, progress: Progress) -> Json:
    """An upper bound on welfare that holds for every schedule of every policy: `kind`, `covers`, `value`, `steps`.

    `progress` is told how far the descent is, in jobs.
    """
    bids = workload.jobs.bids
    if not bids:
        return {"kind": "alone", "covers": "any", "value": 0.0, "steps": 0}
    end = min(bids[-1].arrival + workload.plan.horizon, MOST_SLOTS)
    steps = int(min(MOST, max(FEWEST, WORK // (len(bids) * end))))
    asked = 0

    def left() -> float:
        nonlocal asked
        asked += 1
        progress(min(asked, steps) * len(bids) // steps, len(bids))
        return ENOUGH_S

    question = Question(bids, workload.inventory, start=0, end=end)
    answer = lagrangian(question, left, steps=steps).answer
    told = {"kind": str(answer.kind), "covers": str(answer.covers)}
    return {**told, "value": answer.bound, "steps": answer.steps}
