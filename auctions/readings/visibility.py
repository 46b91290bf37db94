"""The bids of a market that a user may see."""

from typing import Final

from django.contrib.auth.models import User
from django.db.models import BigIntegerField, Q, QuerySet

from accounts.models import Role
from accounts.rights import rights_of
from auctions.models import Bid, Market
from cluster.database.prepared import Prepared

STATED: Final = ("body", "resolved_request", "core_bid")
"""Fields with what a bid states, which lists leave in the database: a utility alone may have 1,000 points."""


def bids(market: Market, viewer: User) -> QuerySet[Bid]:
    """Return all bids of the market for its operators, else those of the user and of the user's team."""
    return _bids(market.pk, *_whose(market, viewer))


def bid(market: Market, viewer: User, sequence: int) -> Bid | None:
    """Return the bid with this number, and its owner with it; None if the viewer may see no such bid."""
    if sequence > BigIntegerField.MAX_BIGINT:
        return None
    whose = _whose(market, viewer)
    found = _BID[len(whose)].first(sequence, market.pk, *whose)
    if found is not None:
        found.market = market
    return found


def _whose(market: Market, viewer: User) -> tuple[int, ...]:
    """Return the key of the user and that of the user's team, if there is one; nothing for operators."""
    rights = rights_of(viewer)
    if rights.operates(market.cluster.name):
        return ()
    return (viewer.pk,) if rights.team is None else (viewer.pk, rights.team)


def _bids(market: int, owner: int | None = None, team: int | None = None) -> QuerySet[Bid]:
    """Return the bids of this owner and those of this team; all bids if no owner is named."""
    found = Bid.objects.filter(market=market)
    if owner is None:
        return found
    own = Q(owner=owner)
    return found.filter(own if team is None else own | Q(team=team))


def _numbered(sequence: int, market: int, *whose: int) -> QuerySet[Bid]:
    return _bids(market, *whose).filter(sequence=sequence).select_related("owner")


_BID: Final = [Prepared(_numbered, int, int, *keys) for keys in ((), (int,), (int, int))]
"""One query for each number of keys that `_whose` may return."""


def may_end(bid: Bid, viewer: User) -> bool:
    """Return whether a user may withdraw a bid or cancel its job: the owner, operators of the bid's team and those of
    the cluster.
    """
    rights = rights_of(viewer)
    if bid.owner_id == viewer.pk or rights.operates(bid.market.cluster.name):
        return True
    return rights.team == bid.team_id and rights.role is not None and rights.role.includes(Role.OPERATOR)
