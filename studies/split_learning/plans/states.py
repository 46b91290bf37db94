"""The state functions of `studies/background/states.py` for plans."""

from typing import Any, Final

from django.conf import settings

from scheduling.model.types import Json
from studies.background import states
from studies.background.states import MOST_ATTEMPTS, STALE_S, fail, interrupt, progress, release
from studies.models import Plan

__all__ = [
    "MOST_ATTEMPTS",
    "PLANS",
    "STALE_S",
    "Attempt",
    "anything_to_do",
    "cancel",
    "claim_next",
    "fail",
    "finish",
    "interrupt",
    "place_of",
    "progress",
    "release",
]

Attempt = states.Attempt[Plan]

PLANS: Final = states.JobTable(
    model=Plan,
    word="Plan",
    task="studies.tasks.compute_plans",
    queue="plans",
    large=("instance", "steps", "result"),
    reset=lambda: {"steps": [], "lower_bound": None, "makespan": None, "note": ""},
    at_once=lambda: settings.PLANS_AT_ONCE,
)


def claim_next() -> Attempt | None:
    """Claim the next plan that waits or whose worker is dead; None if there is none, or too many are running."""
    return states.claim_next(PLANS)


def finish(attempt: Attempt, result: Json, **fields: Any) -> bool:
    """Store the plan; for a cancelled attempt it is the best plan found before the cancellation."""
    return states.finish(attempt, result=result, **fields)


def cancel(plan: Plan) -> Plan:
    """End a waiting plan, or ask the worker of a running one to stop; raises WrongState if it has ended."""
    return states.cancel(PLANS, plan.pk)


def place_of(plan: Plan) -> int | None:
    """Return its place in the queue, from 1; None unless it waits."""
    return states.place_of(PLANS, Plan.objects.filter(pk=plan.pk))


def anything_to_do() -> bool:
    """Return whether there is a plan that waits or whose worker is dead."""
    return states.anything_to_do(PLANS)
