"""Checks of the figures published to bidders, against the events."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import isclose

from auctions.history.recorded import keys_without
from auctions.models import Bid, BidState, Event, EventKind, Market, Publication
from auctions.readings.publications import LEAST_OWNERS, party_of
from cluster.database.paging import in_pages
from scheduling.model.types import Json

TOLERANCE = 1e-7
"""Relative error of sums that are published with nine digits."""


@dataclass
class _Sums:
    """Counts and sums of the events up to one version."""

    admitted: int = 0
    rejected_before: int = 0
    """Number of archived bids that were rejected."""
    value_before: float = 0.0
    """Value of the archived jobs that were completed."""
    rejected: set[int | None] = field(default_factory=set)
    """Keys of the bids that were rejected; standing ones count, too."""
    stood: set[int] = field(default_factory=set)
    """Keys of the bids that have stood."""
    revenue: float = 0.0
    values: dict[int, float] = field(default_factory=dict)
    """Value of each admitted job that was not cancelled and did not fail, by the bid's key."""
    owners: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Owners, or their teams, of bids that were admitted since the last publication, by the bid's key."""

    def to_json(self, gone: Collection[int]) -> Json:
        """Return the sums, in which the bids in `gone` are counted and not named, as `of_json` reads them."""
        over = [value for pk, value in self.values.items() if pk in gone]
        return {
            "admitted": self.admitted,
            "rejected_before": self.rejected_before + len(self.rejected & set(gone)),
            "value_before": sum(over, self.value_before),
            "rejected": sorted(pk for pk in self.rejected - set(gone) if pk is not None),
            "stood": keys_without(self.stood, gone),
            "revenue": self.revenue,
            "values": [[pk, value] for pk, value in self.values.items() if pk not in gone],
            "owners": [[pk, *party] for pk, party in self.owners.items()],
        }

    @classmethod
    def of_json(cls, document: Json) -> "_Sums":
        """Read what `to_json` wrote."""
        tables: Json = {
            "rejected": set(document["rejected"]),
            "stood": set(document["stood"]),
            "values": dict(document["values"]),
            "owners": {pk: (kind, key) for pk, kind, key in document["owners"]},
        }
        return cls(**document | tables)

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
        self._market, self._sums, self._version = market, _Sums(), 0
        rows = Bid.objects.filter(market=market).exclude(stands_until=None)
        self._keys = dict(rows.values_list("sequence", "pk"))
        """Keys of the bids that stood, by sequence number."""
        self._rows = in_pages(Publication.objects.filter(market=market), by="version")
        self._next = next(self._rows, None)
        self._slot: int | None = None
        """Last slot that began by an event; None if these events have none yet."""
        completed = Bid.objects.filter(market=market, state=BidState.COMPLETED).order_by()
        slots = list(completed.values_list("completion_slot", "ended_slot"))
        self._in_time = sorted(planned for planned, ended in slots if ended is None and planned is not None)
        """The slots at whose starts completed jobs were complete as planned."""
        self._early = sorted(ended for _, ended in slots if ended is not None)
        """The slots in which completed jobs ended early."""

    def to_json(self, gone: Collection[int]) -> Json:
        """Return the sums up to the last event, and its version, as `resume` reads them."""
        return {"version": self._version, "sums": self._sums.to_json(gone)}

    def resume(self, document: Json) -> None:
        """Go on from the sums that `to_json` wrote; publications of the last event's version are still compared."""
        self._sums = _Sums.of_json(document["sums"])
        later = Publication.objects.filter(market=self._market, version__gte=document["version"])
        self._rows = in_pages(later, by="version")
        self._next = next(self._rows, None)

    def take(self, event: Event) -> Iterator[str]:
        """Count one event; the publications before it are compared first."""
        while self._next is not None and self._next.version < event.version:
            yield from self._compared(self._next)
        self._version = event.version
        self._sums.take(event)
        if event.kind == EventKind.SLOT:
            self._slot = event.slot
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
            "rejected": sums.rejected_before + len(sums.rejected),
            "welfare": sum(sums.values.values(), sums.value_before),
            "revenue": sums.revenue,
        }
        for name, value in expected.items():
            if not isclose(row.figures[name], value, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                yield f"{row} say {name} {row.figures[name]}; events give {value}"
        if self._slot is not None and row.slot != self._slot:
            yield f"{row} were published when slot {self._slot} began"
        yield from self._completed_otherwise(row)
        owners = len(set(sums.owners.values()))
        if owners < LEAST_OWNERS:
            yield f"{row} have new bids of {owners} owners; at least {LEAST_OWNERS} are needed"
        sums.owners.clear()

    def _completed_otherwise(self, row: Publication) -> Iterator[str]:
        """Check the number of completed jobs: a job that ended early in the very moment of a slot's start is new."""
        planned = bisect_right(self._in_time, row.slot)
        least, most = (planned + at(self._early, row.slot) for at in (bisect_left, bisect_right))
        if not least <= row.figures["completed"] <= most:
            yield f"{row} say completed {row.figures['completed']}; rows give {most}"
