"""Lookup of the plan of a page, with its access check and its version tag."""

from hashlib import sha256

from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from frontend.access import viewer_of
from studies.models import Plan
from studies.split_learning.plans import readings, states


def own_plan(request: HttpRequest, number: int, *, without: tuple[str, ...] = ()) -> Plan:
    """The plan, if the visitor may see it; else it is not there. Some columns may be left for later: they are large."""
    plans = readings.visible_plans(viewer_of(request)).defer(*without)
    return get_object_or_404(plans, pk=number)


def tag_of_plan(request: HttpRequest, plan: Plan) -> str:
    """Return a tag that changes whenever a reading of the plan changes."""
    columns = ("pk", "state", "stage", "lower_bound", "makespan", "cancel_requested")
    own = (*(getattr(plan, name) for name in columns), len(plan.steps), plan.steps[-1:], states.place_of(plan))
    parts = (own, list(plan.others.values_list(*columns)), viewer_of(request).pk, request.get_full_path())
    return f'"{sha256(repr(parts).encode()).hexdigest()[:24]}"'
