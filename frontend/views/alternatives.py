"""Results of one bid with other statements: two charts of its page, and their table."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from auctions.counterfactual.alternatives import Alternatives, alternatives
from auctions.domain.errors import AuctionError
from auctions.models import Bid, DecisionRecord, Market
from auctions.readings.computation_limits import Busy
from frontend.access import market_named, viewer_of, visible_bids
from frontend.figures import alternatives as misreports
from frontend.figures.alternatives import Point, Statements
from frontend.figures.base import Drawing, layout
from frontend.views.overview import csv_response
from frontend.views.versions import unless_tagged
from scheduling.analysis.truthfulness import Misreport
from scheduling.policies.base import Objective

HOUR_S: Final = 3600
RETRY_AFTER_S: Final = 3
DRAWINGS: Final = {"value": misreports.by_value, "time": misreports.by_time}


@login_required
@require_safe
def figure(request: HttpRequest, name: str, number: int, kind: str) -> HttpResponse:
    """Return one curve as JSON. The book of a decision never changes, so repeated requests are answered from memory."""
    market, bid = _own(request, name, number)
    if kind not in DRAWINGS:
        raise Http404

    def build() -> HttpResponse:
        return JsonResponse(_drawing(market, bid, kind, viewer_of(request).pk).to_json())

    decided = DecisionRecord.objects.filter(bid=bid).values_list("version", flat=True).first()
    if decided is None:
        note = "The curve is available once the bid is decided."
        return JsonResponse(Drawing([], layout(height=160, key=f"misreports-{kind}"), note=note).to_json())
    try:
        return unless_tagged(request, _tag(request, bid, decided), build)
    except AuctionError as error:  # no ETag: the next request may succeed
        return JsonResponse(Drawing([], layout(height=160, key=f"misreports-{kind}"), note=str(error)).to_json())


@login_required
@require_safe
def table(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return both curves as CSV; 404 if there are none."""
    market, bid = _own(request, name, number)
    try:
        found = alternatives(bid, caller=viewer_of(request).pk)
    except Busy as error:
        return HttpResponse(str(error), status=503, content_type="text/plain", headers={"Retry-After": RETRY_AFTER_S})
    except AuctionError as error:
        raise Http404(str(error)) from None
    kinds = {"value": _points(found.by_value), "time_h": _hours(found, market)}
    return csv_response(misreports.table(kinds), f"{name}-bid-{number}-alternatives.csv")


def _own(request: HttpRequest, name: str, number: int) -> tuple[Market, Bid]:
    market = market_named(name)
    return market, get_object_or_404(visible_bids(market, viewer_of(request)), sequence=number)


def _tag(request: HttpRequest, bid: Bid, decided: int) -> str:
    parts = (bid.pk, decided, viewer_of(request).pk, request.get_full_path())
    return f'"{sha256(repr(parts).encode()).hexdigest()[:24]}"'


def _drawing(market: Market, bid: Bid, kind: str, caller: int) -> Drawing:
    found = alternatives(bid, caller=caller)
    pays = found.policy.objective is Objective.WELFARE
    points = _points(found.by_value) if kind == "value" else _hours(found, market)
    value = "stated value" if pays else "stated weight"
    unit = value if kind == "value" else "stated time, hours after submission"
    return DRAWINGS[kind](Statements(points, arrival=bid.arrival_slot, pays=pays, unit=unit))


def _hours(found: Alternatives, market: Market) -> list[Point]:
    return _points(found.by_time, scale=market.cluster.slot_seconds / HOUR_S)


def _points(found: Iterable[Misreport], *, scale: float = 1.0) -> list[Point]:
    return [Point(**{**vars(point), "stated": point.stated * scale}) for point in found]
