"""Common parts of all operations: the caller, the cluster and access to bids."""

from django.http import Http404
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from accounts.rights import rights_of
from auctions.engine.markets import market_of
from auctions.models import Bid, Market
from auctions.readings import visibility
from auctions.state import market_snapshot
from cluster.models import Cluster
from web.views import one_of, user_of


def cluster_named(name: str) -> Cluster:
    """The cluster; 404 for a name that is not known."""
    return one_of(Cluster.objects.all(), f"There is no cluster {name[:60]}.", name=name)


def market_named(name: str) -> Market:
    """Return the cluster's market; 404 if there is none."""
    return market_snapshot.market_named(name) or market_of(cluster_named(name))


def operated_market(request: Request, name: str, *, refusal: str = "This is for operators.") -> Market:
    """Return the cluster's market for its operators; 403 with this message for others."""
    if not rights_of(request.user).operates(name):
        raise PermissionDenied(refusal)
    return market_named(name)


def bid_and_cluster(request: Request, cluster: str, sequence: int) -> tuple[Bid, Cluster]:
    """Return the bid to those of `bid_of`, and its cluster; 404 for others."""
    market = market_named(cluster)
    return bid_of(request, market, sequence), market.cluster


def bid_of(request: Request, market: Market, sequence: int) -> Bid:
    """Return the bid to its owner, the owner's team or an operator; 404 for others."""
    found = visibility.bid(market, user_of(request), sequence)
    if found is None:
        raise Http404(f"There is no bid {sequence} of yours in {market.cluster.name}.")
    return found
