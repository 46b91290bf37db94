"""Helpers that the REST operations on plans share."""

from collections.abc import Callable
from typing import Final, TypeVar

from django.http import Http404
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.model.types import Json
from studies.background.creating import IdempotencyKey, create_once
from studies.background.models import OPEN
from studies.models import Plan, PlanRun
from studies.split_learning.plans import readings
from studies.split_learning.schemas.answers import PlanOut
from web.headers import idempotency_key, submitted, wait_s
from web.openapi import KEY, REPLAYED, WAITED, location, prefer
from web.schema import Schema
from web.views import one_of, user_of
from web.waiting import wait_until_settled

Job = TypeVar("Job", Plan, PlanRun)

CREATED: Final = {200: PlanOut, 201: PlanOut, 202: PlanOut}
ONCE: Final = [
    KEY,
    prefer("until the plan is there or has failed"),
    location("plan", [200, 201, 202]),
    WAITED,
    REPLAYED,
]
"""OpenAPI parameters of operations that create plans."""


def created(request: Request, body: Json, submit: Callable[[IdempotencyKey], Plan]) -> Response:
    """Create a plan once for its key and this body, as `created_once` does."""
    return created_once(request, Plan, body, submit, PlanOut, lambda plan: reverse("api-plan", args=[plan.pk]))


def created_once(
    request: Request,
    kind: type[Job],
    body: Json,
    submit: Callable[[IdempotencyKey], Job],
    out: type[Schema],
    address: Callable[[Job], str],
) -> Response:
    """Create a plan or a run once for its key and this body, and wait for it as the request prefers.

    Answers 202 while it waits or runs, else 201, or 200 for a repeated key; 404 if it is deleted meanwhile.
    """
    key, wait = IdempotencyKey.of(idempotency_key(request), body), wait_s(request)
    made = create_once(kind, user_of(request), key, lambda: submit(key))
    row, name, where = made.row, str(made.row).capitalize(), address(made.row)
    try:
        waited = wait is not None and wait_until_settled(row, wait, waiting=OPEN, user=user_of(request).pk)
    except kind.DoesNotExist:
        raise Http404(f"{name} was deleted.") from None
    return submitted(
        out.write(row),
        status=202 if row.state in OPEN else 201 if made.created else 200,
        location=where,
        waited=wait if waited else None,
        repeated=not made.created,
    )


def plan_found(request: Request, number: int) -> Plan:
    """Return the plan for its owner or an operator; 404 for anyone else."""
    return one_of(readings.visible_plans(user_of(request)), f"There is no plan {number} of yours.", pk=number)
