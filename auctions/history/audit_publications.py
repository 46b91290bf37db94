"""Checks of the figures published to bidders, against the events."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isclose

from auctions.history.audit_rows import withdrawn_versions
from auctions.models import Bid, Event, EventKind, Market, Publication
from auctions.readings.publications import LEAST_OWNERS

TOLERANCE = 1e-7
"""Relative error of sums that are published with nine digits."""


@dataclass
class _Sums:
    """Counts and sums of the events up to one version."""

    admitted: int = 0
    rejected: set[int | None] = field(default_factory=set)
    """Keys of the bids that were rejected; standing ones count, too."""
    revenue: float = 0.0
    values: dict[int, float] = field(default_factory=dict)
    """Value of each admitted job that was not cancelled and did not fail, by the bid's key."""
    owners: dict[int, int] = field(default_factory=dict)
    """Owners of bids that were admitted since the last publication, by the bid's key."""

    def take(self, event: Event) -> None:
        """Count one event."""
        bid = event.bid
        if bid is None:
            return
        if event.kind in (EventKind.REJECTED, EventKind.STANDING):
            self.rejected.add(bid.pk)
        if event.kind in (EventKind.ADMITTED, EventKind.WITHDRAWN, EventKind.QUARANTINED):
            self.rejected.discard(bid.pk)
        if event.kind == EventKind.RETRIED and bid.stands_until is not None:
            self.rejected.add(bid.pk)
        if event.kind == EventKind.ADMITTED:
            self.admitted += 1
            self.revenue += bid.payment or 0.0
            self.values[bid.pk], self.owners[bid.pk] = bid.value or 0.0, bid.owner_id
        if event.kind in (EventKind.CANCELLED, EventKind.FAILED):
            self.revenue -= bid.refund
            self.values.pop(bid.pk, None)
            self.owners.pop(bid.pk, None)


def figures_match(market: Market) -> list[str]:
    """Check that counts and money of each publication match its events, and bids of enough owners are new in it."""
    return list(_problems(market))


def _problems(market: Market) -> Iterator[str]:
    events = Event.objects.filter(market=market, bid__isnull=False).order_by("version").select_related("bid")
    sums, left = _Sums(), list(events)[::-1]
    keys = dict(Bid.objects.filter(market=market).exclude(stands_until=None).values_list("sequence", "pk"))
    withdrawn = [(keys.get(number), version) for number, version in withdrawn_versions(market)][::-1]
    for row in Publication.objects.filter(market=market):
        while left and left[-1].version <= row.version:
            sums.take(left.pop())
        while withdrawn and withdrawn[-1][1] <= row.version:
            sums.rejected.discard(withdrawn.pop()[0])
        expected = {
            "admitted": sums.admitted,
            "rejected": len(sums.rejected),
            "welfare": sum(sums.values.values()),
            "revenue": sums.revenue,
        }
        for name, value in expected.items():
            if not isclose(row.figures[name], value, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                yield f"{row} say {name} {row.figures[name]}; events give {value}"
        owners = len(set(sums.owners.values()))
        if owners < LEAST_OWNERS:
            yield f"{row} have new bids of {owners} owners; at least {LEAST_OWNERS} are needed"
        sums.owners.clear()
