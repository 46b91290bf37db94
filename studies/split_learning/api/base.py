"""Helpers that the REST operations on one plan share."""

from typing import Final

from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from studies.background.idempotency import Submission
from studies.background.models import OPEN
from studies.models import Plan
from studies.split_learning.plans import readings
from studies.split_learning.schemas.answers import PlanOut
from web.headers import LONGEST_WAIT_S
from web.openapi import KEY, REPLAYED, answered
from web.views import user_of
from web.waiting import wait_until_settled

PLAN: Final = OpenApiParameter(
    "plan", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH, description="Number of the plan."
)
ASKED_ONCE: Final = [
    KEY,
    OpenApiParameter(
        "Prefer",
        str,
        OpenApiParameter.HEADER,
        description=f"`wait=5` waits until the plan is there or has failed, at most {LONGEST_WAIT_S} seconds.",
    ),
    answered("Location", "Address of the plan.", [200, 201, 202]),
    answered("Preference-Applied", "`wait=5` if that is how long it was ready to wait.", [200, 201, 202]),
    REPLAYED,
]
"""OpenAPI parameters of operations that create plans."""


def answered_with(asked: Submission[Plan], wait: int | None) -> Response:
    """Answer 202 while it waits or runs, else 201, or 200 for a repeated key; waits for the number of seconds given."""
    plan, number = asked.row, asked.row.pk
    try:
        waited = wait is not None and wait_until_settled(plan, wait, waiting=OPEN)
    except Plan.DoesNotExist:
        raise Http404(f"Plan {number} was deleted.") from None
    code = 202 if plan.state in OPEN else 201 if asked.created else 200
    response = Response(PlanOut.write(plan), status=code)
    response["Location"] = reverse("api-plan", args=[plan.pk])
    if waited:
        response["Preference-Applied"] = f"wait={wait}"
    if not asked.created:
        response["Idempotency-Replayed"] = "true"
    return response


def plan_found(request: Request, number: int) -> Plan:
    """Return the plan for its owner or an operator; 404 for anyone else."""
    plan = readings.visible_plans(user_of(request)).filter(pk=number).first()
    if plan is None:
        raise Http404(f"There is no plan {number} of yours.")
    return plan
