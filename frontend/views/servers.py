"""Servers, for operators: who holds them until when, and forms to take them out of service or return them."""

from collections.abc import Callable

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from auctions.api.bodies import LONGEST_REASON
from auctions.domain.refunds import Refund
from auctions.engine import holdings
from auctions.engine.jobs import fail_job
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.models import Bid, Market
from cluster.models import Server
from frontend.access import action_view, operated_market, page_view, timeline_of, viewer_of
from frontend.figures.base import Table
from frontend.forms.base import LineField
from frontend.presenters.listing import listing
from frontend.views.responses import csv_response, say_done
from scheduling.model.errors import InvalidField, in_words
from web.errors import ServiceError
from web.numbers import money

STATES = {
    "in_service": "In service",
    "draining": "Takes no new work",
    "drained": "Out of service",
    "lost": "Lost",
}


class ReasonForm(forms.Form):
    """The form of a reason."""

    reason = LineField(max_length=LONGEST_REASON, required=False, label="Reason")


class DrainForm(ReasonForm):
    """The form that drains a server: the first slot without new work, and the deadline."""

    from_slot = forms.IntegerField(required=False, label="From slot")
    deadline_slot = forms.IntegerField(required=False, label="Deadline, slot")


class FailForm(forms.Form):
    """The form that fails a job: the reason and the refund."""

    reason = LineField(max_length=LONGEST_REASON, label="Reason")
    refund = forms.ChoiceField(choices=[(one.value, one.name) for one in Refund])


@page_view
def server_list(request: HttpRequest, name: str) -> HttpResponse:
    """List the servers of the market, in the order of prices; the filters are in the address."""
    market = operated_market(request, name)
    state, part = request.GET.get("state", ""), request.GET.get("name", "").strip()
    found = [
        (one, STATES[one.state])
        for one in holdings.servers(market)
        if (state not in STATES or one.state == state) and part.casefold() in one.name.casefold()
    ]
    context = {
        **listing(request, found, {"state": state, "name": part}),
        "market": market,
        "line": timeline_of(market),
        "states": STATES.items(),
    }
    return render(request, "frontend/servers.html", context)


@page_view
def server_page(request: HttpRequest, name: str, server: str) -> HttpResponse:
    """Show one server with the jobs that hold it, and the operator's forms."""
    return _show(request, operated_market(request, name), server, DrainForm())


@page_view
def server_csv(request: HttpRequest, name: str, server: str) -> HttpResponse:
    """Return the jobs that hold the server as CSV."""
    market = operated_market(request, name)
    found, line = _found(market, server), timeline_of(market)
    header = ("bid", "owner", "label", "state", "machine_type", "role", "count", "queued", "start_slot", "start_utc")
    rows = (
        (
            *(one.sequence, one.owner, one.label, str(one.state), one.machine_type, one.role, one.count),
            *(int(one.queued), one.start, line.date(one.start)),
            *(("", "") if one.end is None else (one.end, line.date(one.end))),
        )
        for one in found.held
    )
    return csv_response(Table((*header, "end_slot", "end_utc"), rows), f"{name}-{server}.csv")


@action_view
def lose(request: HttpRequest, name: str, server: str) -> HttpResponse:
    """Mark the server as lost."""
    return _do(request, name, server, ReasonForm, lose_server, "is out of service")


@action_view
def drain(request: HttpRequest, name: str, server: str) -> HttpResponse:
    """Drain the server; if that is refused, show the form as it was sent, with each error at its field."""
    market, form = operated_market(request, name), DrainForm(request.POST)
    row = _row(market, server)
    if form.is_valid():
        slots = {"from_slot": form.cleaned_data["from_slot"], "deadline": form.cleaned_data["deadline_slot"]}
        try:
            drain_server(row, **slots, reason=form.cleaned_data["reason"], by=viewer_of(request))
        except InvalidField as error:
            for one in error.all_wrong:
                form.add_error(one.field if one.field in form.fields else None, one.problem)
        except ServiceError as error:
            form.add_error(None, in_words(error))
    if form.errors:
        return _show(request, market, server, form)
    messages.success(request, f"Server {server} takes no new work.")
    return redirect("server", name=name, server=server)


@action_view
def restore(request: HttpRequest, name: str, server: str) -> HttpResponse:
    """Return the server to service."""
    return _do(request, name, server, ReasonForm, restore_server, "is in service")


@action_view
def fail(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Fail a job."""
    market, form = operated_market(request, name), FailForm(request.POST)
    bid = Bid.objects.filter(market=market, sequence=number).first()
    if bid is None:
        raise Http404
    if not form.is_valid():
        messages.error(request, _wrong(form))
        return redirect("bid", name=name, number=number)

    def act() -> str:
        fail_job(bid, form.cleaned_data["reason"], refund=Refund(form.cleaned_data["refund"]))
        return f"The job failed; {money(bid.refund)} was paid back."

    say_done(request, act)
    return redirect("bid", name=name, number=number)


def _do(
    request: HttpRequest, name: str, server: str, kind: type[ReasonForm], deed: Callable[..., object], done: str
) -> HttpResponse:
    """Apply an action and return to the server's page, which shows the result."""
    market, form = operated_market(request, name), kind(request.POST)
    row = _row(market, server)

    def act() -> str:
        deed(row, **form.cleaned_data, by=viewer_of(request))
        return f"Server {server} {done}."

    if form.is_valid():
        say_done(request, act)
    else:
        messages.error(request, _wrong(form))
    return redirect("server", name=name, server=server)


def _wrong(form: forms.Form) -> str:
    """Return what is wrong with a form, by the labels of its fields."""
    return "; ".join(f"{form[name].label}: {' '.join(map(str, errors))}" for name, errors in form.errors.items())


def _show(request: HttpRequest, market: Market, server: str, form: DrainForm) -> HttpResponse:
    found = _found(market, server)
    context = {
        "market": market,
        "line": timeline_of(market),
        "server": found,
        "state": STATES[found.state],
        "drain": form,
        "longest": LONGEST_REASON,
    }
    return render(request, "frontend/server.html", context, status=422 if form.is_bound else 200)


def _row(market: Market, name: str) -> Server:
    row = Server.objects.filter(cluster=market.cluster, name=name).select_related("cluster").first()
    if row is None:
        raise Http404
    return row


def _found(market: Market, name: str) -> holdings.ServerReading:
    found = holdings.server_of(market, name)
    if found is None:
        raise Http404
    return found
