"""The same devices in slots of other lengths, on a plan's page."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from frontend.figures import plan_slots
from frontend.figures.base import Table
from frontend.views.plan_access import own_plan, tag_of_plan
from frontend.views.versions import unless_tagged
from studies.models import Plan
from studies.split_learning.plans import comparisons


def lengths_of(plan: Plan) -> list[plan_slots.Length]:
    """Return the plan and those with other slot lengths; empty if there are no others."""
    return [
        plan_slots.Length(one.plan.slot_ms, one.makespan, one.lower_bound, one.compute_s)
        for one in comparisons.lengths_of(plan)
    ]


def slots_table(plan: Plan) -> Table:
    """As CSV."""
    return plan_slots.table(lengths_of(plan))


@login_required
@require_safe
def figure(request: HttpRequest, number: int) -> HttpResponse:
    """Makespan and time to compute by length as Plotly's JSON."""
    plan = own_plan(request, number)
    return unless_tagged(
        request, tag_of_plan(request, plan), lambda: JsonResponse(plan_slots.figure(lengths_of(plan)).to_json())
    )
