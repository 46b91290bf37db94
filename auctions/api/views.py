"""Operations that read a market, and the token."""

from typing import Any, Final

from django.conf import settings
from django.contrib.auth import authenticate
from django.http import HttpResponse
from django.utils.cache import patch_cache_control
from django.utils.http import parse_etags
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import tokens
from auctions.api.base import cluster_named, market_named
from auctions.api.bodies import TokenIn
from auctions.api.examples import TOKEN
from auctions.api.market_shapes import (
    ClusterOut,
    ClusterPage,
    PricesOut,
    SummaryOut,
    TokenOut,
    UtilisationOut,
    WelfareOut,
)
from auctions.models import Market
from auctions.readings import clusters, market_readings, publications
from auctions.readings.computation_limits import PASSWORDS
from auctions.state.market_snapshot import market_snapshot, one_version
from cluster.addresses import address_of
from cluster.database.prepared import Prepared
from cluster.models import Resource, Server
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Floats, Ints, Json
from scheduling.model.validation import shown
from web.arrays import ArraysRenderer, in_rows
from web.errors import refuse
from web.openapi import READ, SLOT, describe, examples, query
from web.parameters import whole_number, wrong_parameters
from web.throttles import PasswordThrottle
from web.views import ApiView, user_of

MOST_NUMBERS: Final = 100_000
"""Largest number of prices or units in one response."""

MOST_DECISIONS: Final = 5_000
"""Largest number of welfare rows in one response."""

WINDOW: Final = [
    query("from_slot", SLOT, "First slot of the answer; the first that can still be sold if not given."),
    query("to_slot", SLOT, "First slot after the answer; if not given, as many slots as are known, or fit."),
    query("server", str, "Only this server."),
]
CACHED: Final = {304: None}
_SERVERS = Prepared(lambda cluster: Server.objects.filter(cluster=cluster).values_list("name"), int)
_RESOURCES = Prepared(lambda cluster: Resource.objects.filter(cluster=cluster).order_by().values_list("pk"), int)


@one_version()
def _check_window(request: Request, cluster: str) -> None:
    _window(market_named(cluster), request)


class Tokens(ApiView):
    """A token for a password."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    throttle_classes = (PasswordThrottle,)

    @describe(
        "Get a token",
        {200: TokenOut},
        (400, 405, 406, 413, 415, 429, 503),
        request=TokenIn,
        operation_id="token",
        auth=[],
        examples=examples({"With the password the demo prints": TOKEN}),
    )
    def post(self, request: Request) -> Response:
        """A new token of a user, for all that the user may do and without an end; of such tokens the 20 that were used
        last are kept. 429 while logins of this user or address are locked after too many failures.
        """
        body = TokenIn.read(request.data)
        if not settings.PASSWORD_LOGINS:
            raise refuse("password", "expected a token of /account/tokens/, got a password; they are switched off")
        with PASSWORDS.turn(address_of(request)):
            # Django's own request: a lock that is noted on it becomes the answer.
            user = authenticate(request._request, username=body["username"], password=body["password"])
        if user is None:
            raise refuse("password", "no such user and password")
        request.user = user  # the record of changes says whose token it is
        return Response(TokenOut.write({"token": tokens.issue_by_password(user).text}))


class Clusters(ApiView):
    """All clusters."""

    of_any_token = True

    @describe("List clusters", {200: ClusterPage}, READ, operation_id="clusters_list")
    @one_version()
    def get(self, request: Request) -> Response:
        """Every cluster, by name."""
        return Response(ClusterPage.write({"results": clusters.every(user_of(request))}))


class OneCluster(ApiView):
    """One cluster."""

    @describe("Read a cluster", {200: ClusterOut}, READ, operation_id="clusters_read")
    @one_version()
    def get(self, request: Request, cluster: str) -> Response:
        """Its servers, machine types and models, whose names a bid may use."""
        return Response(ClusterOut.write(clusters.details(cluster_named(cluster))))


class MarketReading(ApiView):
    """A reading of a market; 304 as long as it is unchanged."""

    renderer_classes = (ArraysRenderer,)

    @one_version()
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """The reading, or 304."""
        market = market_named(cluster)
        tag = _tag(market, request)
        known = request.headers.get("If-None-Match")
        fresh = known is not None and (known.strip() == "*" or tag in parse_etags(known))
        response = HttpResponse(status=304) if fresh else Response(self.read(market, request))
        response["ETag"] = tag
        patch_cache_control(response, private=True, no_cache=True)
        return response

    def read(self, market: Market, request: Request) -> Json:
        """Return the document of the answer."""
        raise NotImplementedError


class Prices(MarketReading):
    """Prices over slots."""

    @describe(
        "Read prices", {200: PricesOut, **CACHED}, READ, parameters=WINDOW, reads=_check_window, operation_id="prices"
    )
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """Posted prices: of a past slot as they were when it began, of a future slot as they are now."""
        return super().get(request, cluster)

    def read(self, market: Market, request: Request) -> Json:
        """A window of prices."""
        start, end, truncated, servers = _window(market, request)
        found = market_readings.prices(market, start=start, end=end)
        arrays = {"prices": in_rows(found.price[:, servers]), "known": in_rows(found.known)}
        return PricesOut.write({**_axes(market, found, servers, truncated), **arrays})


class Utilisation(MarketReading):
    """Utilisation over slots."""

    @describe(
        "Read utilisation",
        {200: UtilisationOut, **CACHED},
        READ,
        parameters=WINDOW,
        reads=_check_window,
        operation_id="utilisation",
    )
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """Units held in past slots and promised in future ones."""
        return super().get(request, cluster)

    def read(self, market: Market, request: Request) -> Json:
        """A window of units held."""
        start, end, truncated, servers = _window(market, request)
        found = market_readings.utilisation(market, start=start, end=end)
        arrays = {"used": in_rows(found.used[:, servers]), "capacity": in_rows(found.capacity[servers])}
        return UtilisationOut.write({**_axes(market, found, servers, truncated), **arrays})


class Welfare(MarketReading):
    """Welfare, decision by decision or publication by publication."""

    @describe("Read welfare", {200: WelfareOut, **CACHED}, READ, operation_id="welfare")
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """Cumulative welfare and revenue. Operators: after each decision, beside the certified upper bound. Bidders:
        sums over bids of several owners, published when a slot begins.
        """
        return super().get(request, cluster)

    def read(self, market: Market, request: Request) -> Json:
        """The latest rows, cumulative."""
        found = publications.welfare(market, user_of(request))
        names = ("sequence", "decided", "slot", "seconds", "welfare", "revenue", "zero_price_bound")
        columns = {name: _column(getattr(found, name), len(found.decided)) for name in names}
        truncated = len(found.decided) > MOST_DECISIONS
        row = {"version": market.version, "truncated": truncated, "rows": columns, "bound": found.bound}
        return WelfareOut.write(row)


class Summary(MarketReading):
    """The summary of a market."""

    @describe("Read a summary", {200: SummaryOut, **CACHED}, READ, operation_id="summary")
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """Utilisation and price are as of now. Counts, money and times are as of now for operators, as published for
        bidders.
        """
        return super().get(request, cluster)

    def read(self, market: Market, request: Request) -> Json:
        """Return the summary that the caller may read."""
        return SummaryOut.write(publications.summary(market, user_of(request)), cluster=market.cluster)


def _tag(market: Market, request: Request) -> str:
    exact = publications.sees_all(market, user_of(request))
    bound = market_readings.bound(market) if exact else None
    certified = None if bound is None else bound.computed_at.timestamp()
    withdrawals = publications.unrecorded_withdrawals(market, user_of(request))
    parts = (market.version, withdrawals, market_snapshot(market).moment.now, market.is_open, exact, certified)
    return 'W/"' + "-".join(str(part) for part in parts) + '"'


def _column(array: Ints | Floats | None, length: int) -> list[Any]:
    """Return the last `length` numbers of an array; null for each if there is no array."""
    return [None] * min(length, MOST_DECISIONS) if array is None else array[-MOST_DECISIONS:].tolist()


def _window(market: Market, request: Request) -> tuple[int, int, bool, list[int]]:
    """Return first slot, last slot, whether the window was cut to fit a response, and the positions of the servers."""
    servers = [name for (name,) in _SERVERS(market.cluster_id)]
    wanted, wrong = request.query_params.get("server"), []
    if wanted is not None and wanted not in servers:
        wrong.append(InvalidField("server", f"expected a server of this cluster, got {shown(wanted)}"))
    chosen = [i for i, name in enumerate(servers) if wanted in (None, name)]
    resources = len(_RESOURCES(market.cluster_id))
    fits = max(1, MOST_NUMBERS // max(1, len(chosen) * resources))
    now = market_snapshot(market).moment.now
    bad_slots = {"from_slot", "to_slot"} & set(wrong_parameters(request, WINDOW))
    start, end = (None if bad_slots else whole_number(request, name) for name in ("from_slot", "to_slot"))
    start = now if start is None else start
    if end is not None and end < start:
        wrong.append(InvalidField("to_slot", f"expected {start} (from_slot) or more, got {end}"))
    elif end is not None and end - start > fits:
        problem = f"expected at most {fits} slots in one answer, got {end - start}; request fewer, or one server"
        wrong.append(InvalidField("to_slot", problem))
    refuse_all(wrong)
    last = max(start, now + market.cluster.horizon_slots)
    return start, min(start + fits, last) if end is None else end, end is None and start + fits < last, chosen


def _axes(
    market: Market, found: market_readings.Prices | market_readings.Utilisation, servers: list[int], truncated: bool
) -> dict[str, object]:
    """Return the slots, servers and resources that arrays are about, and what is closed."""
    return {
        "version": market.version,
        "from_slot": found.start,
        "to_slot": found.start + len(found.closed),
        "next_slot": found.now,
        "truncated": truncated,
        "servers": [found.servers[i] for i in servers],
        "resources": list(found.resources),
        "closed": in_rows(found.closed[:, servers]),
    }
