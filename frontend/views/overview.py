"""The list of markets, a market's overview, and the data that keeps it up to date."""

import csv

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from auctions.kernels import warming
from auctions.models import Market
from auctions.readings import market_readings, publications
from auctions.state.market_snapshot import one_version
from cluster.models import Server
from cluster.spreadsheets import inert
from frontend.access import market_named, timeline_of, viewer_of
from frontend.figures.base import Table
from frontend.presenters.tiles import tiles_of
from frontend.views.charts import CHARTS, sections_of
from frontend.views.versions import unless_known


@login_required
@require_safe
@one_version()
def market_list(request: HttpRequest) -> HttpResponse:
    """List all markets."""
    markets = Market.objects.select_related("cluster").order_by("cluster__name")
    viewer = viewer_of(request)
    found = [(market, publications.summary(market, viewer)) for market in markets]
    rows = [(market, reading, tiles_of(reading)[:4], timeline_of(market)) for market, reading in found]
    return render(request, "frontend/markets.html", {"rows": rows})


@login_required
@require_safe
@one_version()
def overview(request: HttpRequest, name: str) -> HttpResponse:
    """Show tiles and charts of one market; the charts fetch their data."""
    market = market_named(name)
    reading = publications.summary(market, viewer_of(request))
    servers = list(Server.objects.filter(cluster=market.cluster).values_list("name", flat=True))
    context = {
        "market": market,
        "reading": reading,
        "line": timeline_of(market),
        "tiles": tiles_of(reading),
        "now": now_words(market, reading),
        "published": published_words(market, reading),
        "least_owners": publications.LEAST_OWNERS,
        "sections": sections_of(reading.objective, servers, request.GET, published=reading.published is not None),
        "query": request.GET.urlencode(),
    }
    return render(request, "frontend/overview.html", context)


def now_words(market: Market, reading: market_readings.Summary) -> str:
    """Return the first slot on sale, and whether the clock is stopped."""
    stands = "" if market.cluster.clock_running else "; the clock stands"
    return f"{timeline_of(market).words(reading.now)}{stands}"


def published_words(market: Market, reading: market_readings.Summary) -> str:
    """Return the slot of the published figures; empty for present figures."""
    return "" if reading.published is None else timeline_of(market).words(reading.published)


@login_required
@require_safe
@one_version()
def tiles(request: HttpRequest, name: str) -> HttpResponse:
    """Return the tiles as JSON, for open pages."""
    market = market_named(name)

    def build() -> HttpResponse:
        reading = publications.summary(market, viewer_of(request))
        return JsonResponse(
            {
                "tiles": [vars(tile) for tile in tiles_of(reading)],
                "now": now_words(market, reading),
                "published": published_words(market, reading),
                "version": reading.version,
            }
        )

    return unless_known(request, market, build)


@login_required
@require_safe
@one_version()
def chart(request: HttpRequest, name: str, chart_name: str) -> HttpResponse:
    """Return one chart as Plotly's JSON."""
    market = market_named(name)
    if chart_name not in CHARTS:
        raise Http404
    kind = CHARTS[chart_name]
    viewer = viewer_of(request)
    return unless_known(request, market, lambda: JsonResponse(kind.draw(market, viewer, request.GET).to_json()))


@login_required
@require_safe
@one_version()
def chart_csv(request: HttpRequest, name: str, chart_name: str) -> HttpResponse:
    """Return the complete data of a chart as CSV."""
    market = market_named(name)
    if chart_name not in CHARTS:
        raise Http404
    kind, viewer = CHARTS[chart_name], viewer_of(request)

    def build() -> HttpResponse:
        return csv_response(kind.tabulate(market, viewer, request.GET), f"{name}-{chart_name}.csv")

    return unless_known(request, market, build)


@login_required
@require_safe
@one_version()
def version(request: HttpRequest, name: str) -> HttpResponse:
    """Return the market's version, for pages without an event stream."""
    market = market_named(name)
    return unless_known(request, market, lambda: HttpResponse(f"version {market.version}", content_type="text/plain"))


@login_required
@require_safe
def compiling(request: HttpRequest, name: str) -> HttpResponse:
    """Return what the market waits for before it decides; empty if it does not wait."""
    return HttpResponse(warming.words(market_named(name).pk), content_type="text/plain")


def csv_response(table: Table, filename: str) -> HttpResponse:
    """Return a table as a file to download."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    csv.writer(response).writerows(inert([table.header, *table.rows]))
    return response
