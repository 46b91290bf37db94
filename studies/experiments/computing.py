"""Compute waiting runs one after another in one process, which draws each workload once."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from scheduling.model.types import Json
from studies.background import processes, states
from studies.background.models import Stage
from studies.background.processes import Gone, Limits, Process, Stopping, Watch, follow, guarded
from studies.background.states import Attempt
from studies.experiments.readings import bids_stand
from studies.job_tables import RUNS
from studies.models import Run, Trace

COMMAND: Final = (sys.executable, "-m", "studies.experiments.child")
LIMITS: Final = Limits(start=300.0, work=3600.0, cancel=0.0)
"""Limits in seconds: loading kernels takes a minute if they must be compiled; a cancelled run ends at once."""
LONGEST_S: Final = 60.0
"""Seconds after which the worker checks for other tasks before it begins another run."""
RESULT: Final = ("outcome", "outcome_sha256", "workload_sha256", "timing", "commit", "sources")


@dataclass
class RunProgress(processes.JobProgress):
    """All reports of a run so far."""

    known: Json = field(default_factory=dict)

    def keep(self, row: Json) -> None:
        """Keep a report of progress, or the outcome."""
        if "outcome" in row:
            self.result = {name: row[name] for name in RESULT}
        self.error = row.get("error")
        self.known |= {name: row[name] for name in ("decided", "jobs") if name in row}
        self.is_new = True

    def fields(self) -> Json:
        """Return the columns to write to the row."""
        return self.known


def compute_some(stopping: Stopping = lambda: False, *, begun: Callable[[], None] = lambda: None) -> int:
    """Compute runs until none waits or `LONGEST_S` is over; returns the number of runs.

    `stopping` says whether this worker has to stop. `begun` is called when the worker has claimed its first run.
    """
    count, until = 0, monotonic() + LONGEST_S
    with ExitStack() as kept:
        process: Process | None = None
        while not stopping() and monotonic() < until:
            attempt = states.claim_next(RUNS)
            if attempt is None:
                break
            count += 1
            if count == 1:
                begun()
            fresh = process is None
            process = process or kept.enter_context(Process(COMMAND))
            if not _compute_one(attempt, process, stopping, Stage.LOADING if fresh else Stage.BEGUN):
                process = None
                kept.close()
    return count


def _compute_one(attempt: Attempt[Run], process: Process, stopping: Stopping, stage: Stage) -> bool:
    """Compute one run; returns whether the process can take another order."""
    progress = RunProgress(is_new=True, stage=stage)
    with guarded(attempt):
        process.order(order_of(attempt))
        follow(attempt, progress, process, Watch(LIMITS, stopping))
        return progress.over
    return False


def order_of(attempt: Attempt[Run]) -> Json:
    """Build the order for the process."""
    run = attempt.row.select_related("experiment").first()
    if run is None:
        raise Gone
    matrix = run.experiment.matrix
    workload = matrix["workloads"][run.workload]
    order: Json = {
        "workload": workload,
        "policy": None if run.policy is None else matrix["policies"][run.policy],
        "seed": run.seed,
        "standing": bids_stand(run.experiment),
    }
    if "trace" in workload:
        found = Trace.objects.values("text", "throughputs").filter(pk=workload["trace"]).first()
        if found is None:  # the experiment was deleted since, and then its trace, too
            raise Gone
        order |= found
    return order
