"""What operations on one plan share."""

from typing import Final

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from auctions.api.base import LARGEST_KEY
from auctions.api.bids import user_of
from studies.models import Plan
from studies.plans import readings

PLAN: Final = OpenApiParameter(
    "plan", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH, description="Number of the plan."
)


def plan_found(request: Request, number: int) -> Plan:
    """The plan, if its owner or an operator asks; else it is not there."""
    plan = readings.visible_plans(user_of(request)).filter(pk=min(number, LARGEST_KEY)).first()
    if plan is None:
        raise Http404(f"There is no plan {number} of yours.")
    return plan
