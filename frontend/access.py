"""Access rules of pages. Queries contain only visible rows, so anything else answers 404."""

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet
from django.http import Http404, HttpRequest

from auctions.models import Bid, Market
from auctions.state import market_snapshot
from cluster.operators import is_operator
from frontend.figures.timeline import TimeLine


def viewer_of(request: HttpRequest) -> User:
    """Return the signed-in user; views that call this require one."""
    user = request.user
    if isinstance(user, AnonymousUser):
        raise Http404
    return user


def market_named(name: str) -> Market:
    """Return the market of the cluster of this name."""
    market = market_snapshot.market_named(name)
    if market is None:
        raise Http404
    return market


def visible_bids(market: Market, viewer: User) -> QuerySet[Bid]:
    """Return all bids of the market for an operator, else the user's own."""
    bids = Bid.objects.filter(market=market).select_related("owner")
    return bids if is_operator(viewer) else bids.filter(owner=viewer)


def timeline_of(market: Market) -> TimeLine:
    """Return the market's time line, which converts slots to dates."""
    return TimeLine(epoch=market.cluster.epoch, slot_seconds=market.cluster.slot_seconds)
