"""Checks of the figures published to bidders, against the events."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isclose

from auctions.models import Bid, Event, EventKind, Market, Publication
from auctions.readings.publications import LEAST_OWNERS, party_of
from cluster.database.paging import in_pages

TOLERANCE = 1e-7
"""Relative error of sums that are published with nine digits."""


@dataclass
class _Sums:
    """Counts and sums of the events up to one version."""

    admitted: int = 0
    rejected: set[int | None] = field(default_factory=set)
    """Keys of the bids that were rejected; standing ones count, too."""
    stood: set[int] = field(default_factory=set)
    """Keys of the bids that have stood."""
    revenue: float = 0.0
    values: dict[int, float] = field(default_factory=dict)
    """Value of each admitted job that was not cancelled and did not fail, by the bid's key."""
    owners: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Owners, or their teams, of bids that were admitted since the last publication, by the bid's key."""

    def take(self, event: Event) -> None:
        """Count one event."""
        bid = event.bid
        if bid is None:
            return
        if event.kind in (EventKind.REJECTED, EventKind.STANDING):
            self.rejected.add(bid.pk)
        if event.kind == EventKind.STANDING:
            self.stood.add(bid.pk)
        if event.kind in (EventKind.ADMITTED, EventKind.WITHDRAWN, EventKind.QUARANTINED):
            self.rejected.discard(bid.pk)
        if event.kind == EventKind.RETRIED and bid.pk in self.stood:
            self.rejected.add(bid.pk)
        if event.kind == EventKind.ADMITTED:
            self.admitted += 1
            self.revenue += bid.payment or 0.0
            self.values[bid.pk], self.owners[bid.pk] = bid.value or 0.0, party_of(bid.owner_id, bid.team_id)
        if event.kind in (EventKind.CANCELLED, EventKind.FAILED):
            self.revenue -= bid.refund
            self.values.pop(bid.pk, None)
            self.owners.pop(bid.pk, None)


class Publications:
    """The publications of a market, each compared with the events up to its version."""

    def __init__(self, market: Market) -> None:
        self._sums = _Sums()
        rows = Bid.objects.filter(market=market).exclude(stands_until=None)
        self._keys = dict(rows.values_list("sequence", "pk"))
        """Keys of the bids that stood, by sequence number."""
        self._rows = in_pages(Publication.objects.filter(market=market), by="version")
        self._next = next(self._rows, None)

    def take(self, event: Event) -> Iterator[str]:
        """Count one event; the publications before it are compared first."""
        while self._next is not None and self._next.version < event.version:
            yield from self._compared(self._next)
        self._sums.take(event)
        if event.kind == EventKind.SLOT:
            for number in event.payload.get("withdrawn", ()):
                self._sums.rejected.discard(self._keys.get(number))

    def finish(self) -> Iterator[str]:
        """Compare the other publications."""
        while self._next is not None:
            yield from self._compared(self._next)

    def _compared(self, row: Publication) -> Iterator[str]:
        """Check counts and money of a publication, and that bids of enough owners are new in it."""
        self._next, sums = next(self._rows, None), self._sums
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
