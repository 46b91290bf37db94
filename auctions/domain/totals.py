"""Counts of bids, sums of their money and means of their times, by state, from the present rows."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from auctions.models import ADMITTED, Bid, BidState

VALUE_KEPT: Final = frozenset({BidState.PLANNED, BidState.RUNNING, BidState.COMPLETED})
"""States in which an admitted job's value counts as welfare. A cancelled or failed job has paid but has no value."""


COMPLETED_SLOT: Final = Coalesce("ended_slot", "completion_slot")
"""The slot at whose start a completed job was complete, as `Bid.completed_slot` says it."""


@dataclass(frozen=True)
class Sums:
    """Sums over bids of one state. Times are in slots; those of jobs that have not come so far count 0."""

    number: int = 0
    without_start: int = 0
    """Number of those without a start."""
    value: float = 0.0
    paid: float = 0.0
    refunded: float = 0.0
    waited: int = 0
    """Times from arrival to start."""
    took: int = 0
    """Times from arrival to completion."""
    weighted: float = 0.0
    """The same, each times the bid's value."""

    def __add__(self, other: "Sums") -> "Sums":
        """Return the sums over the bids of both."""
        return Sums(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def sums_by_state(bids: QuerySet[Bid]) -> dict[str, Sums]:
    """Return the sums over these bids by state; this takes one query."""
    took = COMPLETED_SLOT - F("arrival_slot")
    rows = (
        bids.order_by()
        .values("state")
        .annotate(
            number=Count("pk"),
            without_start=Count("pk", filter=Q(start_slot=None)),
            valued=Sum("value"),
            paid=Sum("payment"),
            refunded=Sum("refund"),
            waited=Sum(F("start_slot") - F("arrival_slot")),
            took=Sum(took),
            weighted=Sum(F("value") * took),
        )
    )
    return {
        row["state"]: Sums(
            row["number"],
            row["without_start"],
            row["valued"] or 0.0,
            row["paid"] or 0.0,
            row["refunded"] or 0.0,
            int(row["waited"] or 0),
            int(row["took"] or 0),
            row["weighted"] or 0.0,
        )
        for row in rows
    }


def added(one: Mapping[str, Sums], other: Mapping[str, Sums]) -> dict[str, Sums]:
    """Return the sums by state over the bids of both."""
    return {state: one.get(state, Sums()) + other.get(state, Sums()) for state in {**one, **other}}


def figures_of(sums: Mapping[str, Sums]) -> dict[str, Any]:
    """Return the summary's fields that count bids, sum money or average times, by name, from sums by state."""

    def over(*states: str) -> Sums:
        return sum((sums.get(state, Sums()) for state in sorted(states)), Sums())

    def number(state: str) -> int:
        return over(state).number

    everything, admitted, completed = over(*BidState.values), over(*ADMITTED), over(BidState.COMPLETED)
    started = over(BidState.RUNNING, BidState.COMPLETED)
    decided = admitted.number + number(BidState.REJECTED)
    # Revenue is payments less refunds.
    welfare, revenue = over(*VALUE_KEPT).value, everything.paid - everything.refunded
    return {
        "submitted": everything.number,
        "admitted": admitted.number,
        "rejected": number(BidState.REJECTED),
        "undecided": number(BidState.SUBMITTED),
        "standing": number(BidState.STANDING),
        "withdrawn": number(BidState.WITHDRAWN),
        "quarantined": number(BidState.QUARANTINED),
        "planned": number(BidState.PLANNED),
        "running": number(BidState.RUNNING),
        "completed": completed.number,
        "cancelled": number(BidState.CANCELLED),
        "failed": number(BidState.FAILED),
        "in_line": over(BidState.PLANNED).without_start,
        "welfare": welfare,
        "revenue": revenue,
        "payoff": welfare - revenue,
        "acceptance": admitted.number / decided if decided else None,
        # In slots.
        "mean_wait_slots": started.waited / started.number if started.number else None,
        "mean_jct_slots": completed.took / completed.number if completed.number else None,
        "weighted_jct_slots": completed.weighted / completed.value if completed.value else None,
    }
