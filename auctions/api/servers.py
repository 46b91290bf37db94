"""Operations of operators on servers: who holds what until when, out of service and back; and failing one job."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from auctions.api import documents
from auctions.api.base import (
    bid_of,
    operated_market,
)
from auctions.api.bodies import LONGEST_WHY, DrainIn, FailIn, WhyIn
from auctions.api.described import CLUSTER, SEQUENCE
from auctions.api.examples import (
    DRAIN,
    FAIL,
    WHY,
)
from auctions.api.serializers import BidOut, ServerPage, ServerReadingOut
from auctions.domain.refunds import Refund
from auctions.engine import holdings
from auctions.engine.jobs import fail_job, retry_bid
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.models import Market
from cluster.models import Server
from scheduling.model.types import Json
from scheduling.model.validation import check_integer, check_object
from web.openapi import (
    READ,
    WRITE,
    describe,
    examples,
)
from web.parameters import LARGEST_SLOT, known_parameters
from web.refusals import refuse
from web.views import ApiView, user_of

SERVER = OpenApiParameter("server", str, OpenApiParameter.PATH, description="Name of the server.")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _changes(summary: str, operation: str, *, body: Any = WhyIn, shown: Json | None = None) -> Decorator:
    """Describe an operation that changes a server, and answers with it."""
    return describe(
        summary,
        {200: ServerReadingOut},
        WRITE,
        request=body,
        parameters=[CLUSTER, SERVER],
        examples=examples({"With a reason": WHY} if shown is None else shown),
        operation_id=operation,
    )


class Servers(ApiView):
    """The servers of a market."""

    @describe(
        "List servers and who holds them", {200: ServerPage}, READ, parameters=[CLUSTER], operation_id="servers_list"
    )
    def get(self, request: Request, cluster: str) -> Response:
        """For operators: each server's state, who holds what there until when, and from when on it is free."""
        known_parameters(request)
        market = operated_market(request, cluster)
        return Response({"results": [_document(one, market) for one in holdings.servers(market)]})


class OneServer(ApiView):
    """One server of a market."""

    @describe("Read a server", {200: ServerReadingOut}, READ, parameters=[CLUSTER, SERVER], operation_id="servers_read")
    def get(self, request: Request, cluster: str, server: str) -> Response:
        """For operators: its state, who holds what there until when, and from when on it is free."""
        known_parameters(request)
        return _answer(operated_market(request, cluster), server)


class Lose(ApiView):
    """A server is lost."""

    @_changes("Say that a server is lost", "servers_lost")
    def post(self, request: Request, cluster: str, server: str) -> Response:
        """For operators. Nobody holds it from the next slot on: jobs move, or fail and are paid back what was not
        delivered. Saying it again changes nothing.
        """
        row, market, body = _to_change(request, cluster, server, optional=["why"])
        lose_server(row, why=_why(body), by=user_of(request))
        return _answer(market, server)


class Drain(ApiView):
    """A server takes no new work."""

    @_changes("Drain a server", "servers_drain", body=DrainIn, shown={"From now on": WHY, "With a deadline": DRAIN})
    def post(self, request: Request, cluster: str, server: str) -> Response:
        """For operators. It takes no new work from `from_slot` on; what jobs hold there they keep, until
        `deadline_slot` if that is given. 409 if it is out of service already. Saying the same again changes nothing.
        """
        row, market, body = _to_change(request, cluster, server, optional=["why", "from_slot", "deadline_slot"])
        first, deadline = (_slot(body, name) for name in ("from_slot", "deadline_slot"))
        drain_server(row, from_slot=first, deadline=deadline, why=_why(body), by=user_of(request))
        return _answer(market, server)


class Restore(ApiView):
    """A server returns."""

    @_changes("Return a server to service", "servers_restore")
    def post(self, request: Request, cluster: str, server: str) -> Response:
        """For operators. It has the capacity again that its rows say; one that is in service stays so."""
        row, market, body = _to_change(request, cluster, server, optional=["why"])
        restore_server(row, why=_why(body), by=user_of(request))
        return _answer(market, server)


class Fail(ApiView):
    """A job cannot go on."""

    @describe(
        "Fail a job",
        {200: BidOut},
        WRITE,
        request=FailIn,
        parameters=[CLUSTER, SEQUENCE],
        examples=examples({"Paid back what was not delivered": FAIL}),
        operation_id="bids_fail",
    )
    def post(self, request: Request, cluster: str, sequence: int) -> Response:
        """For operators. Ends a planned or running job, frees its slots from the next one on, and pays its owner back.
        409 in any other state.
        """
        known_parameters(request)
        market = operated_market(request, cluster)
        body = check_object("", dict(request.data), required=["why"], optional=["refund"])
        why, refund = _why(body), body.get("refund", Refund.UNDELIVERED.value)
        if not why:
            raise refuse("why", "expected a reason: the job's owner reads it")
        if not isinstance(refund, str) or refund not in [one.value for one in Refund]:
            raise refuse("refund", f"expected {', '.join(one.value for one in Refund)}")
        bid = fail_job(bid_of(request, market, sequence), why, refund=Refund(refund))
        return Response(documents.full(bid, market.cluster))


class Retry(ApiView):
    """A quarantined bid is decided again."""

    @describe(
        "Put a quarantined bid back in the queue",
        {200: BidOut},
        WRITE,
        request=None,
        parameters=[CLUSTER, SEQUENCE],
        operation_id="bids_retry",
    )
    def post(self, request: Request, cluster: str, sequence: int) -> Response:
        """For operators. The policy failed on it; it keeps its place, before later bids. 409 in any other state."""
        known_parameters(request)
        market = operated_market(request, cluster)
        check_object("", dict(request.data), required=[])
        bid = retry_bid(bid_of(request, market, sequence))
        return Response(documents.full(bid, market.cluster))


def _to_change(request: Request, cluster: str, server: str, *, optional: list[str]) -> tuple[Server, Market, Json]:
    known_parameters(request)
    market = operated_market(request, cluster)
    body = check_object("", dict(request.data), required=[], optional=optional)
    row = Server.objects.filter(cluster=market.cluster, name=server).select_related("cluster").first()
    if row is None:
        raise _unknown(market, server)
    return row, market, body


def _unknown(market: Market, server: str) -> Http404:
    return Http404(f"The cluster {market.cluster.name} has no server {server[:60]}.")


def _why(body: Json) -> str:
    why = body.get("why", "")
    if not isinstance(why, str) or len(why) > LONGEST_WHY or not why.isprintable():
        raise refuse("why", f"expected a line of at most {LONGEST_WHY} characters")
    return why.strip()


def _slot(body: Json, name: str) -> int | None:
    value = body.get(name)
    return None if value is None else check_integer(name, value, low=-LARGEST_SLOT, high=LARGEST_SLOT)


def _answer(market: Market, server: str) -> Response:
    found = holdings.server_of(market, server)
    if found is None:
        raise _unknown(market, server)
    return Response(_document(found, market))


def _document(one: holdings.ServerReading, market: Market) -> Json:
    cluster, said = market.cluster, one.outage
    by: User | None = None if said is None else said.said_by
    return {
        "name": one.name,
        "kind": one.kind,
        "state": one.state,
        **documents.slot_times(cluster, "from", None if said is None else said.from_slot),
        **documents.slot_times(cluster, "deadline", None if said is None else said.deadline),
        "why": "" if said is None else said.why,
        "said_by": None if by is None else by.get_username(),
        "said_at": None if said is None else said.said_at.isoformat(),
        "jobs": one.jobs,
        **documents.slot_times(cluster, "free_from", one.free_from),
        "held": [
            {
                "sequence": held.sequence,
                "owner": held.owner,
                "label": held.label,
                "state": held.state,
                "machine_type": held.machine_type,
                "role": held.role,
                "count": held.count,
                "queued": held.queued,
                **documents.slot_times(cluster, "start", held.start),
                **documents.slot_times(cluster, "end", held.end),
            }
            for held in one.held
        ],
    }
