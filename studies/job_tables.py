"""The tables of background jobs, for `studies/background/states.py`."""

from typing import Final

from django.conf import settings

from studies.background.states import JobTable
from studies.models import Counterfactual, Plan, PlanRun, Run

PLANS: Final = JobTable(
    model=Plan,
    quota="plans",
    word="Plan",
    task="studies.tasks.compute_plans",
    queue="plans",
    large=("instance", "steps", "result"),
    reset=lambda: {"steps": [], "lower_bound": None, "makespan": None, "note": ""},
    at_once=lambda: settings.PLANS_AT_ONCE,
)
PLAN_RUNS: Final = JobTable(
    model=PlanRun,
    quota="plan_runs",
    word="Run of a plan",
    task="studies.tasks.compute_plan_runs",
    queue="plans",
    large=("tasks",),
    reset=lambda: {"begun": 0},
    # Others at the same time would make its times longer.
    at_once=lambda: 1,
)
COUNTERFACTUALS: Final = JobTable(
    model=Counterfactual,
    quota="counterfactuals",
    word="Counterfactual",
    task="studies.tasks.compute_counterfactuals",
    queue="plans",
    large=("result",),
    reset=lambda: {"replayed": 0, "events": None},
    at_once=lambda: settings.PLANS_AT_ONCE,
)
RUNS: Final = JobTable(
    model=Run,
    quota="runs",
    word="Run",
    task="studies.tasks.compute_runs",
    queue="runs",
    large=("outcome", "timing"),
    reset=lambda: {"decided": 0, "jobs": None},
    at_once=lambda: settings.RUNS_AT_ONCE,
    owner="experiment__owner",
)
