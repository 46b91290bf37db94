"""Computing runs that wait, one after another in one process, which draws each workload once."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from scheduling.model.types import Json
from studies.background import processes, states
from studies.background.processes import Gone, Limits, NoAnswer, Process, Stopping, Watch, compute
from studies.background.rows import Stage
from studies.background.states import Attempt
from studies.experiments.runs import RUNS
from studies.models import Run, Trace

COMMAND: Final = (sys.executable, "-m", "studies.experiments.child")
LIMITS: Final = Limits(start=300.0, work=3600.0, cancel=0.0)
"""A start loads kernels, a minute where they must be compiled; half a run is worth nothing, so it is ended at once."""
LONGEST_S: Final = 60.0
"""After that the worker looks at what else waits for it before it begins another run."""
RESULT: Final = ("outcome", "outcome_sha256", "workload_sha256", "timing", "commit", "sources")


@dataclass
class Course(processes.Course):
    """What was told of a run so far."""

    known: Json = field(default_factory=dict)

    def keep(self, row: Json) -> None:
        """How far it is, or its outcome."""
        if "outcome" in row:
            self.result = {name: row[name] for name in RESULT}
        self.error = row.get("error")
        self.known |= {name: row[name] for name in ("decided", "jobs") if name in row}
        self.is_new = True

    def fields(self) -> Json:
        """Columns of the row."""
        return self.known


def compute_some(stopping: Stopping = lambda: False, *, begun: Callable[[], None] = lambda: None) -> int:
    """Compute runs to their ends until none waits or a while is over; how many.

    `stopping`: whether this worker has to end. `begun` is called when the first run is this worker's.
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
    """Whether the process, which is at this stage, can take another order."""
    course = Course(is_new=True, stage=stage)
    try:
        process.order(order_of(attempt))
        compute(attempt, course, process, Watch(LIMITS, stopping))
    except Gone:
        return False
    except NoAnswer as error:
        states.fail(attempt, str(error))
        return False
    except Exception as error:  # whatever it was, the row says so in the end
        states.interrupt(attempt, error)
        return False
    conclude(attempt, course)
    return course.over


def conclude(attempt: Attempt[Run], course: Course) -> None:
    """Write what came of it; who has no answer gives the run back."""
    if course.result is not None:
        states.finish(attempt, **course.fields(), **course.result)
    elif course.error is not None:
        states.fail(attempt, course.error)
    else:
        states.give_back(attempt)


def order_of(attempt: Attempt[Run]) -> Json:
    """What the process is told to compute."""
    run = attempt.row.select_related("experiment").first()
    if run is None:
        raise Gone
    matrix = run.experiment.matrix
    workload = matrix["workloads"][run.workload]
    order: Json = {
        "workload": workload,
        "policy": None if run.policy is None else matrix["policies"][run.policy],
        "seed": run.seed,
    }
    if "trace" in workload:
        found = Trace.objects.values("text", "throughputs").filter(pk=workload["trace"]).first()
        if found is None:  # the experiment was deleted since, and then its trace
            raise Gone
        order |= found
    return order
