"""Planning again after changes, through REST."""

from typing import Any, Final

from django.conf import settings
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from auctions.api.base import ApiView
from auctions.api.bids import user_of
from auctions.api.described import WRITE, answered, describe
from auctions.api.examples import examples
from auctions.api.filters import known_parameters
from studies.plans.again import wish_again
from studies.plans.api import documents
from studies.plans.api.base import PLAN, plan_found
from studies.plans.api.examples import AGAIN
from studies.plans.api.parsers import InstanceParser
from studies.plans.api.serializers import PlanOut, ReplanIn
from studies.plans.asking import ask_again

LOCATION: Final = answered("Location", "Address of the new plan.", [202])


class Replan(ApiView):
    """One plan, made again."""

    parser_classes = (InstanceParser,)
    body_limit_bytes = settings.PLAN_BODY_LIMIT_BYTES

    @describe(
        "Plan again",
        {202: PlanOut},
        WRITE,
        request=ReplanIn,
        parameters=[PLAN, LOCATION],
        examples=examples(AGAIN),
        operation_id="plans_replan",
    )
    def post(self, request: Request, plan: int) -> Response:
        """202 with a new plan that keeps every assignment it can, and says what changed; 409 while there is no plan."""
        known_parameters(request)
        data: Any = request.data
        found = plan_found(request, plan)
        made = ask_again(user_of(request), found, wish_again(found, dict(data)))
        response = Response(documents.full(made), status=202)
        response["Location"] = reverse("api-plan", args=[made.pk])
        return response
