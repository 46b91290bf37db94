"""Counts of a market's bids, sums of their money and means of their times, as rows have them now."""

from typing import Any, Final

from django.db.models import Avg, Count, F, Q, QuerySet, Sum

from auctions.models import ADMITTED, Bid, BidState

VALUE_KEPT: Final = frozenset({BidState.PLANNED, BidState.RUNNING, BidState.COMPLETED})
"""States of an admitted job whose value counts as welfare; a cancelled or failed one pays and is worth nothing."""


def figures_of(bids: QuerySet[Bid]) -> dict[str, Any]:
    """The fields of a summary that count bids, sum up their money or average their times, by name."""
    counts = dict(bids.order_by().values_list("state").annotate(n=Count("pk")))
    admitted = sum(counts.get(state, 0) for state in ADMITTED)
    decided = admitted + counts.get(BidState.REJECTED, 0)
    welfare, revenue = _money(bids)
    return {
        "submitted": sum(counts.values()),
        "admitted": admitted,
        "rejected": counts.get(BidState.REJECTED, 0),
        "waiting": counts.get(BidState.SUBMITTED, 0),
        "withdrawn": counts.get(BidState.WITHDRAWN, 0),
        "quarantined": counts.get(BidState.QUARANTINED, 0),
        "planned": counts.get(BidState.PLANNED, 0),
        "running": counts.get(BidState.RUNNING, 0),
        "completed": counts.get(BidState.COMPLETED, 0),
        "cancelled": counts.get(BidState.CANCELLED, 0),
        "failed": counts.get(BidState.FAILED, 0),
        "in_line": bids.filter(state=BidState.PLANNED, start_slot__isnull=True).count(),
        "welfare": welfare,
        "revenue": revenue,
        "bidder_payoff": welfare - revenue,
        "admitted_share": admitted / decided if decided else None,
        **_times(bids),
    }


def _money(bids: QuerySet[Bid]) -> tuple[float, float]:
    """Welfare, and payments less what was paid back."""
    kept = Q(state__in=sorted(VALUE_KEPT))
    sums = bids.aggregate(welfare=Sum("value", filter=kept), paid=Sum("payment"), refunds=Sum("refund"))
    return sums["welfare"] or 0.0, (sums["paid"] or 0.0) - (sums["refunds"] or 0.0)


def _times(bids: QuerySet[Bid]) -> dict[str, float | None]:
    """Mean wait, flow and weighted flow, slots."""
    took = F("completion_slot") - F("arrival_slot")
    started = bids.filter(state__in=(BidState.RUNNING, BidState.COMPLETED))
    over = bids.filter(state=BidState.COMPLETED).aggregate(
        flow=Avg(took), weight=Sum("value"), sum=Sum(F("value") * took)
    )
    return {
        "mean_wait": started.aggregate(wait=Avg(F("start_slot") - F("arrival_slot")))["wait"],
        "mean_flow": over["flow"],
        "weighted_flow": over["sum"] / over["weight"] if over["weight"] else None,
    }
