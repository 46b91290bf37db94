"""The table of counterfactuals, for `studies/background/states.py`."""

from typing import Final

from django.conf import settings

from studies.background.states import JobTable
from studies.models import Counterfactual

COUNTERFACTUALS: Final = JobTable(
    model=Counterfactual,
    word="Counterfactual",
    task="studies.tasks.compute_counterfactuals",
    queue="plans",
    large=("result",),
    reset=lambda: {"replayed": 0, "events": None},
    at_once=lambda: settings.PLANS_AT_ONCE,
)
