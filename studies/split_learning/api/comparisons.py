"""REST operations that compare a plan with other methods, one more helper (Fig. 8) or other slots (Fig. 6)."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.model.types import Json
from scheduling.model.validation import check_object
from studies.background.idempotency import IdempotencyKey, create_once
from studies.models import Plan, Question
from studies.split_learning.api import documents
from studies.split_learning.api.base import ASKED_ONCE, PLAN, answered_with, plan_found
from studies.split_learning.api.comparison_shapes import AskedOut, BesideOut
from studies.split_learning.api.serializers import PlanOut
from studies.split_learning.plans import comparisons as beside
from studies.split_learning.plans.requests import ask_one_more_helper, ask_other_methods, ask_other_slots
from web.headers import idempotency_key, wait_s
from web.openapi import READ, WRITE, describe
from web.parameters import known_parameters
from web.views import ApiView, user_of

LENGTH: Final = ("makespan", "makespan_ms", "bound_ms", "compute_s")


class Beside(ApiView):
    """Read all comparisons of one plan."""

    @describe("Read what is compared", {200: BesideOut}, READ, parameters=[PLAN], operation_id="plans_beside")
    def get(self, request: Request, plan: int) -> Response:
        """Return comparisons of methods, of one more helper, of slot lengths, and of plans that were made again."""
        known_parameters(request)
        found = plan_found(request, plan)
        return Response(
            {
                "methods": _rivals(found, Question.METHOD),
                "helpers": _rivals(found, Question.HELPER),
                "slots": [
                    {"plan": one.plan.pk, "slot_ms": one.plan.slot_ms, **{name: getattr(one, name) for name in LENGTH}}
                    for one in beside.lengths_of(found)
                ],
                "replanned": [documents.brief(one) for one in beside.others_of(found, Question.REPLAN)],
            }
        )


class Methods(ApiView):
    """Compare one plan with other methods."""

    @describe(
        "Compare methods",
        {200: AskedOut, 202: AskedOut},
        WRITE,
        request=None,
        parameters=[PLAN],
        operation_id="plans_methods",
    )
    def post(self, request: Request, plan: int) -> Response:
        """Request the same instance, budget and seed with every other method: 202; 200 if all exist already."""
        return _asked(request, plan, ask_other_methods)


class Slots(ApiView):
    """Compare one plan with other slot lengths."""

    @describe(
        "Compare lengths of slots",
        {200: AskedOut, 202: AskedOut},
        WRITE,
        request=None,
        parameters=[PLAN],
        operation_id="plans_slots",
    )
    def post(self, request: Request, plan: int) -> Response:
        """Request the same scenario or profile in slots of 1/8 to 4 times the length: 202; 200 if all exist already.

        Answers 400 for an instance whose times are given in slots, and if its times do not fit one of the lengths.
        """
        return _asked(request, plan, ask_other_slots)


class OneMoreHelper(ApiView):
    """Compare one plan with one more helper."""

    @describe(
        "Ask with one more helper",
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
        _nothing_said(request)
        key, wait = idempotency_key(request), wait_s(request)
        owner, found = user_of(request), plan_found(request, plan)
        request_key = IdempotencyKey.of(key, {"helpers": found.pk})
        return answered_with(
            create_once(Plan, owner, request_key, lambda: ask_one_more_helper(owner, found, request_key)), wait
        )


def _rivals(plan: Plan, question: Question) -> list[Json]:
    return [
        {"plan": documents.brief(row.plan), "above_bound": row.above, "brings": row.brings}
        for row in beside.rivals(plan, beside.others_of(plan, question))
    ]


def _asked(request: Request, number: int, ask: Callable[[User, Plan], list[Plan]]) -> Response:
    _nothing_said(request)
    asked = ask(user_of(request), plan_found(request, number))
    return Response({"asked": [documents.brief(one) for one in asked]}, status=202 if asked else 200)


def _nothing_said(request: Request) -> None:
    known_parameters(request)
    body: Any = request.data
    check_object("", dict(body), required=[])
