"""REST operations that compare a plan with other methods, one more helper (Fig. 8) or other slots (Fig. 6)."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.model.validation import check_object
from studies.background.idempotency import IdempotencyKey, create_once
from studies.models import Plan
from studies.split_learning.api.base import ASKED_ONCE, PLAN, answered_with, plan_found
from studies.split_learning.plans import comparisons
from studies.split_learning.plans.submission import compare_methods, compare_slot_lengths, submit_extra_helper
from studies.split_learning.schemas.answers import ComparisonsOut, PlanOut, SubmittedOut
from web.headers import idempotency_key, wait_s
from web.openapi import READ, WRITE, describe
from web.parameters import known_parameters
from web.views import ApiView, user_of


class Comparisons(ApiView):
    """Read all comparisons of one plan."""

    @describe("Read comparisons", {200: ComparisonsOut}, READ, parameters=[PLAN], operation_id="plans_comparisons")
    def get(self, request: Request, plan: int) -> Response:
        """Return comparisons of methods, of one more helper, of slot lengths, and of plans that were made again."""
        known_parameters(request)
        return Response(ComparisonsOut.write(comparisons.of_plan(plan_found(request, plan))))


class Methods(ApiView):
    """Compare one plan with other methods."""

    @describe(
        "Compare methods",
        {200: SubmittedOut, 202: SubmittedOut},
        WRITE,
        request=None,
        parameters=[PLAN],
        operation_id="plans_methods",
    )
    def post(self, request: Request, plan: int) -> Response:
        """Request the same instance, budget and seed with every other method: 202; 200 if all exist already."""
        return _submitted(request, plan, compare_methods)


class Slots(ApiView):
    """Compare one plan with other slot lengths."""

    @describe(
        "Compare lengths of slots",
        {200: SubmittedOut, 202: SubmittedOut},
        WRITE,
        request=None,
        parameters=[PLAN],
        operation_id="plans_slots",
    )
    def post(self, request: Request, plan: int) -> Response:
        """Request the same scenario or profile in slots of 1/8 to 4 times the length: 202; 200 if all exist already.

        Answers 400 for an instance whose times are given in slots, and if its times do not fit one of the lengths.
        """
        return _submitted(request, plan, compare_slot_lengths)


class OneMoreHelper(ApiView):
    """Compare one plan with one more helper."""

    @describe(
        "Compare with one more helper",
        {200: PlanOut, 201: PlanOut, 202: PlanOut},
        WRITE,
        request=None,
        parameters=[PLAN, *ASKED_ONCE],
        operation_id="plans_helpers",
    )
    def post(self, request: Request, plan: int) -> Response:
        """Request one more copy of the fastest helper than in the largest comparison so far: 202.

        Answers 201 with the new plan after `Prefer: wait`, and 200 if the same key was sent before and it has ended.
        """
        _check_empty(request)
        key, wait = idempotency_key(request), wait_s(request)
        owner, found = user_of(request), plan_found(request, plan)
        request_key = IdempotencyKey.of(key, {"helpers": found.pk})
        return answered_with(
            create_once(Plan, owner, request_key, lambda: submit_extra_helper(owner, found, request_key)), wait
        )


def _submitted(request: Request, number: int, submit: Callable[[User, Plan], list[Plan]]) -> Response:
    _check_empty(request)
    plans = submit(user_of(request), plan_found(request, number))
    return Response(SubmittedOut.write({"submitted": plans}), status=202 if plans else 200)


def _check_empty(request: Request) -> None:
    known_parameters(request)
    body: Any = request.data
    check_object("", dict(body), required=[])
