"""The execution of a cluster, for operators: what runs where, what is late, and measured step times."""

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from auctions.models import Market
from cluster.guards import ChangeRefused
from cluster.models import LARGEST_SECONDS
from execution import overviews, step_times
from execution.models import Execution, Process, TrainingState
from frontend.access import action_view, operated_market, page_view, viewer_of
from frontend.figures.base import Table
from frontend.presenters.states import TRAINING_LOOKS
from frontend.views.responses import csv_response, part_response, say_done, version_response

MOST_PROCESSES = 200
"""Processes in the table: the newest."""


class AdoptForm(forms.Form):
    """A measured step time for a profile, and the one that it replaces."""

    model = forms.CharField(max_length=60)
    worker_type = forms.CharField(max_length=60)
    before = forms.FloatField(min_value=0, max_value=LARGEST_SECONDS)
    after = forms.FloatField(min_value=0, max_value=LARGEST_SECONDS)


@page_view
def execution_page(request: HttpRequest, name: str) -> HttpResponse:
    """Show the execution of the cluster."""
    return render(request, "frontend/execution.html", _context(operated_market(request, name)))


@page_view
def part(request: HttpRequest, name: str) -> HttpResponse:
    """Return the part of the page that changes."""
    context = _context(operated_market(request, name))
    return part_response(request, _mark(context), "frontend/_execution.html", lambda: context)


@page_view
def version(request: HttpRequest, name: str) -> HttpResponse:
    """Return the tag of that part, by which an open page sees whether it changed."""
    return version_response(request, _mark(_context(operated_market(request, name))))


@page_view
def step_times_page(request: HttpRequest, name: str) -> HttpResponse:
    """Show measured step times beside the profiles that bids use."""
    market = operated_market(request, name)
    return render(request, "frontend/step_times.html", {"market": market, "found": step_times.of_market(market)})


@page_view
def step_times_csv(request: HttpRequest, name: str) -> HttpResponse:
    """Return the measured step times as CSV."""
    header, *rows = step_times.table(step_times.of_market(operated_market(request, name)))
    return csv_response(Table(tuple(map(str, header)), rows), f"{name}-step-times.csv")


@action_view
def adopt(request: HttpRequest, name: str) -> HttpResponse:
    """Change the step time of a profile to the measured one."""
    market, form = operated_market(request, name), AdoptForm(request.POST)
    if not form.is_valid():
        raise Http404

    def act() -> str:
        data = form.cleaned_data
        step_times.adopt(market.cluster, **data, by=viewer_of(request))
        return f"{data['model']} on {data['worker_type']}: the profile now says {data['after']:g} s."

    try:
        say_done(request, act)
    except ChangeRefused as refusal:
        for problem in refusal.problems:
            messages.error(request, problem)
    return redirect("step_times", name=name)


def _context(market: Market) -> dict[str, Any]:
    execution = Execution.objects.select_related("cluster__market").filter(cluster=market.cluster).first()
    if execution is None:
        return {"market": market, "seen": None}
    seen = overviews.overview(execution)
    rows = _alive(execution)
    return {
        "market": market,
        "seen": seen,
        "trainings": [(TRAINING_LOOKS[TrainingState(state)], number) for state, number in seen.trainings.items()],
        "processes": list(rows.order_by("server__position", "server", "-pk")[:MOST_PROCESSES]),
        "most": MOST_PROCESSES,
        "count": rows.count(),
    }


def _alive(execution: Execution) -> "QuerySet[Process]":
    mine = Process.objects.filter(generation__in=overviews.live(execution), state__in=overviews.ALIVE)
    return mine.select_related("server", "machine_type", "generation__training__bid")


def _mark(context: dict[str, Any]) -> tuple[object, ...]:
    """Return what changes when the page does. The lease is renewed each second, and is not shown so finely."""
    seen = context["seen"]
    if seen is None:
        return (None,)
    lease = seen.lease
    return (
        (seen.executor_active, None if lease is None else lease.fence, seen.execution.is_on),
        (seen.trainings, seen.servers, seen.late, seen.restart),
        [(one.bid, f"{one.late_slots:.1f}") for one in seen.foreseen],
        [(one.pk, one.state) for one in context["processes"]],
    )
