"""Money figures that bidders may read: sums over bids of several owners, published when a slot begins.

A sum that changes with every decision reveals the value of each bid, as the difference of two readings. So bidders read
figures that do not change between publications. A publication is made at the beginning of a slot, once the bids
admitted since the last publication that still count belong to at least LEAST_OWNERS owners. An owner who subtracts
their own bids is left with a sum over the bids of at least LEAST_OWNERS - 1 other owners, and none of these bids was in
an earlier sum. A team counts as one owner, since members see its bids. Only one published figure (welfare) depends on
values. With a second one, such as a mean weighted by value, the equations could have a unique solution. So bidders do
not read revenue and payoff where bids compete: a payment is there what others stated to lose, and if one bid paid, the
sum shows it.

Operators read the present figures. So does an owner of all bids of a market, be it a user or a team, because there are
no others to protect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.contrib.auth.models import User
from django.db.models import Q

from accounts.rights import operates, rights_of
from auctions.domain.standing_rule import longest_stand
from auctions.domain.totals import VALUE_KEPT, figures_of
from auctions.models import Bid, Event, EventKind, Market, Publication
from auctions.readings import market_readings, sums
from auctions.readings.types import Flow, Summary, Welfare
from auctions.state.market_snapshot import market_snapshot, one_version
from auctions.state.recent import Recent
from cluster.database.prepared import Prepared
from scheduling.registry import POLICIES

LEAST_OWNERS: Final = 4
"""Least number of owners whose admitted bids are new in a publication."""

STANDING_WAIT: Final = "standing_wait_slots"
"""Name of the published median wait of standing bids."""
STANDING_SHARE: Final = "standing_admitted_share"
"""Name of the published share of standing bids that were admitted in the end."""
STANDING_THROUGH: Final = "standing_share_through"
"""Name of the sequence number of the last bid that the published share counts; it is not shown."""
SHARE_OF: Final = 32
"""Number of the last standing bids of which the published share is taken."""
SHARE_PARTS: Final = 20
"""Published shares of standing bids are multiples of 1 / SHARE_PARTS."""
OF_STANDING: Final = (STANDING_WAIT, STANDING_SHARE, STANDING_THROUGH)
"""Published figures that quotes state, and no summary."""

SEALED: Final = frozenset({"weighted_jct_slots", "standing"})
"""Figures that are not published. Together with welfare, the mean weighted by value would allow to compute values. The
number of standing bids falls when a bid becomes worthless to its owner: they are published among the rejected ones.
"""
OF_PAYMENTS: Final = ("revenue", "payoff")
"""Figures that bidders do not read where bids compete or competed. Rows of publications have them all the same: events
give them again, and the audit compares both.
"""


_summaries: Recent[tuple[UUID, int, int, int, int | None], Summary] = Recent(64)
"""Summaries by the market's token and version, the last slot that began and the first one on sale. The last part is the
number of unrecorded withdrawals if the figures are present ones, else None.
"""

_LAST = Prepared(lambda market: Publication.objects.filter(market=market).order_by("-version")[:1], int)
_NEW = Prepared(
    lambda market, version: (
        Event.objects.filter(
            market=market, version__gt=version, kind=EventKind.ADMITTED, bid__state__in=sorted(VALUE_KEPT)
        )
        .order_by()
        .values_list("bid__owner", "bid__team")
        .distinct()
    ),
    int,
    int,
)
_OF_OTHERS = Prepared(
    lambda market, viewer: Bid.objects.filter(market=market).exclude(owner=viewer).order_by().values_list("pk")[:1],
    int,
    int,
)
_OF_OTHER_TEAMS = Prepared(
    lambda market, viewer, team: (
        Bid.objects.filter(market=market)
        .exclude(owner=viewer)
        .filter(Q(team=None) | ~Q(team=team))
        .order_by()
        .values_list("pk")[:1]
    ),
    int,
    int,
    int,
)
_UNRECORDED = Prepared(
    lambda market: (
        Bid.objects.filter(market=market, unrecorded_withdrawal=True).order_by().values_list("owner_id", "team_id")
    ),
    int,
)


def publish(market: Market) -> Publication | None:
    """Publish the figures after a slot has begun, if bids of enough owners are new; call it under the market's lock."""
    last = _LAST.first(market.pk)
    if _new_owners(market, since=0 if last is None else last.version) < LEAST_OWNERS:
        return None
    found = _published(sums.present_figures(market))
    figures = {name: _rounded(value) for name, value in found.items()}
    figures[STANDING_WAIT] = _median_wait(market, owners=LEAST_OWNERS)
    figures |= _published_share(market, {} if last is None else last.figures)
    return Publication.objects.create(market=market, version=market.version, slot=market.slot, figures=figures)


@dataclass(frozen=True)
class StandingPast:
    """The past of a market's standing bids, as far as a viewer may read it."""

    wait: float | None
    """Median time from arrival to admission of the last standing bids that were admitted, slots; None if unknown."""
    admitted_share: float | None
    """Share of the last standing bids that were admitted in the end; None if unknown."""


@one_version()
def standing_past(market: Market, viewer: User) -> StandingPast:
    """Return the past of a market's standing bids that the viewer may read.

    A viewer who may not read present figures reads the last published ones. The wait is None if no standing bid was
    admitted, or in publications if those bids belong to fewer than LEAST_OWNERS owners. The share counts bids that
    arrived so long ago that none of them can stand any more, so that it does not show when a bid ended; withdrawn ones
    count as not admitted. In publications it is rounded, and renewed once it counts new bids of LEAST_OWNERS owners.
    """
    market = market_snapshot(market).market
    if sees_all(market, viewer):
        rows = _that_stood(market)
        return StandingPast(_median_wait(market, owners=1), _share(rows) if rows else None)
    last = _LAST.first(market.pk)
    figures = {} if last is None else last.figures
    return StandingPast(figures.get(STANDING_WAIT), figures.get(STANDING_SHARE))


_Stood = tuple[int, int, int | None, float | None]
"""Sequence number, keys of owner and team, and payment of a bid that stood; the payment is None if not admitted."""


def _that_stood(market: Market) -> list[_Stood]:
    """Return the last bids that stood and arrived so long ago that they stand no longer, the newest first.

    How long one may stand was settled by the policy that decided it first.
    """
    over, horizon = Q(), market.cluster.horizon_slots
    for name in sorted(set(market.policies.values_list("name", flat=True))):
        since = market.slot - int(longest_stand(name) * horizon)
        over |= Q(first_decision__policy__name=name, arrival_slot__lt=since)
    rows = Bid.objects.filter(over, market=market, stands_until__isnull=False)
    return list(rows.order_by("-sequence").values_list("sequence", "owner_id", "team_id", "payment")[:SHARE_OF])


def _share(rows: Sequence[_Stood]) -> float:
    return sum(payment is not None for *_, payment in rows) / len(rows)


def _published_share(market: Market, before: dict[str, Any]) -> dict[str, Any]:
    """Return the share to publish, with the last bid that it counts; as before if new bids have too few owners."""
    share, through, rows = before.get(STANDING_SHARE), before.get(STANDING_THROUGH, 0), _that_stood(market)
    if len({party_of(owner, team) for number, owner, team, _ in rows if number > through}) >= LEAST_OWNERS:
        share, through = round(_share(rows) * SHARE_PARTS) / SHARE_PARTS, rows[0][0]
    return {STANDING_SHARE: share, STANDING_THROUGH: through}


def _median_wait(market: Market, *, owners: int) -> float | None:
    last = sums.last_admissions_of_standing(market)
    if len({party_of(one.owner, one.team) for one in last}) < owners:
        return None
    return float(median(one.slot - one.arrival for one in last)) if last else None


def _published(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures that are published: standing bids count as rejected, which they were once."""
    rejected, admitted = figures["rejected"] + figures["standing"], figures["admitted"]
    shown = {name: value for name, value in figures.items() if name not in SEALED}
    acceptance = admitted / (admitted + rejected) if admitted + rejected else None
    return shown | {"rejected": rejected, "acceptance": acceptance}


def _rounded(figure: float | None) -> float | None:
    """Round to nine digits, because the further digits of a sum depend on each of its terms."""
    return float(f"{figure:.9g}") if isinstance(figure, float) else figure


def _new_owners(market: Market, *, since: int) -> int:
    """Return the number of owners of bids that were admitted after version `since` and whose values count."""
    return len({party_of(owner, team) for owner, team in _NEW(market.pk, since)})


def sees_all(market: Market, viewer: User) -> bool:
    """Return whether the viewer may read present figures: an operator, or a user who sees all bids of the market, since
    all are the user's own or of the user's team.
    """
    if operates(viewer, market.cluster):
        return True
    team = rights_of(viewer).team
    return not (_OF_OTHERS(market.pk, viewer.pk) if team is None else _OF_OTHER_TEAMS(market.pk, viewer.pk, team))


def party_of(owner: int, team: int | None) -> tuple[str, int]:
    """Return who learns of a bid: its owner or, since members of a team see its bids, the team."""
    return ("user", owner) if team is None else ("team", team)


def competed(market: Market) -> bool:
    """Return whether bids compete in the market, or did under an earlier policy."""
    competing = [name for name, policy in POLICIES.items() if policy.competes]
    return market.policies.filter(name__in=competing).exists()


def unrecorded_withdrawals(market: Market, viewer: User) -> int:
    """Return the number of withdrawals of standing bids that the viewer may read and no event records yet.

    They change what the viewer reads and leave the market's version as it is. A bidder counts only their own and those
    of their team.
    """
    found = _UNRECORDED(market.pk)
    if not found or sees_all(market, viewer):
        return len(found)
    team = rights_of(viewer).team
    return sum(owner == viewer.pk or (team is not None and of_team == team) for owner, of_team in found)


def _latest(market: Market) -> tuple[int, dict[str, Any]]:
    """Return slot and figures of the last publication; before the first, those of the market when it opened, empty."""
    last = _LAST.first(market.pk)
    sealed = OF_PAYMENTS if competed(market) else ()
    nothing = _of_no_bids() | dict.fromkeys(sealed)
    if last is not None:
        hidden = (*OF_STANDING, *sealed)
        return last.slot, nothing | {name: last.figures[name] for name in last.figures if name not in hidden}
    opened = Event.objects.filter(market=market, kind=EventKind.OPENED).order_by("version")[0]
    return opened.slot, nothing


@cache
def _of_no_bids() -> dict[str, Any]:
    return figures_of({}) | {"standing": None}


@one_version()
def summary(market: Market, viewer: User) -> Summary:
    """Return the summary of the market that the viewer may read, which is computed once for all readers of a version.

    The certificate, the time of reading and whether the market is open change without a new version.
    """
    seen, present = market_snapshot(market), sees_all(market, viewer)
    withdrawals = unrecorded_withdrawals(market, viewer) if present else None
    key = (seen.market.token, seen.market.version, seen.moment.slot, seen.moment.now, withdrawals)
    found = _summaries.made_once(
        key, lambda: market_readings.summary(market, published=None if present else _latest(market))
    )
    bound = market_readings.bound(market) if present else None
    return replace(found, read_at=seen.moment.wall, is_open=seen.market.is_open, bound=bound)


@one_version()
def welfare(market: Market, viewer: User) -> Welfare:
    """Return welfare and revenue after each decision or, if the viewer may not read these, after each publication."""
    if sees_all(market, viewer):
        return market_readings.welfare(market)
    rows = list(Publication.objects.filter(market=market))
    slot_seconds = market.cluster.slot_seconds
    return Welfare(
        decided=np.array([row.figures["admitted"] + row.figures["rejected"] for row in rows], dtype=np.int64),
        slot=np.array([row.slot for row in rows], dtype=np.int64),
        seconds=np.array([float(row.slot * slot_seconds) for row in rows], dtype=np.float64),
        welfare=np.array([row.figures["welfare"] for row in rows], dtype=np.float64),
        revenue=None if competed(market) else np.array([row.figures["revenue"] for row in rows], dtype=np.float64),
        sequence=None,
        zero_price_bound=None,
        bound=None,
    )


@one_version()
def flow(market: Market, viewer: User) -> Flow:
    """Return times from arrival to completion: of all jobs, or of the viewer's own jobs with the published means."""
    found = market_readings.flow(market)
    if sees_all(market, viewer):
        return found
    mine = sums.completions(market_snapshot(market).market)["owner"] == viewer.pk
    rows = [row for row in Publication.objects.filter(market=market) if row.figures["mean_jct_slots"] is not None]
    return Flow(
        sequence=found.sequence[mine],
        slot=found.slot[mine],
        flow=found.flow[mine],
        mean_slot=np.array([row.slot for row in rows], dtype=np.int64),
        mean=np.array([row.figures["mean_jct_slots"] for row in rows], dtype=np.float64),
        weighted_mean=None,
    )
