"""Counts of a market's bids, sums of their money and means of their times, from the present rows."""

from typing import Any, Final

from django.db.models import Avg, Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from auctions.models import ADMITTED, Bid, BidState

VALUE_KEPT: Final = frozenset({BidState.PLANNED, BidState.RUNNING, BidState.COMPLETED})
"""States in which an admitted job's value counts as welfare. A cancelled or failed job has paid but has no value."""


COMPLETED_SLOT: Final = Coalesce("ended_slot", "completion_slot")
"""The slot at whose start a completed job was complete, as `Bid.completed_slot` says it."""


def figures_of(bids: QuerySet[Bid]) -> dict[str, Any]:
    """Return the summary's fields that count bids, sum money or average times, by name; this takes two queries."""
    counts = dict(bids.order_by().values_list("state").annotate(n=Count("pk")))
    admitted = sum(counts.get(state, 0) for state in ADMITTED)
    decided = admitted + counts.get(BidState.REJECTED, 0)
    kept, started = Q(state__in=sorted(VALUE_KEPT)), Q(state__in=(BidState.RUNNING, BidState.COMPLETED))
    over, took = Q(state=BidState.COMPLETED), COMPLETED_SLOT - F("arrival_slot")
    sums = bids.aggregate(
        in_line=Count("pk", filter=Q(state=BidState.PLANNED, start_slot=None)),
        welfare=Sum("value", filter=kept),
        paid=Sum("payment"),
        refunds=Sum("refund"),
        wait=Avg(F("start_slot") - F("arrival_slot"), filter=started),
        flow=Avg(took, filter=over),
        weight=Sum("value", filter=over),
        weighted=Sum(F("value") * took, filter=over),
    )
    # Revenue is payments less refunds.
    welfare, revenue = sums["welfare"] or 0.0, (sums["paid"] or 0.0) - (sums["refunds"] or 0.0)
    return {
        "submitted": sum(counts.values()),
        "admitted": admitted,
        "rejected": counts.get(BidState.REJECTED, 0),
        "undecided": counts.get(BidState.SUBMITTED, 0),
        "standing": counts.get(BidState.STANDING, 0),
        "withdrawn": counts.get(BidState.WITHDRAWN, 0),
        "quarantined": counts.get(BidState.QUARANTINED, 0),
        "planned": counts.get(BidState.PLANNED, 0),
        "running": counts.get(BidState.RUNNING, 0),
        "completed": counts.get(BidState.COMPLETED, 0),
        "cancelled": counts.get(BidState.CANCELLED, 0),
        "failed": counts.get(BidState.FAILED, 0),
        "in_line": sums["in_line"],
        "welfare": welfare,
        "revenue": revenue,
        "payoff": welfare - revenue,
        "acceptance": admitted / decided if decided else None,
        # In slots.
        "mean_wait_slots": sums["wait"],
        "mean_jct_slots": sums["flow"],
        "weighted_jct_slots": sums["weighted"] / sums["weight"] if sums["weight"] else None,
    }
