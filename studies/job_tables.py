"""The tables of background jobs, for `studies/background/states.py`."""

from typing import Final

from django.conf import settings

from studies.background.states import JobTable
from studies.models import Counterfactual, Plan, Run

PLANS: Final = JobTable(
    model=Plan,
    word="Plan",
    task="studies.tasks.compute_plans",
    queue="plans",
    large=("instance", "steps", "result"),
    reset=lambda: {"steps": [], "lower_bound": None, "makespan": None, "note": ""},
    at_once=lambda: settings.PLANS_AT_ONCE,
)
COUNTERFACTUALS: Final = JobTable(
    model=Counterfactual,
    word="Counterfactual",
    task="studies.tasks.compute_counterfactuals",
    queue="plans",
    large=("result",),
    reset=lambda: {"replayed": 0, "events": None},
    at_once=lambda: settings.PLANS_AT_ONCE,
)
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
