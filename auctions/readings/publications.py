"""What bidders read of everybody's money: sums over bids of several owners, published when a slot begins.

A sum that moves with every decision tells what each bid is worth: it is the difference of two readings. So bidders read
figures that stand still between publications. A publication is made at the beginning of a slot, once the bids that were
admitted since the last one, and still count, are of LEAST_OWNERS owners. Whoever owns one of them, and subtracts it,
is left with a sum over the bids of LEAST_OWNERS - 1 others, none of which was in any sum before. Only one published
figure depends on values (welfare): with two, such as a mean weighted by value, equations could have one solution.

Operators read everything as it stands; so does whoever owns all bids of a market, as there is nobody else's to seal.
"""

from functools import cache
from typing import Any, Final

import numpy as np
from django.contrib.auth.models import User

from auctions.domain.totals import VALUE_KEPT, figures_of
from auctions.models import Bid, BidState, Event, EventKind, Market, Publication
from auctions.readings import market as readings
from auctions.readings.types import Flow, Summary, Welfare
from auctions.state.snapshot import one_version
from cluster.operators import is_operator

LEAST_OWNERS: Final = 4
"""Owners whose admitted bids are new in a publication."""

SEALED: Final = frozenset({"weighted_flow"})
"""Figures that are not published: with them beside welfare, values could be computed."""


def publish(market: Market) -> Publication | None:
    """When a slot has begun, publish the figures if enough owners' bids are new in them; under the market's lock."""
    last = Publication.objects.filter(market=market).order_by("-version").values_list("version", flat=True).first()
    if _new_owners(market, since=last or 0) < LEAST_OWNERS:
        return None
    found = figures_of(Bid.objects.filter(market=market))
    figures = {name: _rounded(value) for name, value in found.items() if name not in SEALED}
    return Publication.objects.create(market=market, version=market.version, slot=market.slot, figures=figures)


def _rounded(figure: float | None) -> float | None:
    """Nine digits: what is behind them in a sum depends on each of its terms."""
    return float(f"{figure:.9g}") if isinstance(figure, float) else figure


def _new_owners(market: Market, *, since: int) -> int:
    """Owners of bids that were admitted after version `since` and whose values count."""
    admitted = Event.objects.filter(market=market, version__gt=since, kind=EventKind.ADMITTED)
    return admitted.filter(bid__state__in=sorted(VALUE_KEPT)).values("bid__owner").distinct().count()


def sees_all(market: Market, viewer: User) -> bool:
    """Whether the viewer reads figures as they stand: an operator, or the owner of all bids of the market."""
    return is_operator(viewer) or not Bid.objects.filter(market=market).exclude(owner=viewer).exists()


def _latest(market: Market) -> tuple[int, dict[str, Any]]:
    """The slot and the figures of the last publication; before the first, those of the empty market that opened."""
    last = Publication.objects.filter(market=market).order_by("-version").first()
    nothing = _of_no_bids()
    if last is not None:
        return last.slot, nothing | last.figures
    opened = Event.objects.filter(market=market, kind=EventKind.OPENED).order_by("version")[0]
    return opened.slot, nothing


@cache
def _of_no_bids() -> dict[str, Any]:
    return figures_of(Bid.objects.none())


@one_version()
def summary(market: Market, viewer: User) -> Summary:
    """The market at a glance, as the viewer may read it."""
    return readings.summary(market, published=None if sees_all(market, viewer) else _latest(market))


@one_version()
def welfare(market: Market, viewer: User) -> Welfare:
    """Welfare and revenue after each decision, or after each publication, as the viewer may read them."""
    if sees_all(market, viewer):
        return readings.welfare(market)
    rows = list(Publication.objects.filter(market=market))
    slot_seconds = market.cluster.slot_seconds
    return Welfare(
        decided=np.array([row.figures["admitted"] + row.figures["rejected"] for row in rows], dtype=np.int64),
        slot=np.array([row.slot for row in rows], dtype=np.int64),
        seconds=np.array([float(row.slot * slot_seconds) for row in rows], dtype=np.float64),
        welfare=np.array([row.figures["welfare"] for row in rows], dtype=np.float64),
        revenue=np.array([row.figures["revenue"] for row in rows], dtype=np.float64),
        sequence=None,
        zero_price_bound=None,
        bound=None,
    )


@one_version()
def flow(market: Market, viewer: User) -> Flow:
    """Time from arrival to completion: of all jobs, or of the viewer's own with the published means."""
    found = readings.flow(market)
    if sees_all(market, viewer):
        return found
    own = Bid.objects.filter(market=market, owner=viewer, state=BidState.COMPLETED)
    mine = np.isin(found.sequence, np.array(own.values_list("sequence", flat=True), dtype=np.int64))
    rows = [row for row in Publication.objects.filter(market=market) if row.figures["mean_flow"] is not None]
    return Flow(
        sequence=found.sequence[mine],
        slot=found.slot[mine],
        flow=found.flow[mine],
        mean_slot=np.array([row.slot for row in rows], dtype=np.int64),
        mean=np.array([row.figures["mean_flow"] for row in rows], dtype=np.float64),
        weighted_mean=None,
    )
