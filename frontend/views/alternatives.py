"""Results of one bid with other statements: two charts of its page, and their table."""

from dataclasses import replace
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse

from auctions.counterfactual.alternatives import Alternatives, alternatives_of, decided_at
from auctions.domain.errors import AuctionError
from auctions.models import Bid, Market
from auctions.readings.computation_limits import Busy
from frontend.access import bid_numbered, page_view, viewer_of
from frontend.figures import alternatives
from frontend.figures.alternatives import Statements
from frontend.figures.base import Drawing, nothing
from frontend.views.responses import csv_response, figure_response, unless_tagged
from scheduling.analysis.truthfulness import Misreport
from scheduling.policies.base import Objective

HOUR_S: Final = 3600
RETRY_AFTER_S: Final = 3
DRAWINGS: Final = {"value": alternatives.by_value, "time": alternatives.by_time}


@page_view
def figure(request: HttpRequest, name: str, number: int, kind: str) -> HttpResponse:
    """Return one curve as JSON. The book of a decision never changes, so repeated requests are answered from memory."""
    market, bid = bid_numbered(request, name, number)
    if kind not in DRAWINGS:
        raise Http404

    def build() -> HttpResponse:
        return figure_response(_drawing(market, bid, kind, viewer_of(request).pk))

    decided = decided_at(bid)
    if decided is None:
        return figure_response(nothing(f"alternatives-{kind}", "The curve is available once the bid is decided."))
    try:
        return unless_tagged(request, (bid.pk, decided), build)
    except AuctionError as error:  # no ETag: the next request may succeed
        return figure_response(nothing(f"alternatives-{kind}", str(error)))


@page_view
def table(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return both curves as CSV; 404 if there are none."""
    market, bid = bid_numbered(request, name, number)
    try:
        found = alternatives_of(bid, caller=viewer_of(request).pk)
    except Busy as error:
        return HttpResponse(str(error), status=503, content_type="text/plain", headers={"Retry-After": RETRY_AFTER_S})
    except AuctionError as error:
        raise Http404(str(error)) from None
    kinds = {"value": found.by_value, "time_h": _hours(found, market)}
    return csv_response(alternatives.table(kinds), f"{name}-bid-{number}-alternatives.csv")


def _drawing(market: Market, bid: Bid, kind: str, caller: int) -> Drawing:
    found = alternatives_of(bid, caller=caller)
    pays = found.policy.objective is Objective.WELFARE
    points = found.by_value if kind == "value" else _hours(found, market)
    value = "stated value" if pays else "stated weight"
    unit = value if kind == "value" else "stated time, hours after arrival"
    return DRAWINGS[kind](Statements(points, arrival=bid.arrival_slot, pays=pays, unit=unit))


def _hours(found: Alternatives, market: Market) -> list[Misreport]:
    hours = market.cluster.slot_seconds / HOUR_S
    return [replace(point, stated=point.stated * hours) for point in found.by_time]
