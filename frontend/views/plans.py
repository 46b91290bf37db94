"""Plans of split learning: the list, the form, and the page of one with its Gantt chart and its comparison."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from frontend.access import action_view, form_view, page_view, viewer_of
from frontend.figures import plan_course, plan_noise, plan_slots
from frontend.figures.base import Drawing, Table
from frontend.forms.plan import PlanForm
from frontend.forms.replanning import ReplanForm
from frontend.presenters import plan_charts as charts
from frontend.presenters import plan_runs as runs
from frontend.presenters.listing import listing
from frontend.presenters.states import PLAN_LOOKS
from frontend.views import plan_runs
from frontend.views.responses import (
    csv_response,
    figure_response,
    part_response,
    say_done,
    unless_tagged,
    version_response,
)
from scheduling.model.errors import InvalidField
from scheduling.split_learning.methods import METHODS
from studies.background import states
from studies.background.models import JobState
from studies.job_tables import PLANS
from studies.models import ComparisonKind, Plan
from studies.split_learning.api.examples import DESCRIBED
from studies.split_learning.measured_networks import CLIENTS, HELPERS
from studies.split_learning.plans import comparisons, readings
from studies.split_learning.plans.noise import KINDS, Draws, noise_of
from studies.split_learning.plans.readings import NothingYet
from studies.split_learning.plans.submission import (
    compare_methods,
    compare_slot_lengths,
    delete_plan,
    submit_extra_helper,
    submit_plan,
    submit_replan,
)
from studies.split_learning.runs.requests import open_clusters
from studies.split_learning.scenarios import SLOT_MS

MOST_ROWS = 500
"""Clients in the page's table; the CSV file has all."""


@page_view
def plan_list(request: HttpRequest) -> HttpResponse:
    """Plans the visitor may see, newest first; the filters are in the address."""
    visible = readings.visible_plans(viewer_of(request))
    everything = visible.filter(comparison=ComparisonKind.ITSELF).defer(*readings.LARGE)
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


@form_view
def new_plan(request: HttpRequest) -> HttpResponse:
    """The form; a plan that was stored leads to its page."""
    sent = (request.POST, request.FILES) if request.method == "POST" else ()
    form = PlanForm(*sent, viewer=viewer_of(request))
    made = form.store(lambda: submit_plan(viewer_of(request), form.plan_request()))
    if made is not None:
        return redirect("plan", number=made.pk)
    context = {
        "form": form,
        "profile": json.dumps(DESCRIBED, indent=1),
        "devices": ", ".join((*HELPERS, *CLIENTS)),
        "models": ", ".join(SLOT_MS),
    }
    return render(request, "frontend/plan_new.html", context, status=422 if form.is_bound else 200)


@form_view
def again(request: HttpRequest, number: int) -> HttpResponse:
    """The form of a plan that is made again; a new plan that was stored leads to its page."""
    plan = _own(request, number)
    form = ReplanForm(request.POST, plan=plan) if request.method == "POST" else ReplanForm(plan=plan)
    made = form.store(lambda: submit_replan(viewer_of(request), plan, form.plan_request()))
    if made is not None:
        return redirect("plan", number=made.pk)
    status = 422 if form.is_bound else 200
    return render(request, "frontend/plan_again.html", {"plan": plan, "form": form}, status=status)


@page_view
def plan_page(request: HttpRequest, number: int) -> HttpResponse:
    """One plan."""
    return render(request, "frontend/plan.html", _context(request, number))


@page_view
def part(request: HttpRequest, number: int) -> HttpResponse:
    """Return the changing part of a plan's page, for pages that are open."""
    version = _version(_own(request, number))
    return part_response(request, version, "frontend/_plan.html", lambda: _context(request, number))


@page_view
def tables(request: HttpRequest, number: int) -> HttpResponse:
    """Helpers and clients, below the charts, for pages that are open."""
    plan = _own(request, number)
    return part_response(request, _version(plan), "frontend/_plan_tables.html", lambda: _tables_context(plan))


@page_view
def noise(request: HttpRequest, number: int) -> HttpResponse:
    """The table below the chart of noise."""
    plan = _own(request, number)

    def context() -> dict[str, Any]:
        found, _ = charts.drawn(plan, request.GET.dict())  # why there is none is said below the chart
        return {"noise": found, "rows": charts.noise_rows(found)}

    return part_response(request, _version(plan), "frontend/_plan_noise.html", context)


@page_view
def version(request: HttpRequest, number: int) -> HttpResponse:
    """Says whether anything changed, for pages that ask."""
    return version_response(request, _version(_own(request, number, without=("instance", "result"))))


FIGURES: Final[Mapping[str, Callable[[Plan, charts.Query], Drawing]]] = {
    "course": lambda plan, _: plan_course.figure(readings.course_of(plan), slot_ms=plan.slot_ms),
    "gantt": charts.gantt,
    "noise": charts.noise,
    "run": runs.drawing,
    "slots": lambda plan, _: plan_slots.figure(comparisons.lengths_of(plan)),
}


@page_view
def figure(request: HttpRequest, number: int, name: str) -> HttpResponse:
    """A chart of the plan as Plotly's JSON."""
    plan = _own(request, number)
    if name not in FIGURES:
        raise Http404
    draw, query = FIGURES[name], request.GET.dict()
    return unless_tagged(request, _version(plan), lambda: figure_response(draw(plan, query)))


def _clients_table(plan: Plan) -> Table:
    names = ("client", "helper", "release", "waiting", "gap", "tail", "completion", "slack", "key_forward")
    columns = (*names, "key_backward")
    rows = (tuple(getattr(client, name) for name in columns) for client in readings.clients_of(plan))
    return Table(columns, rows)


def _changes_table(plan: Plan) -> Table:
    """Return the effect of replanning on each client, slots; empty cells if a client is not in a plan."""
    columns = ("client", "helper", "what", "completion_before", "completion")
    rows = (
        ["" if getattr(row, name) is None else getattr(row, name) for name in columns]
        for row in readings.changes_of(plan)
    )
    return Table(columns, rows)


def _noise_table(plan: Plan, query: charts.Query) -> Table:
    """Return every draw, none while there is nothing to draw from; 404 for an address that asks for nonsense."""
    try:
        draws = noise_of(plan, Draws.of_query(plan, query)).draws
    except NothingYet:
        draws = ()
    except InvalidField as error:
        raise Http404(str(error)) from None
    return plan_noise.table([draw.planned, *(getattr(draw, kind) for kind in KINDS)] for draw in draws)


TABLES: Final[Mapping[str, Callable[[Plan, charts.Query], Table]]] = {
    "schedule": lambda plan, _: Table.of(readings.schedule_rows(plan)),
    "course": lambda plan, _: plan_course.table(readings.course_of(plan)),
    "clients": lambda plan, _: _clients_table(plan),
    "changes": lambda plan, _: _changes_table(plan),
    "slots": lambda plan, _: plan_slots.table(comparisons.lengths_of(plan)),
    "noise": _noise_table,
}
"""Tables that are available as CSV."""


@page_view
def table(request: HttpRequest, number: int, name: str) -> HttpResponse:
    """A table of the plan as CSV, unabridged; times in slots where no unit is said."""
    plan = _own(request, number)
    if name not in TABLES:
        raise Http404
    return csv_response(TABLES[name](plan, request.GET.dict()), f"plan-{plan.pk}-{name}.csv")


@action_view
def cancel(request: HttpRequest, number: int) -> HttpResponse:
    """End it; the best so far is kept if there is one."""
    return _do(request, number, lambda plan: f"{states.cancel(PLANS, plan.pk)} is being cancelled.".capitalize())


@action_view
def compare(request: HttpRequest, number: int) -> HttpResponse:
    """Submit the same instance under every other method."""

    def submitted(plan: Plan) -> str:
        others = compare_methods(viewer_of(request), plan)
        names = ", ".join(other.method for other in others)
        return f"Submitted with the methods {names}." if names else "Every method was submitted before."

    return _do(request, number, submitted)


@action_view
def one_more(request: HttpRequest, number: int) -> HttpResponse:
    """Submit it with one more helper."""
    return _do(
        request, number, lambda plan: f"Submitted with {submit_extra_helper(viewer_of(request), plan).helpers} helpers."
    )


@action_view
def other_slots(request: HttpRequest, number: int) -> HttpResponse:
    """Submit the same devices in slots of other lengths."""

    def submitted(plan: Plan) -> str:
        others = compare_slot_lengths(viewer_of(request), plan)
        lengths = ", ".join(f"{other.slot_ms:,}" for other in others)
        return f"Submitted with slots of {lengths} ms." if lengths else "Every length was submitted before."

    return _do(request, number, submitted)


@action_view
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """Delete it with its comparisons."""
    delete_plan(_own(request, number))
    messages.success(request, f"Plan {number} is deleted.")
    return redirect("plans")


def _do(request: HttpRequest, number: int, act: Callable[[Plan], str]) -> HttpResponse:
    plan = _own(request, number)
    say_done(request, lambda: act(plan))
    return redirect("plan", number=number)


def _own(request: HttpRequest, number: int, *, without: tuple[str, ...] = ()) -> Plan:
    """The plan, if the visitor may see it; else it is not there. Some columns may be left for later: they are large."""
    return get_object_or_404(readings.visible_plans(viewer_of(request)).defer(*without), pk=number)


def _version(plan: Plan) -> tuple[object, ...]:
    """Return what changes whenever a reading of the plan changes."""
    columns = ("pk", "state", "stage", "lower_bound", "makespan", "cancel_requested")
    own = (
        *(getattr(plan, name) for name in columns),
        len(plan.steps),
        plan.steps[-1:],
        states.place_of_row(PLANS, plan),
    )
    return own, list(plan.others.values_list(*columns)), plan_runs.version(plan)


def _context(request: HttpRequest, number: int) -> dict[str, Any]:
    plan = _own(request, number)
    methods = comparisons.others_of(plan, ComparisonKind.METHOD)
    return {
        "query": request.GET.urlencode(),
        "spreads": charts.spread_choices(request.GET.dict()),
        "seconds_of_makespan": None if plan.makespan is None else plan.makespan * plan.slot_ms / 1000,
        "duration_s": plan.duration_s,
        "place": states.place_of_row(PLANS, plan),
        **_tables_context(plan),
        "gantts": charts.gantt_choices(plan, request.GET.dict()),
        "compared_methods": comparisons.compared(plan, methods),
        "compared_helpers": comparisons.compared(plan, comparisons.others_of(plan, ComparisonKind.HELPER)),
        "lengths": comparisons.lengths_of(plan),
        **plan_runs.context_of(plan),
        "runs_open": open_clusters().exists(),
        "drawn_runs": runs.choices(plan, request.GET.dict()),
        "again": comparisons.others_of(plan, ComparisonKind.REPLAN),
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
