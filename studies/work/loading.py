"""Kernels for work that a worker does itself: loaded once, compiled before in a process that can be ended."""

import sys
from typing import Final

from scheduling import kernels
from scheduling.arrays import Json
from studies.work import processes
from studies.work.processes import Limits, Process, Stopping, Watch, compute
from studies.work.rows import Stage
from studies.work.states import Attempt, Row

COMMAND: Final = (
    sys.executable,
    "-c",
    "from scheduling import kernels; kernels.warm_up(); print('{\"ready\": true}', flush=True)",
)
LIMITS: Final = Limits(start=300.0, work=0.0, cancel=0.0)
_loaded = False


class Course(processes.Course):
    """It is over when they are there."""

    def keep(self, row: Json) -> None:
        """The only line."""
        self.result = row

    def fields(self) -> Json:
        """Nothing but the stage."""
        return {}


def load_kernels(attempt: Attempt[Row], stopping: Stopping) -> None:
    """Return when kernels are loaded here, or this worker has to end; the row says so meanwhile.

    Compiling takes a minute and cannot be left in the middle, so that a process of its own does it; what that kept on
    disk is loaded here in a second.

    Raises
    ------
    Gone
        If the row is no longer this attempt's.
    NoAnswer
        If it was cancelled, or they could not be compiled.
    """
    global _loaded
    if _loaded:
        return
    course = Course(is_new=True, stage=Stage.LOADING)
    with Process(COMMAND) as process:
        compute(attempt, course, process, Watch(LIMITS, stopping))
    if course.over:
        kernels.warm_up()
        _loaded = True
