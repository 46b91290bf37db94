"""Operations of operators: read servers and their holdings, drain, lose and restore them; fail a job or complete it
early, retry a bid.
"""

from collections.abc import Callable
from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from auctions.api.base import bid_of, operated_market
from auctions.api.bid_shapes import BidOut
from auctions.api.bodies import DrainIn, FailIn, ReasonIn
from auctions.api.examples import DRAIN, FAIL, REASON
from auctions.api.server_shapes import ServerPage, ServerReadingOut
from auctions.domain.refunds import Refund
from auctions.engine import holdings
from auctions.engine.jobs import complete_job, fail_job, retry_bid
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.models import Market
from cluster.models import Server
from scheduling.model.types import Json
from web.openapi import READ, WRITE, describe, examples
from web.schema import Schema
from web.views import ApiView, no_body, one_of, user_of

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _changes(summary: str, operation: str, *, body: Any = ReasonIn, shown: Json | None = None) -> Decorator:
    """Describe an operation that changes a server, and answers with it."""
    return describe(
        summary,
        {200: ServerReadingOut},
        WRITE,
        request=body,
        examples=examples({"With a reason": REASON} if shown is None else shown),
        operation_id=operation,
    )


class Servers(ApiView):
    """The servers of a market."""

    @describe("List servers and who holds them", {200: ServerPage}, READ, operation_id="servers_list")
    def get(self, request: Request, cluster: str) -> Response:
        """For operators: the state of each server, the jobs that hold it, and the slot from which on it is free."""
        market = operated_market(request, cluster)
        return Response(ServerPage.write({"results": holdings.servers(market)}, cluster=market.cluster))


class OneServer(ApiView):
    """One server of a market."""

    @describe("Read a server", {200: ServerReadingOut}, READ, operation_id="servers_read")
    def get(self, request: Request, cluster: str, server: str) -> Response:
        """For operators: its state, the jobs that hold it, and the slot from which on it is free."""
        return _answer(operated_market(request, cluster), server)


class Lose(ApiView):
    """A server is lost."""

    @_changes("Report a lost server", "servers_lost")
    def post(self, request: Request, cluster: str, server: str) -> Response:
        """For operators. No job holds it from the next slot on: jobs move, or fail with a refund of what was not
        delivered. The same request again changes nothing.
        """
        row, market, body = _to_change(request, cluster, server, ReasonIn)
        lose_server(row, reason=body["reason"], by=user_of(request))
        return _answer(market, server)


class Drain(ApiView):
    """A server takes no new work."""

    @_changes("Drain a server", "servers_drain", body=DrainIn, shown={"From now on": REASON, "With a deadline": DRAIN})
    def post(self, request: Request, cluster: str, server: str) -> Response:
        """For operators. It takes no new work from `from_slot` on. Jobs keep what they hold there, until
        `deadline_slot` if that is given. 409 if it is drained or lost already. The same request again changes nothing,
        also with another reason; other slots replace those of a drain under way.
        """
        row, market, body = _to_change(request, cluster, server, DrainIn)
        first, deadline = body.get("from_slot"), body.get("deadline_slot")
        drain_server(row, from_slot=first, deadline=deadline, reason=body["reason"], by=user_of(request))
        return _answer(market, server)


class Restore(ApiView):
    """A server returns."""

    @_changes("Return a server to service", "servers_restore")
    def post(self, request: Request, cluster: str, server: str) -> Response:
        """For operators. The server has its capacity again; a server in service stays as it is."""
        row, market, body = _to_change(request, cluster, server, ReasonIn)
        restore_server(row, reason=body["reason"], by=user_of(request))
        return _answer(market, server)


class Fail(ApiView):
    """Fail a job."""

    @describe(
        "Fail a job",
        {200: BidOut},
        WRITE,
        request=FailIn,
        examples=examples({"Refund what was not delivered": FAIL}),
        operation_id="bids_fail",
    )
    def post(self, request: Request, cluster: str, sequence: int) -> Response:
        """For operators. Ends a planned or running job, frees its slots from the next one on, and refunds its owner.
        409 in any other state.
        """
        market = operated_market(request, cluster)
        body = FailIn.read(request.data)
        bid = fail_job(bid_of(request, market, sequence), body["reason"], refund=Refund(body["refund"]))
        return Response(BidOut.write(bid, cluster=market.cluster))


class Complete(ApiView):
    """A job whose training has ended is complete."""

    @describe("Complete a job early", {200: BidOut}, WRITE, operation_id="bids_complete")
    def post(self, request: Request, cluster: str, sequence: int) -> Response:
        """For operators. Completes a running job whose training ended before its last slot, and frees its slots from
        the next one on. Its payment and value stay as decided. 409 in any other state.
        """
        market = operated_market(request, cluster)
        no_body(request)
        bid = complete_job(bid_of(request, market, sequence))
        return Response(BidOut.write(bid, cluster=market.cluster))


class Retry(ApiView):
    """A quarantined bid is decided again."""

    @describe(
        "Put a quarantined bid back in the queue",
        {200: BidOut},
        WRITE,
        operation_id="bids_retry",
    )
    def post(self, request: Request, cluster: str, sequence: int) -> Response:
        """For operators. The bid keeps its place before later bids. 409 if it is not quarantined."""
        market = operated_market(request, cluster)
        no_body(request)
        bid = retry_bid(bid_of(request, market, sequence))
        return Response(BidOut.write(bid, cluster=market.cluster))


def _to_change(request: Request, cluster: str, server: str, shape: type[Schema]) -> tuple[Server, Market, Json]:
    market = operated_market(request, cluster)
    body = shape.read(request.data)
    servers = Server.objects.filter(cluster=market.cluster).select_related("cluster")
    return one_of(servers, _unknown(market, server), name=server), market, body


def _unknown(market: Market, server: str) -> str:
    return f"The cluster {market.cluster.name} has no server {server[:60]}."


def _answer(market: Market, server: str) -> Response:
    found = holdings.server_of(market, server)
    if found is None:
        raise Http404(_unknown(market, server))
    return Response(ServerReadingOut.write(found, cluster=market.cluster))
