"""REST operation that makes a plan again after changes."""

from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from studies.background.idempotency import IdempotencyKey, create_once
from studies.models import Plan
from studies.split_learning.api.base import ASKED_ONCE, PLAN, answered_with, plan_found
from studies.split_learning.api.examples import AGAIN
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_replan
from studies.split_learning.schemas.answers import PlanOut
from studies.split_learning.schemas.request import ReplanIn
from web.headers import idempotency_key, wait_s
from web.openapi import WRITE, describe, examples
from web.parameters import known_parameters
from web.parsers import LargeJSONParser
from web.views import ApiView, user_of


class Replan(ApiView):
    """Make one plan again."""

    parser_classes = (LargeJSONParser,)
    body_limit_bytes = settings.PLAN_BODY_LIMIT_BYTES

    @describe(
        "Plan again",
        {200: PlanOut, 201: PlanOut, 202: PlanOut},
        WRITE,
        request=ReplanIn,
        parameters=[PLAN, *ASKED_ONCE],
        examples=examples(AGAIN),
        operation_id="plans_replan",
    )
    def post(self, request: Request, plan: int) -> Response:
        """Request a new plan that keeps every assignment it can and lists the changes: 202; 409 while there is no plan.

        Answers 201 with the new plan after `Prefer: wait`, and 200 if the same key was sent before and it has ended.
        """
        known_parameters(request)
        key, wait = idempotency_key(request), wait_s(request)
        body: Any = request.data
        owner, found = user_of(request), plan_found(request, plan)
        request_key = IdempotencyKey.of(key, {"replan": found.pk, **body})

        def submit() -> Plan:
            return submit_replan(owner, found, PlanRequest.to_replan(found, dict(body)), request_key)

        return answered_with(create_once(Plan, owner, request_key, submit), wait)
