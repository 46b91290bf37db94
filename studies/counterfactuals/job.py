"""The state functions of `studies/background/states.py` for counterfactuals."""

from typing import Final

from django.conf import settings

from studies.background import states
from studies.models import Hindsight

HINDSIGHTS: Final = states.Kind(
    model=Hindsight,
    word="Hindsight",
    large=("result",),
    again=lambda: {"told": 0, "events": None},
    at_once=lambda: settings.PLANS_AT_ONCE,
)
