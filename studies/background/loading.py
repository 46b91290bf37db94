"""Kernels for work that a worker does itself: loaded once, compiled before in a process that can be ended."""

from collections.abc import Sequence
from typing import Final

from auctions.kernels import compiling
from scheduling import kernels
from scheduling.kernels import Group
from scheduling.model.types import Json
from studies.background import processes
from studies.background.processes import Limits, Process, Stopping, Watch, compute
from studies.background.rows import Stage
from studies.background.states import Attempt, Row

LIMITS: Final = Limits(start=300.0, work=0.0, cancel=0.0)
_loaded: set[Group] = set()


class Course(processes.Course):
    """It is over when they are there."""

    def keep(self, row: Json) -> None:
        """A part that is compiled, or the last line."""
        if "ready" in row:
            self.result = row

    def fields(self) -> Json:
        """Nothing but the stage."""
        return {}


def load_kernels(attempt: Attempt[Row], groups: Sequence[Group], stopping: Stopping) -> None:
    """Return when these kernels are loaded here, or this worker has to end; the row says so meanwhile.

    Compiling takes many seconds and cannot be left in the middle, so that a process of its own does it; what that kept
    on disk is loaded here in a second.

    Raises
    ------
    Gone
        If the row is no longer this attempt's.
    NoAnswer
        If it was cancelled, or they could not be compiled.
    """
    if _loaded.issuperset(groups):
        return
    course = Course(is_new=True, stage=Stage.LOADING)
    with Process(compiling.command(kernels.parts_of(groups))) as process:
        compute(attempt, course, process, Watch(LIMITS, stopping))
    if course.over:
        kernels.warm_up(*groups)
        _loaded.update(groups)
