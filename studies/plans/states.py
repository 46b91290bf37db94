"""The only writer of a plan's state.

    waiting -> running | cancelled      running -> done | failed | cancelled | waiting

A running plan goes back to waiting when its worker stops. Whoever computes a plan holds its number of attempts: what
an earlier attempt would write no longer finds its row.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from auctions.errors import WrongState
from cluster.clock import now
from scheduling.arrays import Json
from studies.models import Plan, PlanState

STALE_S: Final = 20.0
"""A plan whose worker was not heard of for so long is begun again."""
MOST_ATTEMPTS: Final = 3


@dataclass(frozen=True)
class Attempt:
    """The right to compute a plan."""

    plan: int
    number: int

    @property
    def row(self) -> "QuerySet[Plan]":
        """The plan, while this attempt is the one that counts."""
        return Plan.objects.filter(pk=self.plan, attempts=self.number, state=PlanState.RUNNING)


def claim_next() -> Attempt | None:
    """Begin the next plan that waits or whose worker is dead; None if there is none, or enough are being computed."""
    if not anything_to_do():  # a look takes no lock
        return None
    with transaction.atomic():
        moment = now()
        alive = Plan.objects.filter(state=PlanState.RUNNING, beat_at__gte=_stale(moment)).count()
        if settings.PLANS_AT_ONCE is not None and alive >= settings.PLANS_AT_ONCE:
            return None
        for plan in _to_do(moment).select_for_update(skip_locked=True).order_by("pk"):
            if plan.cancel_asked:
                _write(plan, PlanState.CANCELLED, ended_at=moment)
            elif plan.state == PlanState.RUNNING and plan.attempts >= MOST_ATTEMPTS:
                error = f"The worker that computed it died, {MOST_ATTEMPTS} times."
                _write(plan, PlanState.FAILED, ended_at=moment, error=error)
            else:
                begun = {"started_at": moment, "beat_at": moment, "attempts": plan.attempts + 1}
                _write(plan, PlanState.RUNNING, **begun, steps=[], lower_bound=None, makespan=None, note="")
                return Attempt(plan.pk, plan.attempts)
    return None


def progress(attempt: Attempt, **fields: Any) -> bool:
    """Write what is known by now and that the worker lives; False if the attempt no longer counts."""
    return attempt.row.update(beat_at=now(), **fields) == 1


def finish(attempt: Attempt, result: Json, **fields: Any) -> bool:
    """The plan is there; that of a cancelled attempt is the best that was found until then."""
    cancelled = attempt.row.filter(cancel_asked=True)
    moment = now()
    if cancelled.update(state=PlanState.CANCELLED, ended_at=moment, result=result, **fields):
        return True
    return attempt.row.update(state=PlanState.DONE, ended_at=moment, result=result, **fields) == 1


def fail(attempt: Attempt, error: str) -> bool:
    """There will be no plan, and why; of a cancelled attempt nothing else is said."""
    moment = now()
    if attempt.row.filter(cancel_asked=True).update(state=PlanState.CANCELLED, ended_at=moment):
        return True
    return attempt.row.update(state=PlanState.FAILED, ended_at=moment, error=error) == 1


def give_back(attempt: Attempt) -> None:
    """The worker stops: another one begins anew, however often that happens."""
    attempt.row.update(state=PlanState.WAITING, started_at=None, beat_at=None)


def cancel(plan: Plan) -> Plan:
    """End a plan that waits, or ask the worker of a running one to; raises WrongState if it has ended."""
    with transaction.atomic():
        found = Plan.objects.select_for_update().get(pk=plan.pk)
        if found.ended:
            raise WrongState(
                f"Plan {found.pk} is {found.get_state_display().lower()}; nothing is left to be cancelled."
            )
        found.cancel_asked = True
        found.save(update_fields=["cancel_asked"])
        if found.state == PlanState.WAITING:
            _write(found, PlanState.CANCELLED, ended_at=now())
    return found


def anything_to_do() -> bool:
    """Whether a plan waits, or its worker is dead."""
    return _to_do(now()).exists()


def _to_do(moment: datetime) -> "QuerySet[Plan]":
    dead = Q(state=PlanState.RUNNING, beat_at__lt=_stale(moment))
    return Plan.objects.filter(Q(state=PlanState.WAITING) | dead).defer("instance", "steps", "result")


def _stale(moment: datetime) -> datetime:
    return moment - timedelta(seconds=STALE_S)


def _write(plan: Plan, state: PlanState, **fields: Any) -> None:
    plan.state = state
    for name, value in fields.items():
        setattr(plan, name, value)
    plan.save(update_fields=["state", *fields])
