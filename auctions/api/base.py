"""Common parts of all operations: the caller, the cluster and access to bids."""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.views import APIView

from auctions.api.refusals import BodyTooLarge
from auctions.engine.markets import market_of
from auctions.models import Bid, Market
from auctions.state import snapshot
from cluster.models import Cluster
from cluster.operators import is_operator


class ApiView(APIView):
    """An operation below /api/v1/."""

    body_limit_bytes: int = settings.BODY_LIMIT_BYTES

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        """Let a chunked body be read: without a length it would count as empty."""
        if "HTTP_TRANSFER_ENCODING" in request.META and not request.META.get("CONTENT_LENGTH"):
            request.META["CONTENT_LENGTH"] = "-1"
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse a body by its stated length before it is read."""
        super().initial(request, *args, **kwargs)
        stated = request.META.get("CONTENT_LENGTH") or "0"
        if stated.isdigit() and int(stated) > self.body_limit_bytes:
            raise BodyTooLarge


def cluster_named(name: str) -> Cluster:
    """The cluster; 404 for a name that is not known."""
    found = Cluster.objects.filter(name=name).first()
    if found is None:
        raise Http404(f"There is no cluster {name[:60]}.")
    return found


def market_named(name: str) -> Market:
    """The cluster's market; 404 where there is none."""
    return snapshot.market_named(name) or market_of(cluster_named(name))


def operated_market(request: Request, name: str, *, refusal: str = "This is for operators.") -> Market:
    """Return the cluster's market for an operator; 403 with this message for others."""
    if not is_operator(request.user):
        raise PermissionDenied(refusal)
    return market_named(name)


def bid_of(request: Request, market: Market, sequence: int) -> Bid:
    """Return the bid to its owner or an operator; 404 for others."""
    bids = Bid.objects.filter(market=market, sequence=sequence).select_related("owner", "market")
    if not is_operator(request.user):
        bids = bids.filter(owner=request.user.pk)
    bid = bids.first()
    if bid is None:
        raise Http404(f"There is no bid {sequence} of yours in {market.cluster.name}.")
    return bid
