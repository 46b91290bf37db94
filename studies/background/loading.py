"""Load kernels for work in the worker itself, after a separate process that can be killed has compiled them."""

from collections.abc import Sequence
from typing import Final

from auctions.kernels import compiling
from scheduling import kernels
from scheduling.kernels import Group
from scheduling.model.types import Json
from studies.background import processes
from studies.background.models import Stage
from studies.background.processes import Limits, Process, Stopping, Watch, compute
from studies.background.states import Attempt, Row

LIMITS: Final = Limits(start=300.0, work=0.0, cancel=0.0)
_loaded: set[Group] = set()


class KernelProgress(processes.JobProgress):
    """Progress of the compilation; it is over when all kernels are compiled."""

    def keep(self, row: Json) -> None:
        """Keep a line of the process: a compiled part, or the last line."""
        if "ready" in row:
            self.result = row

    def fields(self) -> Json:
        """Return the stage as the only column to write."""
        return {}


def load_kernels(attempt: Attempt[Row], groups: Sequence[Group], stopping: Stopping) -> None:
    """Return when these kernels are loaded here, or this worker has to stop; meanwhile the row shows the stage.

    Compilation takes many seconds and cannot be interrupted, so a separate process does it. Its files on disk are then
    loaded here within a second.

    Raises
    ------
    Gone
        If the row is no longer this attempt's.
    NoAnswer
        If the row was cancelled, or the kernels could not be compiled.
    """
    if _loaded.issuperset(groups):
        return
    progress = KernelProgress(is_new=True, stage=Stage.LOADING)
    with Process(compiling.command(kernels.parts_of(groups))) as process:
        compute(attempt, progress, process, Watch(LIMITS, stopping))
    if progress.over:
        kernels.warm_up(*groups)
        _loaded.update(groups)
