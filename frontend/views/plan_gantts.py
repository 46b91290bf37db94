"""What helpers do when, on a plan's page: drawn from the helper that the address says."""

from itertools import pairwise

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from frontend.figures import plan_gantt
from frontend.figures.base import Table
from frontend.views.plan_access import own_plan, tag_of_plan
from frontend.views.versions import unless_tagged
from studies.models import Plan
from studies.split_learning.plans import readings


@login_required
@require_safe
def gantt(request: HttpRequest, number: int) -> HttpResponse:
    """What helpers do when."""
    plan = own_plan(request, number)

    def build() -> HttpResponse:
        helpers = readings.names(plan)[0]
        drawing = plan_gantt.figure(
            _pieces(plan), helpers, makespan=plan.makespan or 0, slot_ms=plan.slot_ms, first=_first_helper(request)
        )
        return JsonResponse(drawing.to_json())

    return unless_tagged(request, tag_of_plan(request, plan), build)


def schedule_table(plan: Plan) -> Table:
    """Every piece, as CSV."""
    return plan_gantt.table(_pieces(plan), slot_ms=plan.slot_ms)


def gantt_choices(request: HttpRequest, plan: Plan) -> list[tuple[int, int, bool]]:
    """First and last helper of each drawing and whether it is chosen; none if one has all."""
    starts = plan_gantt.pages(_pieces(plan), readings.names(plan)[0])
    if len(starts) < 2:
        return []
    chosen = max((start for start in starts if start <= _first_helper(request)), default=0)
    return [(a + 1, b, a == chosen) for a, b in pairwise([*starts, plan.helpers])]


def _first_helper(request: HttpRequest) -> int:
    """The first helper to be drawn, 0 without or for an address that says none."""
    text = request.GET.get("from", "")
    return int(text) - 1 if text.isascii() and text.isdigit() and len(text) <= 6 and int(text) else 0


def _pieces(plan: Plan) -> list[plan_gantt.Piece]:
    return [plan_gantt.Piece(**vars(piece)) for piece in readings.pieces_of(plan)]
