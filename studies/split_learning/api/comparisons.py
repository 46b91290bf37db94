"""REST operations that make other plans beside one: with other methods, one more helper (Fig. 8), other slots (Fig. 6),
or again after changes.
"""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from studies.background.creating import IdempotencyKey
from studies.models import Plan
from studies.split_learning.api.base import CREATED, ONCE, created, plan_found
from studies.split_learning.api.examples import AGAIN
from studies.split_learning.plans import comparisons
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import (
    compare_methods,
    compare_slot_lengths,
    submit_extra_helper,
    submit_replan,
)
from studies.split_learning.schemas.answers import ComparisonsOut, SubmittedOut
from studies.split_learning.schemas.request import ReplanIn
from web.openapi import READ, WRITE, describe, examples
from web.parsers import LargeJSONParser
from web.views import ApiView, no_body, user_of


class Comparisons(ApiView):
    """Read all comparisons of one plan."""

    @describe("Read comparisons", {200: ComparisonsOut}, READ, operation_id="plans_comparisons")
    def get(self, request: Request, plan: int) -> Response:
        """Return comparisons of methods, of one more helper, of slot lengths, and of plans that were made again."""
        return Response(ComparisonsOut.write(comparisons.of_plan(plan_found(request, plan))))


class Methods(ApiView):
    """Compare one plan with other methods."""

    @describe("Compare methods", {200: SubmittedOut, 202: SubmittedOut}, WRITE, operation_id="plans_methods")
    def post(self, request: Request, plan: int) -> Response:
        """Request the same instance, budget and seed with every other method: 202; 200 if all exist already."""
        return _submitted(request, plan, compare_methods)


class Slots(ApiView):
    """Compare one plan with other slot lengths."""

    @describe("Compare lengths of slots", {200: SubmittedOut, 202: SubmittedOut}, WRITE, operation_id="plans_slots")
    def post(self, request: Request, plan: int) -> Response:
        """Request the same scenario or profile in slots of 1/8 to 4 times the length: 202; 200 if all exist already.

        Answers 400 for an instance whose times are given in slots, and if its times do not fit one of the lengths.
        """
        return _submitted(request, plan, compare_slot_lengths)


class OneMoreHelper(ApiView):
    """Compare one plan with one more helper."""

    @describe("Compare with one more helper", CREATED, WRITE, parameters=ONCE, operation_id="plans_helpers")
    def post(self, request: Request, plan: int) -> Response:
        """Request one more copy of the fastest helper than in the largest comparison so far: 202.

        Answers 201 with the new plan after `Prefer: wait`, and 200 if the same key was sent before and it has ended.
        """
        no_body(request)
        owner, found = user_of(request), plan_found(request, plan)
        return created(request, {"helpers": found.pk}, lambda key: submit_extra_helper(owner, found, key))


class Replan(ApiView):
    """Make one plan again."""

    parser_classes = (LargeJSONParser,)
    body_limit_bytes = settings.PLAN_BODY_LIMIT_BYTES

    @describe(
        "Plan again",
        CREATED,
        WRITE,
        request=ReplanIn,
        reads=lambda request, plan: PlanRequest.to_replan(plan_found(request, plan), dict(request.data)),
        parameters=ONCE,
        examples=examples(AGAIN),
        operation_id="plans_replan",
    )
    def post(self, request: Request, plan: int) -> Response:
        """Request a new plan that keeps every assignment it can and lists the changes: 202; 409 while there is no plan.

        Answers 201 with the new plan after `Prefer: wait`, and 200 if the same key was sent before and it has ended.
        """
        body = dict(request.data)
        owner, found = user_of(request), plan_found(request, plan)

        def submit(key: IdempotencyKey) -> Plan:
            return submit_replan(owner, found, PlanRequest.to_replan(found, body), key)

        return created(request, {"replan": found.pk, **body}, submit)


def _submitted(request: Request, number: int, submit: Callable[[User, Plan], list[Plan]]) -> Response:
    no_body(request)
    plans = submit(user_of(request), plan_found(request, number))
    return Response(SubmittedOut.write({"submitted": plans}), status=202 if plans else 200)
