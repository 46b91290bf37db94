"""The table of runs, for `studies/background/states.py`."""

from typing import Final

from django.conf import settings

from studies.background.states import JobTable
from studies.models import Run

RUNS: Final = JobTable(
    model=Run,
    word="Run",
    task="studies.tasks.compute_runs",
    queue="runs",
    large=("outcome", "timing"),
    reset=lambda: {"decided": 0, "jobs": None},
    at_once=lambda: settings.RUNS_AT_ONCE,
    owner="experiment__owner",
)
