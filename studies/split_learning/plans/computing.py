"""Compute waiting plans: start a process for each, watch it, store its progress and enforce its end."""

import sys
from dataclasses import dataclass, field
from typing import Final

from scheduling.model.types import Json
from studies.background import processes, states
from studies.background.models import Stage
from studies.background.processes import Gone, Limits, Process, Stopping, Watch, follow, guarded
from studies.background.states import Attempt
from studies.job_tables import PLANS
from studies.models import ComparisonKind, Plan

COMMAND: Final = (sys.executable, "-m", "studies.split_learning.plans.child")
LONGEST_START_S: Final = 180.0
"""Seconds until kernels are loaded; it takes a minute if they must be compiled."""
LONGEST_ANSWER_S: Final = 30.0
"""Seconds for a process to end after its time is over; a step of a large instance takes a while."""
LONGEST_CANCEL_S: Final = 2.0
"""The same after a cancellation. Then the process is killed, and the last plan that it reported is kept."""
MOST_STEPS: Final = 400
"""Largest number of steps that are kept; of more, every other one is dropped."""


@dataclass
class PlanProgress(processes.JobProgress):
    """All reports of a plan so far."""

    steps: list[list[object]] = field(default_factory=list)
    best: Json | None = None
    """The last reported plan as a result."""

    def keep(self, row: Json) -> None:
        """Keep a step, the best plan so far, or the answer."""
        if "step" in row:
            self._step(row["step"])
        elif "best" in row:
            self.best = row["best"]
        else:
            self.result, self.error = row.get("plan"), row.get("error")

    def fields(self) -> Json:
        """Return the columns to write to the row."""
        if not self.steps:
            return {}
        _, bound, makespan, note = self.steps[-1]
        return {"steps": self.steps, "lower_bound": bound, "makespan": makespan, "note": note}

    def left(self) -> Json:
        """Return the columns of a row whose process gave no answer: its best reported plan with its last bound."""
        known = self.fields()
        if self.best is None:
            return known
        bound = max(self.best["lower_bound"], known.get("lower_bound", 0))
        return known | _columns(self.best | {"lower_bound": bound})

    def final(self) -> Json:
        """Return the columns of a row with a plan."""
        return self.fields() | _columns(self.result or {})

    def _step(self, step: list[object]) -> None:
        """Keep a step; of consecutive steps without news only the first and the latest are kept."""
        same = len(self.steps) > 1 and self.steps[-2][1:3] == self.steps[-1][1:3] == step[1:3]
        self.steps[len(self.steps) - same :] = [step]
        if len(self.steps) > MOST_STEPS:
            self.steps = [self.steps[0], *self.steps[1:-1:2], self.steps[-1]]
        self.is_new = True


def _columns(result: Json) -> Json:
    """Return the columns of a plan."""
    return {"result": result, "makespan": result["makespan"], "lower_bound": result["lower_bound"]}


def compute_next(stopping: Stopping = lambda: False) -> bool:
    """Compute the next waiting plan; False if there was none. `stopping` says whether this worker has to stop."""
    attempt = states.claim_next(PLANS)
    if attempt is None:
        return False
    with guarded(attempt):
        order = order_of(attempt)
        limits = Limits(LONGEST_START_S, order["seconds"] + LONGEST_ANSWER_S, LONGEST_CANCEL_S)
        with Process(COMMAND) as process:
            process.order(order)
            follow(attempt, PlanProgress(is_new=True, stage=Stage.LOADING), process, Watch(limits, stopping))
    return True


def order_of(attempt: Attempt[Plan]) -> Json:
    """Build the order for the process."""
    row = attempt.row.select_related("of").first()
    if row is None:
        raise Gone
    order = {name: getattr(row, name) for name in ("instance", "method", "seconds", "seed")}
    if row.comparison == ComparisonKind.REPLAN and row.of is not None:
        order["before"] = {"instance": row.of.instance, "result": row.of.result}
    return order
