"""Pages of counterfactuals of a market. For operators only, as they contain the bids of all users."""

from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render

from auctions.counterfactual.comparison import SIDES
from auctions.models import PolicyVersion
from frontend.access import action_view, form_view, operated_market, page_view, timeline_of, viewer_of
from frontend.figures import counterfactual as sums_of
from frontend.figures.base import Table
from frontend.forms.counterfactual import CounterfactualForm, chosen_policy
from frontend.presenters.listing import listing
from frontend.presenters.states import COUNTERFACTUAL_LOOKS
from frontend.views.responses import (
    csv_response,
    figure_response,
    part_response,
    say_done,
    unless_tagged,
    version_response,
)
from scheduling.registry import POLICIES
from studies.background import states
from studies.background.models import JobState
from studies.counterfactuals import readings
from studies.counterfactuals.requests import create
from studies.job_tables import COUNTERFACTUALS
from studies.models import Counterfactual

ROWS_PER_PAGE: Final = 50
TOTALS: Final = (
    ("submitted", "Bids", "count"),
    ("completed", "Completed", "count"),
    ("running", "Running", "count"),
    ("planned", "Planned", "count"),
    ("rejected", "Rejected", "count"),
    ("standing", "Standing", "count"),
    ("ended", "Cancelled or failed", "count"),
    ("withdrawn", "Withdrawn", "count"),
    ("quarantined", "Quarantined: the policy failed on them", "count"),
    ("undecided", "Not decided", "count"),
    ("acceptance", "Acceptance: admitted over decided", "share"),
    ("welfare", "Welfare", "money"),
    ("revenue", "Revenue", "money"),
    ("payoff", "Bidders' payoff", "money"),
    ("mean_jct_slots", "Slots from arrival to completion, mean", "mean"),
    ("common_mean_jct_slots", "The same for jobs complete on both sides", "mean"),
)
"""Rows of the table of totals: name, words, and how numbers are written."""


@page_view
def counterfactual_list(request: HttpRequest, name: str) -> HttpResponse:
    """List the counterfactuals of the market, newest first; the filters are in the address."""
    market = operated_market(request, name)
    everything = readings.visible(viewer_of(request), market).defer("result")
    chosen = {key: request.GET.get(key, "") for key in ("state", "policy")}
    found = everything
    if chosen["state"] in JobState.values:
        found = found.filter(state=chosen["state"])
    if chosen["policy"] in POLICIES:
        found = found.filter(policy=chosen["policy"])
    context = {
        **listing(request, found, chosen),
        "market": market,
        "states": [(state.value, look.label) for state, look in COUNTERFACTUAL_LOOKS.items()],
        "policies": sorted(POLICIES),
        "any_at_all": everything.exists(),
    }
    return render(request, "frontend/counterfactuals.html", context)


@form_view
def new(request: HttpRequest, name: str) -> HttpResponse:
    """The form: a policy, its parameters as they are in force or in the address, and from which bid on."""
    market = operated_market(request, name)
    current = PolicyVersion.in_force(market.pk)
    policy = chosen_policy(request.GET.get("policy"), current)
    form = CounterfactualForm.of(request, policy=policy, current=current)
    made = form.store(lambda: create(viewer_of(request), market, form.submitted()))
    if made is not None:
        return redirect("counterfactual", name=name, number=made.pk)
    context = {
        "market": market,
        "form": form,
        "policy": policy,
        "current": current,
        "policies": [(key, POLICIES[key].title) for key in sorted(POLICIES)],
    }
    return render(request, "frontend/counterfactual_new.html", context, status=422 if form.is_bound else 200)


@page_view
def counterfactual_page(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Show one counterfactual."""
    return render(request, "frontend/counterfactual.html", _context(request, name, number))


@page_view
def part(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return the part of its page that changes, for open pages."""
    version = _version(_own(request, name, number))
    return part_response(request, version, "frontend/_counterfactual.html", lambda: _context(request, name, number))


@page_view
def version(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return the version of its page, by which open pages see whether it changed."""
    return version_response(request, _version(_own(request, name, number)))


@page_view
def sums(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Welfare and revenue, bid by bid."""
    found = _own(request, name, number)

    def build() -> HttpResponse:
        gains = [
            sums_of.Gain(row.sequence, row.recorded.value, row.recorded.payment, row.other.value, row.other.payment)
            for row in readings.rows_of(found)
        ]
        return figure_response(sums_of.figure(gains, other=found.policy))

    return unless_tagged(request, _version(found), build)


@page_view
def table(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return both results of each bid, or of changed bids only, as CSV."""
    found = _done(request, name, number)
    rows = readings.table(readings.rows_of(found, changed="changed" in request.GET))
    return csv_response(Table.of(rows), f"{name}-counterfactual-{number}.csv")


@page_view
def document(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return the whole result as JSON."""
    found = _done(request, name, number)
    asked = {key: getattr(found, key) for key in ("policy", "parameters")}
    response = JsonResponse({"cluster": name, "note": found.market.cluster.note, **asked, **(found.result or {})})
    response.headers["Content-Disposition"] = f'attachment; filename="{name}-counterfactual-{number}.json"'
    return response


@action_view
def cancel(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Cancel a counterfactual."""
    found = _own(request, name, number)
    say_done(request, lambda: f"{states.cancel(COUNTERFACTUALS, found.pk)} is being cancelled.".capitalize())
    return redirect("counterfactual", name=name, number=number)


@action_view
def delete(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Delete a counterfactual; a running one is cancelled."""
    _own(request, name, number).delete()
    messages.success(request, f"Counterfactual {number} is deleted.")
    return redirect("counterfactuals", name=name)


def _own(request: HttpRequest, name: str, number: int) -> Counterfactual:
    found = readings.visible(viewer_of(request), operated_market(request, name))
    return get_object_or_404(found, pk=number)


def _done(request: HttpRequest, name: str, number: int) -> Counterfactual:
    found = _own(request, name, number)
    if found.result is None:
        raise Http404(f"Counterfactual {number} has no rows yet.")
    return found


def _version(found: Counterfactual) -> tuple[object, ...]:
    """Return what changes whenever its page changes."""
    own = (found.pk, found.state, found.stage, found.replayed, found.events, found.cancel_requested, found.error)
    return (*own, states.place_of_row(COUNTERFACTUALS, found))


def _context(request: HttpRequest, name: str, number: int) -> dict[str, Any]:
    found = _own(request, name, number)
    every = "all" in request.GET
    rows = readings.rows_of(found)
    shown = rows if every else [row for row in rows if row.changed]
    return {
        **listing(request, shown, {"all": "1" if every else ""}, per_page=ROWS_PER_PAGE),
        "market": found.market,
        "line": timeline_of(found.market),
        "counterfactual": found,
        "place": states.place_of_row(COUNTERFACTUALS, found),
        "share": None if not found.events else found.replayed / found.events,
        "earlier": 0 if found.result is None else found.result["earlier_changed"],
        "failed_plans": 0 if found.result is None else found.result["failed_plans"],
        "totals": []
        if found.result is None
        else [(text, kind, _pair(found.result, key)) for key, text, kind in TOTALS],
        "shift": readings.shift_of(rows),
        "address": request.GET.urlencode(),
    }


def _pair(totals: dict[str, Any], key: str) -> list[Any]:
    return [totals[side][key] for side in SIDES]
