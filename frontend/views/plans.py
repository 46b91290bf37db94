"""Plans of split learning: the list, the form, and the page of one with its course, its Gantt chart and its rivals."""

import json
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from auctions.domain.errors import AuctionError
from frontend.access import viewer_of
from frontend.figures import plan_course
from frontend.figures.base import Table
from frontend.forms.plan import PlanForm
from frontend.presenters.listing import listing
from frontend.presenters.states import PLAN_LOOKS
from frontend.views.overview import csv_response
from frontend.views.plan_access import own_plan, tag_of_plan
from frontend.views.plan_again import changes_table
from frontend.views.plan_gantts import gantt_choices, schedule_table
from frontend.views.plan_noise import spread_choices
from frontend.views.plan_slots import lengths_of, slots_table
from frontend.views.versions import unless_tagged
from scheduling.model.errors import InvalidField
from scheduling.split_learning.methods import METHODS
from studies.background.models import JobState
from studies.models import Plan, Question
from studies.split_learning.api.examples import DESCRIBED
from studies.split_learning.measured_networks import CLIENTS, HELPERS
from studies.split_learning.plans import comparisons, readings, states
from studies.split_learning.plans.submission import (
    compare_methods,
    compare_slot_lengths,
    submit_extra_helper,
    submit_plan,
)
from studies.split_learning.scenarios import SLOT_MS

MOST_ROWS = 500
"""Clients in the page's table; the CSV file has all."""


@login_required
@require_safe
def plan_list(request: HttpRequest) -> HttpResponse:
    """Plans the visitor may see, newest first; the filters are in the address."""
    everything = readings.visible_plans(viewer_of(request)).filter(question=Question.ITSELF).defer(*readings.LARGE)
    chosen = {name: request.GET.get(name, "") for name in ("state", "method")}
    found = everything
    if chosen["state"] in JobState.values:
        found = found.filter(state=chosen["state"])
    if chosen["method"] in METHODS:
        found = found.filter(method=chosen["method"])
    context = {
        **listing(request, found, chosen),
        "states": [(state.value, look.label) for state, look in PLAN_LOOKS.items()],
        "methods": list(METHODS),
        "any_at_all": everything.exists(),
    }
    return render(request, "frontend/plans.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new_plan(request: HttpRequest) -> HttpResponse:
    """The form; a plan that was stored leads to its page."""
    form = PlanForm(request.POST, request.FILES) if request.method == "POST" else PlanForm()
    if form.is_bound and form.is_valid():
        try:
            return redirect("plan", number=submit_plan(viewer_of(request), form.plan_request()).pk)
        except InvalidField as error:
            form.blame(error)
        except AuctionError as error:
            form.add_error(None, str(error))
    context = {
        "form": form,
        "profile": json.dumps(DESCRIBED, indent=1),
        "devices": ", ".join((*HELPERS, *CLIENTS)),
        "models": ", ".join(SLOT_MS),
    }
    return render(request, "frontend/plan_new.html", context, status=422 if form.is_bound else 200)


@login_required
@require_safe
def plan_page(request: HttpRequest, number: int) -> HttpResponse:
    """One plan."""
    return render(request, "frontend/plan.html", _context(request, number))


@login_required
@require_safe
def part(request: HttpRequest, number: int) -> HttpResponse:
    """What changes on a plan's page, for pages that are open."""
    plan = own_plan(request, number)
    return unless_tagged(
        request, tag_of_plan(request, plan), lambda: render(request, "frontend/_plan.html", _context(request, number))
    )


@login_required
@require_safe
def tables(request: HttpRequest, number: int) -> HttpResponse:
    """Helpers and clients, below the charts, for pages that are open."""
    plan = own_plan(request, number)
    return unless_tagged(
        request,
        tag_of_plan(request, plan),
        lambda: render(request, "frontend/_plan_tables.html", _tables_context(plan)),
    )


@login_required
@require_safe
def version(request: HttpRequest, number: int) -> HttpResponse:
    """Says whether anything changed, for pages that ask."""
    tag = tag_of_plan(request, own_plan(request, number, without=("instance", "result")))
    return unless_tagged(request, tag, lambda: HttpResponse(f"version {tag}", content_type="text/plain"))


@login_required
@require_safe
def course(request: HttpRequest, number: int) -> HttpResponse:
    """Bound and best so far over time."""
    plan = own_plan(request, number)
    return unless_tagged(
        request,
        tag_of_plan(request, plan),
        lambda: JsonResponse(plan_course.figure(_course(plan), slot_ms=plan.slot_ms).to_json()),
    )


def _clients_table(plan: Plan) -> Table:
    names = ("client", "helper", "release", "waiting", "gap", "tail", "completion", "slack", "key_forward")
    columns = (*names, "key_backward")
    rows = (tuple(getattr(client, name) for name in columns) for client in readings.clients_of(plan))
    return Table(columns, rows)


TABLES: dict[str, Callable[[Plan], Table]] = {
    "schedule": schedule_table,
    "course": lambda plan: plan_course.table(_course(plan)),
    "clients": _clients_table,
    "changes": changes_table,
    "slots": slots_table,
}
"""What can be had as CSV."""


@login_required
@require_safe
def table(request: HttpRequest, number: int, name: str) -> HttpResponse:
    """A table of the plan as CSV, unabridged; times in slots where no unit is said."""
    plan = own_plan(request, number)
    if name not in TABLES:
        raise Http404
    return csv_response(TABLES[name](plan), f"plan-{plan.pk}-{name}.csv")


@login_required
@require_POST
def cancel(request: HttpRequest, number: int) -> HttpResponse:
    """End it; the best so far is kept if there is one."""
    return _do(request, number, lambda plan: f"{states.cancel(plan)} is being cancelled.".capitalize())


@login_required
@require_POST
def compare(request: HttpRequest, number: int) -> HttpResponse:
    """Ask for the same instance under every other method."""

    def asked(plan: Plan) -> str:
        others = compare_methods(viewer_of(request), plan)
        return f"Asked {', '.join(other.method for other in others) or 'nothing more: every method was asked'}."

    return _do(request, number, asked)


@login_required
@require_POST
def one_more(request: HttpRequest, number: int) -> HttpResponse:
    """Ask for it with one helper more."""
    return _do(
        request, number, lambda plan: f"Asked with {submit_extra_helper(viewer_of(request), plan).helpers} helpers."
    )


@login_required
@require_POST
def other_slots(request: HttpRequest, number: int) -> HttpResponse:
    """Ask for the same devices in slots of other lengths."""

    def asked(plan: Plan) -> str:
        others = compare_slot_lengths(viewer_of(request), plan)
        lengths = ", ".join(f"{other.slot_ms:,}" for other in others)
        return f"Asked with slots of {lengths} ms." if lengths else "Every length was asked."

    return _do(request, number, asked)


@login_required
@require_POST
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """Delete it with those asked for beside it."""
    own_plan(request, number).delete()
    messages.success(request, f"Plan {number} is deleted.")
    return redirect("plans")


def _do(request: HttpRequest, number: int, act: Callable[[Plan], str]) -> HttpResponse:
    plan = own_plan(request, number)
    try:
        messages.success(request, act(plan))
    except (AuctionError, InvalidField) as error:
        messages.error(request, str(error))
    return redirect("plan", number=number)


def _course(plan: Plan) -> list[plan_course.Known]:
    return [plan_course.Known(**readings.step(stored)) for stored in plan.steps]


def _context(request: HttpRequest, number: int) -> dict[str, Any]:
    plan = own_plan(request, number)
    methods = comparisons.others_of(plan, Question.METHOD)
    return {
        "query": request.GET.urlencode(),
        "spreads": spread_choices(request),
        "seconds_of_makespan": None if plan.makespan is None else plan.makespan * plan.slot_ms / 1000,
        "duration_s": plan.duration_s,
        "place": states.place_of(plan),
        **_tables_context(plan),
        "gantts": gantt_choices(request, plan),
        "compared_methods": comparisons.compared(plan, methods),
        "compared_helpers": comparisons.compared(plan, comparisons.others_of(plan, Question.HELPER)),
        "lengths": lengths_of(plan),
        "again": comparisons.others_of(plan, Question.REPLAN),
        "changes": readings.changes_of(plan)[:MOST_ROWS],
        "changes_left_out": max(0, len(readings.changes_of(plan)) - MOST_ROWS),
        "every_method_asked": set(METHODS) <= {plan.method, *(other.method for other in methods)},
    }


def _tables_context(plan: Plan) -> dict[str, Any]:
    clients = sorted(readings.clients_of(plan), key=lambda client: (client.slack, client.client))
    return {
        "plan": plan,
        "helpers": readings.helpers_of(plan),
        "clients": clients[:MOST_ROWS],
        "left_out": max(0, len(clients) - MOST_ROWS),
    }
