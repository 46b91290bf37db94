"""The form that submits a bid, with a live quote: the decision that the bid would get now."""

import math
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.core.exceptions import NON_FIELD_ERRORS
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string

from auctions.domain.errors import NotReady
from auctions.engine.intake import Submitted
from auctions.engine.submission import page_key, quote, refusal, submit_bid
from auctions.models import Bid, Market, PolicyVersion
from auctions.readings import publications, visibility
from execution.models import Execution
from frontend.access import action_view, market_named, timeline_of, typed_form_view, viewer_of
from frontend.figures import value
from frontend.figures.base import Drawing
from frontend.forms.submission import BidForm, initial_of
from scheduling.model.types import Json
from scheduling.policies.base import Objective, Policy
from scheduling.policies.learned_prices import LearnedPricePolicy
from scheduling.policies.posted_price import CENT


@typed_form_view
def submit(request: HttpRequest, name: str) -> HttpResponse:
    """Show the form; redirect to the bid's page once a bid is stored."""
    market, viewer = market_named(request, name), viewer_of(request)
    # With this key, a second click or a reload is the same bid.
    key = request.POST.get("key", "")[:64]
    if not (key.isascii() and key.isalnum()):  # not one that this page has made
        key = uuid4().hex
    if request.method == "POST":
        form = BidForm(request.POST, cluster=market.cluster, bidder=viewer)

        def send() -> Submitted:
            return submit_bid(cluster=market.cluster, owner=viewer, body=form.body(), idempotency_key=page_key(key))

        sent = form.store(send)
        if sent is not None:
            return redirect("bid", name=name, number=sent.bid.sequence)
        key = uuid4().hex
    else:
        form = BidForm(initial=_prefilled(request, market), cluster=market.cluster, bidder=viewer)
    executes = Execution.objects.filter(cluster=market.cluster).exists()
    context = {"market": market, "form": form, "key": key, "line": timeline_of(market), "executes": executes}
    context["typed"] = not form.is_bound and "typed" in request.GET
    context["fee"] = _fee_of_a_slot(PolicyVersion.in_force(market.pk).policy())
    status = 422 if form.is_bound else 200
    return render(request, "frontend/submit.html", context, status=status)


def _fee_of_a_slot(policy: Policy) -> str:
    """Return the share of a usual offer by which the price rises with each slot ahead, in percent; empty if none."""
    share = policy.rise_ahead if isinstance(policy, LearnedPricePolicy) else 0.0
    return f"{100 * share:g} %" if share else ""


@action_view
def live_quote(request: HttpRequest, name: str) -> HttpResponse:
    """Return the decision the market would make now, as text and as a curve; or errors by field. Nothing is stored.

    A user who could not submit the bid gets the reason as well, as an error of the whole form.
    """
    market = market_named(request, name)
    form = BidForm(request.POST, cluster=market.cluster, bidder=viewer_of(request))

    def ask() -> dict[str, Any]:
        try:
            return _quoted(market, viewer_of(request), form.body())
        except NotReady as error:
            return {"wait": str(error)}

    answer = form.store(ask) or {}
    errors = {field: " ".join(str(problem) for problem in problems) for field, problems in form.errors.items()}
    refused = refusal(market.cluster, viewer_of(request))
    return JsonResponse({**answer, "errors": errors | ({NON_FIELD_ERRORS: refused} if refused else {})})


def _quoted(market: Market, viewer: User, body: Json) -> dict[str, Any]:
    answer, line = quote(market=market, body=body, bidder=viewer), timeline_of(market)
    past = None if answer.stands_until is None else publications.standing_past(market, viewer)
    share = "" if past is None or past.admitted_share is None else f"{past.admitted_share:.0%}".replace("%", " %")
    decision = answer.decision
    # As text, because templates write numbers with the separators of the language.
    adopted = None if decision.counter is None else f"{decision.counter.least_value + CENT:.2f}"
    pays = answer.policy.objective is Objective.WELFARE
    context = {"decision": decision, "quote": answer, "line": line, "adopted": adopted, "past": past, "share": share}
    html = render_to_string("frontend/_quote.html", {**context, "pays": pays, "is_plan": not answer.policy.binding})
    if not pays:
        return {"html": html, "figure": Drawing([], {}).to_json(), "version": answer.ledger_version}
    schedule = decision.schedule
    planned = None if schedule is None else schedule.completion
    offer = value.Offer(
        arrival=answer.slot,
        curve=answer.core.utility.curve(answer.snapshot.horizon + 1),
        completion=planned if decision.due is None else decision.due,
        payment=None if schedule is None or answer.policy.competes else decision.payment,
    )
    return {"html": html, "figure": value.figure(offer, line).to_json(), "version": answer.ledger_version}


def _prefilled(request: HttpRequest, market: Market) -> dict[str, Any]:
    """Return initial data from the address: `from` an earlier bid the viewer may see, with another `value`."""
    shown: dict[str, Any] = {}
    number = request.GET.get("from", "")
    if number.isdecimal() and len(number) < 18:
        earlier = visibility.bid(market, viewer_of(request), int(number))
        if earlier is not None and earlier.seal_id is None:
            body = _continuing(earlier) if "continue" in request.GET else earlier.body
            shown = initial_of(body, market.cluster, viewer_of(request))
    try:
        asked = float(request.GET.get("value", "nan"))
    except ValueError:
        asked = math.nan
    return {**shown, "value": asked} if math.isfinite(asked) else shown


def _continuing(earlier: Bid) -> Json:
    """Return the body of a bid whose training resumes where that of an earlier one ended."""
    body: Json = earlier.body
    return {**body, "program": {**body["program"], "continues": earlier.sequence}} if "program" in body else body
