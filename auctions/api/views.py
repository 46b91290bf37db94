"""Operations that read a market, and the token."""

from dataclasses import asdict
from typing import Any, Final

from django.contrib.auth import authenticate
from django.http import HttpResponse
from django.utils.cache import patch_cache_control
from django.utils.http import parse_etags
from rest_framework.authtoken.models import Token
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from auctions.api.base import (
    cluster_named,
    market_named,
)
from auctions.api.bodies import TokenIn
from auctions.api.described import CLUSTER
from auctions.api.documents import slot_times
from auctions.api.examples import (
    TOKEN,
)
from auctions.api.serializers import (
    SUMMARY_COUNTS,
    SUMMARY_MONEY,
    SUMMARY_TIMES,
    ClusterOut,
    ClusterPage,
    PricesOut,
    SummaryOut,
    TokenOut,
    UtilisationOut,
    WelfareOut,
)
from auctions.domain.bid_format import WORTH, policy_in_force
from auctions.kernels import warming
from auctions.models import Market
from auctions.readings import market_readings, publications
from auctions.readings.expensive import PASSWORDS
from auctions.state.market_snapshot import market_snapshot, one_version
from cluster.addresses import address_of
from cluster.models import Cluster, MachineType, ModelProfile, Resource, Server
from scheduling.model.types import Floats, Ints, Json
from scheduling.model.validation import check_object
from web.openapi import (
    READ,
    SLOT,
    describe,
    examples,
    query,
)
from web.parameters import known_parameters, slot_number
from web.refusals import refuse
from web.throttles import PasswordThrottle
from web.views import ApiView, user_of

MOST_NUMBERS: Final = 100_000
"""Largest number of prices or units in one response."""

MOST_DECISIONS: Final = 5_000
"""Largest number of welfare rows in one response."""

WINDOW: Final = [
    CLUSTER,
    query("from_slot", SLOT, "First slot; the first that can still be traded if not given."),
    query("to_slot", SLOT, "First slot no longer told; as far as is known, or fits, if not given."),
    query("server", str, "Only this server."),
]
CACHED: Final = {304: None}


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
        """The token of a user, made at the first call. 429 while logins of this user or address are locked, as too many
        failed.
        """
        known_parameters(request)
        body = check_object("", dict(request.data), required=["username", "password"])
        for key, longest in (("username", 150), ("password", 500)):
            if not isinstance(body[key], str) or not 1 <= len(body[key]) <= longest:
                raise refuse(key, f"expected a string of 1 to {longest} characters")
        with PASSWORDS.turn(address_of(request)):
            # Django's own request: a lock that is noted on it becomes the answer.
            user = authenticate(request._request, username=body["username"], password=body["password"])
        if user is None:
            raise refuse("password", "no such user and password")
        return Response({"token": Token.objects.get_or_create(user=user)[0].key})


class Clusters(ApiView):
    """All clusters."""

    @describe("List clusters", {200: ClusterPage}, READ, operation_id="clusters_list")
    @one_version()
    def get(self, request: Request) -> Response:
        """Every cluster, by name."""
        known_parameters(request)
        return Response({"results": [_cluster(c) for c in Cluster.objects.select_related("market")]})


class OneCluster(ApiView):
    """One cluster."""

    @describe("Read a cluster", {200: ClusterOut}, READ, parameters=[CLUSTER], operation_id="clusters_read")
    @one_version()
    def get(self, request: Request, cluster: str) -> Response:
        """Its servers, machine types and models: the names a bid may use."""
        known_parameters(request)
        found = cluster_named(cluster)
        types = MachineType.objects.filter(cluster=found)
        servers = Server.objects.filter(cluster=found)
        return Response(
            {
                **_cluster(found),
                "resources": list(Resource.objects.filter(cluster=found).values_list("name", flat=True)),
                "machine_types": [
                    {"name": m.name, "role": m.role, "bandwidth_mbps": float(m.bandwidth_mbps)} for m in types
                ],
                "servers": [
                    {"name": s.name, "kind": s.kind, "upload_delay_s": s.upload_delay_s, "storage_mb": s.storage_mb}
                    for s in servers
                ],
                "models": list(ModelProfile.objects.filter(cluster=found).values_list("name", flat=True)),
                **_asked(found),
            }
        )


class MarketReading(ApiView):
    """Something read off a market: 304 while nothing has moved."""

    parameters: tuple[str, ...] = ()

    @one_version()
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """What is read, or 304."""
        known_parameters(request, *self.parameters)
        market = market_named(cluster)
        tag = _tag(market, request)
        known = request.headers.get("If-None-Match")
        fresh = known is not None and (known.strip() == "*" or tag in parse_etags(known))
        response = HttpResponse(status=304) if fresh else Response(self.read(market, request))
        response["ETag"] = tag
        patch_cache_control(response, private=True, no_cache=True)
        return response

    def read(self, market: Market, request: Request) -> Json:
        """The answer's document."""
        raise NotImplementedError


class Prices(MarketReading):
    """Prices over slots."""

    parameters = ("from_slot", "to_slot", "server")

    @describe("Read prices", {200: PricesOut, **CACHED}, READ, parameters=WINDOW, operation_id="prices")
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """Posted prices: as they stood for past slots, as they are for the future."""
        return super().get(request, cluster)

    def read(self, market: Market, request: Request) -> Json:
        """A window of prices."""
        start, end, truncated, servers = _window(market, request)
        found = market_readings.prices(market, start=start, end=end)
        document = _told(market, found, servers, truncated)
        return {
            **document,
            "prices": found.price[:, servers].tolist(),
            "known": found.known.tolist(),
            **_closed(found, servers),
        }


class Utilisation(MarketReading):
    """Utilisation over slots."""

    parameters = ("from_slot", "to_slot", "server")

    @describe("Read utilisation", {200: UtilisationOut, **CACHED}, READ, parameters=WINDOW, operation_id="utilisation")
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """Units held, past and promised."""
        return super().get(request, cluster)

    def read(self, market: Market, request: Request) -> Json:
        """A window of units held."""
        start, end, truncated, servers = _window(market, request)
        found = market_readings.utilisation(market, start=start, end=end)
        document = _told(market, found, servers, truncated)
        units = {"used": found.used[:, servers].tolist(), "capacity": found.capacity[servers].tolist()}
        return {**document, **units, **_closed(found, servers)}


class Welfare(MarketReading):
    """Welfare, decision by decision or publication by publication."""

    @describe("Read welfare", {200: WelfareOut, **CACHED}, READ, parameters=[CLUSTER], operation_id="welfare")
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """Cumulative welfare and revenue. Operators: after each decision, beside the certified upper bound. Bidders:
        sums over bids of several owners, published when a slot begins.
        """
        return super().get(request, cluster)

    def read(self, market: Market, request: Request) -> Json:
        """The latest rows, cumulative."""
        found = publications.welfare(market, user_of(request))
        names = ("sequence", "decided", "slot", "seconds", "welfare", "revenue", "zero_price_bound")
        columns = [_column(getattr(found, name), len(found.decided)) for name in names]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        truncated = len(found.decided) > MOST_DECISIONS
        return {"version": market.version, "truncated": truncated, "rows": rows, "bound": _bound(found.bound)}


class Summary(MarketReading):
    """A market at a glance."""

    @describe("Read a summary", {200: SummaryOut, **CACHED}, READ, parameters=[CLUSTER], operation_id="summary")
    def get(self, request: Request, cluster: str) -> HttpResponse:
        """Utilisation and price now. Counts, money and times: as of now for operators, as published for bidders."""
        return super().get(request, cluster)

    def read(self, market: Market, request: Request) -> Json:
        """The market at a glance."""
        found = publications.summary(market, user_of(request))
        names = (*SUMMARY_COUNTS, *SUMMARY_MONEY, *SUMMARY_TIMES, "is_open", "policy", "admitted_share", "in_line")
        return {
            **{name: getattr(found, name) for name in names},
            **slot_times(market.cluster, "current", found.slot),
            **slot_times(market.cluster, "now", found.now),
            **slot_times(market.cluster, "end", found.end),
            **slot_times(market.cluster, "published", found.published),
            "objective": str(found.objective),
            "bound": _bound(found.bound),
        }


def _cluster(cluster: Cluster) -> Json:
    market = Market.objects.filter(cluster=cluster).first() if not hasattr(cluster, "market") else cluster.market
    return {
        **{key: getattr(cluster, key) for key in ("name", "title", "note", "slot_seconds", "horizon_slots")},
        "epoch": cluster.epoch.isoformat(),
        "has_market": market is not None,
        "is_open": market is not None and market.is_open,
        "compiling": "" if market is None else warming.words(market.pk),
    }


def _asked(cluster: Cluster) -> Json:
    """Return what a bid must state under the policy in force."""
    if not Market.objects.filter(cluster=cluster).exists():
        return {"worth": None, "architectures": []}
    policy = policy_in_force(cluster)
    return {"worth": WORTH[policy.objective], "architectures": sorted(policy.architectures)}


def _tag(market: Market, request: Request) -> str:
    exact = publications.sees_all(market, user_of(request))
    bound = market_readings.bound(market) if exact else None
    certified = None if bound is None else bound.computed_at.timestamp()
    parts = (market.version, market_snapshot(market).moment.now, market.is_open, exact, certified)
    return 'W/"' + "-".join(str(part) for part in parts) + '"'


def _column(array: Ints | Floats | None, length: int) -> list[Any]:
    """Return the last `length` numbers of an array; null for each if there is no array."""
    return [None] * min(length, MOST_DECISIONS) if array is None else array[-MOST_DECISIONS:].tolist()


def _bound(bound: market_readings.BoundReading | None) -> Json | None:
    if bound is None:
        return None
    document = {key: value for key, value in asdict(bound).items() if key != "loose"}
    return {**document, "kind": str(bound.kind), "computed_at": bound.computed_at.isoformat()}


def _window(market: Market, request: Request) -> tuple[int, int, bool, list[int]]:
    """Return first slot, last slot, whether the window was cut to fit a response, and the positions of the servers."""
    servers = [s.name for s in Server.objects.filter(cluster=market.cluster)]
    wanted = request.query_params.get("server")
    if wanted is not None and wanted not in servers:
        raise refuse("server", "this cluster has no server of that name")
    chosen = list(range(len(servers))) if wanted is None else [servers.index(wanted)]
    resources = Resource.objects.filter(cluster=market.cluster).count()
    fits = max(1, MOST_NUMBERS // max(1, len(chosen) * resources))
    now = market_snapshot(market).moment.now
    start, end = slot_number(request, "from_slot"), slot_number(request, "to_slot")
    start = now if start is None else start
    if end is not None and end < start:
        raise refuse("to_slot", f"expected {start} (from_slot) or more")
    if end is not None and end - start > fits:
        raise refuse("to_slot", f"expected at most {fits} slots in one answer; ask for less, or for one server")
    last = max(start, now + market.cluster.horizon_slots)
    return start, min(start + fits, last) if end is None else end, end is None and start + fits < last, chosen


def _closed(found: market_readings.Prices | market_readings.Utilisation, servers: list[int]) -> Json:
    return {"closed": found.closed[:, servers].tolist()}


def _told(market: Market, found: Any, servers: list[int], truncated: bool) -> Json:
    length = len(found.price if isinstance(found, market_readings.Prices) else found.used)
    return {
        "version": market.version,
        "from_slot": found.start,
        "to_slot": found.start + length,
        "now_slot": found.now,
        "truncated": truncated,
        "servers": [found.servers[i] for i in servers],
        "resources": list(found.resources),
    }
