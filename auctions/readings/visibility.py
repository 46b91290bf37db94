"""The bids of a market that a user may see."""

from typing import Final

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from accounts.models import Role
from accounts.rights import rights_of
from auctions.models import Bid, Market

STATED: Final = ("body", "resolved_request", "core_bid")
"""Fields with what a bid states, which lists leave in the database: a utility alone may have 1,000 points."""


def bids(market: Market, viewer: User) -> QuerySet[Bid]:
    """Return all bids of the market for its operators, else those of the user and of the user's team."""
    rights, found = rights_of(viewer), Bid.objects.filter(market=market)
    if rights.operates(market.cluster.name):
        return found
    own = Q(owner=viewer.pk)
    return found.filter(own if rights.team is None else own | Q(team=rights.team))


def may_end(bid: Bid, viewer: User) -> bool:
    """Return whether a user may withdraw a bid or cancel its job: the owner, operators of the bid's team and those of
    the cluster.
    """
    rights = rights_of(viewer)
    if bid.owner_id == viewer.pk or rights.operates(bid.market.cluster.name):
        return True
    return rights.team == bid.team_id and rights.role is not None and rights.role.includes(Role.OPERATOR)
