"""Responses that are only built if their data has changed."""

from collections.abc import Callable
from hashlib import sha256

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.cache import patch_cache_control

from auctions.models import Market
from auctions.readings.publications import sees_all
from auctions.state.market_snapshot import market_snapshot
from cluster.operators import is_operator
from frontend.access import viewer_of


def tag_of(request: HttpRequest, market: Market) -> str:
    """Return the ETag of a market's data: its version, derived results, the slot, the viewer and the address."""
    row = Market.objects.filter(pk=market.pk)
    computed = row.values_list("certificate__version", "competitive_ratio__computed_at").first()
    viewer, seen = viewer_of(request), market_snapshot(market)
    of_viewer = (viewer.pk, is_operator(viewer), sees_all(market, viewer))
    parts = (seen.market.version, computed, seen.moment.now, *of_viewer, request.get_full_path())
    return f'"{sha256(repr(parts).encode()).hexdigest()[:24]}"'


def unless_known(request: HttpRequest, market: Market, build: Callable[[], HttpResponse]) -> HttpResponse:
    """Return 304 if the viewer has this version, or else the response with its ETag; call it in `one_version()`."""
    return unless_tagged(request, tag_of(request, market), build)


def unless_tagged(request: HttpRequest, tag: str, build: Callable[[], HttpResponse]) -> HttpResponse:
    """Return 304 if the viewer has the response with this tag, or else the response with its ETag."""
    known = [part.strip().removeprefix("W/") for part in request.headers.get("If-None-Match", "").split(",")]
    response = HttpResponseNotModified() if tag in known else build()
    response.headers["ETag"] = tag
    patch_cache_control(response, private=True, no_cache=True)
    return response
