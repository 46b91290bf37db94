"""The list of markets, a market's overview, and the data that keeps it up to date."""

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from accounts.rights import visible_clusters
from auctions.domain.bid_conversion import policy_in_force
from auctions.kernels import warming
from auctions.models import Market
from auctions.readings import market_readings, publications
from cluster.models import Server
from frontend.access import market_named, market_view, page_view, timeline_of, viewer_of
from frontend.presenters.tiles import tiles_of
from frontend.views.charts import CHARTS, Shown, charts_of, sections_of
from frontend.views.responses import csv_response, figure_response, unless_known
from scheduling.model.errors import PolicyMissing
from scheduling.registry import POLICIES
from web import problems


@market_view
def market_list(request: HttpRequest) -> HttpResponse:
    """List all markets."""
    viewer = viewer_of(request)
    markets = Market.objects.filter(cluster__in=visible_clusters(viewer)).select_related("cluster")
    markets = markets.order_by("cluster__name")
    return render(request, "frontend/markets.html", {"rows": [_card_of(market, viewer) for market in markets]})


def _card_of(market: Market, viewer: User) -> dict[str, object]:
    """Return what the list shows of a market; only words if this version does not have its policy."""
    try:
        reading = publications.summary(market, viewer)
    except PolicyMissing as error:
        return {"market": market, "missing": problems.words_of_missing(error)}
    return {"market": market, "reading": reading, "tiles": tiles_of(reading)[:4], "line": timeline_of(market)}


@market_view
def overview(request: HttpRequest, name: str) -> HttpResponse:
    """Show tiles and charts of one market; the charts fetch their data."""
    market = market_named(request, name)
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
        "sections": sections_of(
            POLICIES[reading.policy], servers, request.GET, published=reading.published is not None
        ),
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


@market_view
def tiles(request: HttpRequest, name: str) -> HttpResponse:
    """Return the tiles as JSON, for open pages."""
    market = market_named(request, name)

    def build() -> HttpResponse:
        reading = publications.summary(market, viewer_of(request))
        return JsonResponse(
            {
                "tiles": [vars(tile) for tile in tiles_of(reading)],
                "now": now_words(market, reading),
                "published": published_words(market, reading),
                "version": reading.version,
                "policy": reading.policy_number,
            }
        )

    return unless_known(request, market, build)


@market_view
def chart(request: HttpRequest, name: str, chart_name: str) -> HttpResponse:
    """Return one chart as Plotly's JSON."""
    market = market_named(request, name)
    return unless_known(request, market, lambda: figure_response(_shown(request, market, chart_name).draw()))


@market_view
def chart_csv(request: HttpRequest, name: str, chart_name: str) -> HttpResponse:
    """Return the complete data of a chart as CSV."""
    market = market_named(request, name)

    def build() -> HttpResponse:
        return csv_response(_shown(request, market, chart_name).tabulate(), f"{name}-{chart_name}.csv")

    return unless_known(request, market, build)


def _shown(request: HttpRequest, market: Market, name: str) -> Shown:
    # Figures of another policy would stand under words that are not theirs, as prices under "jobs delayed".
    if name not in charts_of(policy_in_force(market.cluster)):
        raise Http404
    return CHARTS[name].read(market, viewer_of(request), request.GET.get(name, ""))


@market_view
def version(request: HttpRequest, name: str) -> HttpResponse:
    """Return the market's version, for pages without an event stream."""
    market = market_named(request, name)
    return unless_known(request, market, lambda: HttpResponse(f"version {market.version}", content_type="text/plain"))


@page_view
def compiling(request: HttpRequest, name: str) -> HttpResponse:
    """Return what the market waits for before it decides; empty if it does not wait."""
    return HttpResponse(warming.words(market_named(request, name).pk), content_type="text/plain")
