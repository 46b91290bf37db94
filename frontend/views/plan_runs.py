"""Runs of plans on the page of a plan: the form, the table, CSV, and what ends or deletes one."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from frontend.access import action_view, form_view, page_view, viewer_of
from frontend.figures.base import Table
from frontend.forms.plan_run import PlanRunForm
from frontend.presenters import plan_runs
from frontend.views.responses import csv_response, part_response, say_done
from studies.background import states
from studies.job_tables import PLAN_RUNS
from studies.models import Plan, PlanRun
from studies.split_learning.plans.readings import visible_plans
from studies.split_learning.runs import readings
from studies.split_learning.runs.requests import open_clusters, submit_run


@form_view
def new_run(request: HttpRequest, number: int) -> HttpResponse:
    """The form of a run; a run that was stored leads to the plan's page."""
    plan = _plan(request, number)
    form = PlanRunForm(request.POST if request.method == "POST" else None, plan=plan, viewer=viewer_of(request))
    made = form.store(lambda: submit_run(viewer_of(request), plan, form.run_request()))
    if made is not None:
        messages.success(request, f"Run {made.pk} is queued.")
        return redirect("plan", number=plan.pk)
    context = {"plan": plan, "form": form, "open": open_clusters().exists()}
    return render(request, "frontend/plan_run_new.html", context, status=422 if form.is_bound else 200)


@page_view
def part(request: HttpRequest, number: int) -> HttpResponse:
    """Return the table of a plan's runs, for pages that are open."""
    plan = _plan(request, number)
    return part_response(request, version(plan), "frontend/_plan_runs.html", lambda: context_of(plan))


@page_view
def table(request: HttpRequest, number: int, run: int) -> HttpResponse:
    """The measured tasks of a run as CSV."""
    found = _run(request, number, run)
    if found.tasks is None:
        raise Http404
    rows = readings.task_rows(found.plan, readings.tasks_of(found))
    return csv_response(Table.of(rows), f"plan-{number}-run-{run}.csv")


@action_view
def cancel(request: HttpRequest, number: int, run: int) -> HttpResponse:
    """End it; its processes end within a second."""
    found = _run(request, number, run)
    say_done(request, lambda: f"{states.cancel(PLAN_RUNS, found.pk)} is being cancelled.".capitalize())
    return redirect("plan", number=number)


@action_view
def delete(request: HttpRequest, number: int, run: int) -> HttpResponse:
    """Delete it."""
    _run(request, number, run).delete()
    messages.success(request, f"Run {run} is deleted.")
    return redirect("plan", number=number)


def version(plan: Plan) -> tuple[object, ...]:
    """Return what changes whenever the table of runs does."""
    columns = ("pk", "state", "begun", "cancel_requested", "error")
    places = [states.place_of_row(PLAN_RUNS, run) for run in plan.runs.filter(state="queued").defer("tasks")]
    return (*plan.runs.values_list(*columns), *places)


def context_of(plan: Plan) -> dict[str, Any]:
    """Return what the table of runs shows."""
    return {"plan": plan, "runs": plan_runs.rows_of(plan)}


def _plan(request: HttpRequest, number: int) -> Plan:
    return get_object_or_404(visible_plans(viewer_of(request)), pk=number)


def _run(request: HttpRequest, number: int, run: int) -> PlanRun:
    plan = _plan(request, number)
    return get_object_or_404(readings.visible_runs(viewer_of(request), plan), pk=run)
