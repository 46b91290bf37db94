"""The state functions of `studies/background/states.py` for counterfactuals."""

from typing import Final

from django.conf import settings

from studies.background import states
from studies.models import Counterfactual

COUNTERFACTUALS: Final = states.JobTable(
    model=Counterfactual,
    word="Counterfactual",
    large=("result",),
    reset=lambda: {"replayed": 0, "events": None},
    at_once=lambda: settings.PLANS_AT_ONCE,
)
