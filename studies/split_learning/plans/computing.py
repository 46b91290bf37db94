"""Computing plans that wait: a process for each, watched, its progress written, its end enforced."""

import sys
from dataclasses import dataclass, field
from typing import Final

from scheduling.model.types import Json
from studies.background import processes
from studies.background.processes import Gone, Limits, NoAnswer, Process, Stopping, Watch, compute
from studies.background.rows import Stage
from studies.models import Question
from studies.split_learning.plans import states
from studies.split_learning.plans.states import Attempt

COMMAND: Final = (sys.executable, "-m", "studies.split_learning.plans.child")
LONGEST_START_S: Final = 180.0
"""Until kernels are loaded: a minute where they must be compiled."""
LONGEST_ANSWER_S: Final = 30.0
"""Until a process that should have ended has; a step of a large instance takes a while."""
LONGEST_CANCEL_S: Final = 2.0
"""The same once somebody cancelled: without an answer by then, the process is ended. What it told last is kept."""
MOST_STEPS: Final = 400
"""That are kept; of more, every other one."""


@dataclass
class Course(processes.Course):
    """What was told of a plan so far."""

    steps: list[list[object]] = field(default_factory=list)
    best: Json | None = None
    """The last plan that was told with its steps, as a result."""

    def keep(self, row: Json) -> None:
        """A step, the best plan by now, or the answer."""
        if "step" in row:
            self._step(row["step"])
        elif "best" in row:
            self.best = row["best"]
        else:
            self.result, self.error = row.get("plan"), row.get("error")

    def fields(self) -> Json:
        """Columns of the row."""
        if not self.steps:
            return {}
        _, bound, makespan, note = self.steps[-1]
        return {"steps": self.steps, "lower_bound": bound, "makespan": makespan, "note": note}

    def left(self) -> Json:
        """Columns of a row whose process gave no answer: the best plan that it told, with the bound it had last."""
        known = self.fields()
        if self.best is None:
            return known
        bound = max(self.best["lower_bound"], known.get("lower_bound", 0))
        return known | {
            "result": self.best | {"lower_bound": bound},
            "makespan": self.best["makespan"],
            "lower_bound": bound,
        }

    def _step(self, step: list[object]) -> None:
        """Keep it; of steps in a row that found nothing new only the first and the latest."""
        same = len(self.steps) > 1 and self.steps[-2][1:3] == self.steps[-1][1:3] == step[1:3]
        self.steps[len(self.steps) - same :] = [step]
        if len(self.steps) > MOST_STEPS:
            self.steps = [self.steps[0], *self.steps[1:-1:2], self.steps[-1]]
        self.is_new = True


def compute_next(stopping: Stopping = lambda: False) -> bool:
    """Compute the next plan to its end; False if there was none. `stopping`: whether this worker has to end."""
    attempt = states.claim_next()
    if attempt is None:
        return False
    course = Course(is_new=True, stage=Stage.LOADING)
    try:
        order = order_of(attempt)
        limits = Limits(LONGEST_START_S, order["seconds"] + LONGEST_ANSWER_S, LONGEST_CANCEL_S)
        with Process(COMMAND) as process:
            process.order(order)
            compute(attempt, course, process, Watch(limits, stopping))
    except Gone:
        return True
    except NoAnswer as error:
        states.progress(attempt, **course.left())
        states.fail(attempt, str(error))
        return True
    except Exception as error:  # whatever it was, the row says so in the end
        states.interrupt(attempt, error)
        return True
    conclude(attempt, course)
    return True


def conclude(attempt: Attempt, course: Course) -> None:
    """Write what came of it; who has no answer gives the plan back."""
    if course.result is not None:
        told = {"lower_bound": course.result["lower_bound"], "makespan": course.result["makespan"]}
        states.finish(attempt, course.result, **(course.fields() | told))
    elif course.error is not None:
        states.progress(attempt, **course.fields())
        states.fail(attempt, course.error)
    else:
        states.give_back(attempt)


def order_of(attempt: Attempt) -> Json:
    """What a process is told to compute."""
    row = attempt.row.select_related("of").first()
    if row is None:
        raise Gone
    order = {name: getattr(row, name) for name in ("instance", "method", "seconds", "seed")}
    if row.question == Question.REPLAN and row.of is not None:
        order["before"] = {"instance": row.of.instance, "result": row.of.result}
    return order
