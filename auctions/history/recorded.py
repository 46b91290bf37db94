"""Events and receipts of a market as they are recorded, read page by page: memory does not grow with the market."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol

from django.db.models import Q, QuerySet

from auctions.history.steps import Replayed
from auctions.models import Bid, DecisionRecord, Event, EventKind, FirstDecision, Market
from cluster.database.paging import in_pages, pages
from scheduling.model.types import Json

RELATED = ("decision__policy", "first_decision")
"""Relations that are read with a bid: its receipts and the policy of the last one."""


class Source(Protocol):
    """The place from which a pass reads events and their bids: rows of the market, or an archive."""

    def first_slot(self) -> int | None:
        """Return the first slot that began by an event, even by one after these; None if none did."""

    def pages(self) -> Iterator[list[Event]]:
        """Yield the events in order; the bid of each has been read with its receipts and their policies."""

    def bids(self, keys: Collection[int]) -> dict[int, Bid]:
        """Return the bids of these keys, at most a page of them, with their receipts and the policies of these."""

    def numbered(self, numbers: Collection[int]) -> dict[int, Bid]:
        """Return the same of bids of these sequence numbers, by number; those that are unknown are left out."""


class Rows:
    """The rows of a market: the events after version `since`, up to version `until` if it is given."""

    def __init__(self, market: Market, *, since: int = 0, until: int | None = None) -> None:
        self._market, self._since = market, since
        self._within = Q(version__gt=since) if until is None else Q(version__gt=since, version__lte=until)

    def first_slot(self) -> int | None:
        """Return the first slot that began by an event, even by one after these; None if none did."""
        slots = Event.objects.filter(market=self._market, kind=EventKind.SLOT, version__gt=self._since)
        first: int | None = slots.order_by("version").values_list("payload__from", flat=True).first()
        return first

    def pages(self) -> Iterator[list[Event]]:
        """Yield the events in order, with their bids."""
        for page in pages(Event.objects.filter(self._within, market=self._market), by="version"):
            bids = self.bids({event.bid_id for event in page if event.bid_id is not None})
            for event in page:
                if event.bid_id is not None:
                    event.bid = bids[event.bid_id]
            yield page

    def bids(self, keys: Collection[int]) -> dict[int, Bid]:
        """Return the bids of these keys, with their receipts."""
        return Bid.objects.select_related(*RELATED).in_bulk(list(keys)) if keys else {}

    def numbered(self, numbers: Collection[int]) -> dict[int, Bid]:
        """Return the bids of these sequence numbers, with their receipts."""
        found = Bid.objects.select_related(*RELATED).filter(market=self._market, sequence__in=list(numbers))
        return {bid.sequence: bid for bid in found} if numbers else {}


class RecordedReceipts:
    """The receipts of a market, each of which a replay should give once; those of archived bids are not among them."""

    def __init__(self, market: Market, source: Source) -> None:
        self._market, self._source = market, source
        self._taken: dict[bool, set[int]] = {False: set(), True: set()}
        """Keys of the bids whose last and first receipts were compared."""

    def to_json(self, gone: Collection[int]) -> Json:
        """Return which receipts were compared, without those of the bids in `gone`, as `resume` reads them."""
        last, first = (sorted(self._taken[stands] - set(gone)) for stands in (False, True))
        return {"last": last, "first": first}

    def resume(self, document: Json) -> None:
        """Go on after the receipts that `to_json` wrote."""
        self._taken = {False: set(document["last"]), True: set(document["first"])}

    def compared(self, steps: Sequence[Replayed], bid: Bid | None) -> Iterator[tuple[Replayed, str]]:
        """Yield the replayed decisions of one event, each with the recorded receipt; "" if there is none.

        `bid` is the event's bid as a `Source` reads it. Others are those whose turn came in a slot.
        """
        others = {step.bid_id for step in steps if bid is None or step.bid_id != bid.pk}
        rows = self._source.bids(others) if others else {}
        for step in steps:
            row = bid if bid is not None and step.bid_id == bid.pk else rows.get(step.bid_id)
            record = getattr(row, "first_decision" if step.stands else "decision", None)
            taken = self._taken[step.stands]
            yield step, "" if record is None or step.bid_id in taken else record.receipt
            taken.add(step.bid_id)

    def left(self) -> Iterator[tuple[int, str]]:
        """Yield the sequence numbers and the receipts of the bids whose receipts no replayed decision had."""
        for number, key, receipt in self._rows(DecisionRecord.objects.all()):
            if key not in self._taken[False]:
                yield number, receipt
        for number, key, receipt in self._rows(FirstDecision.objects.all()):
            if key not in self._taken[True]:
                yield number, receipt

    def _rows(self, records: "QuerySet[Any]") -> Iterator[tuple[int, int, str]]:
        """Yield sequence number and key of the bid of each record, and the receipt."""
        rows = records.filter(bid__market=self._market, bid__seal=None).values_list(
            "pk", "bid__sequence", "bid_id", "receipt", named=True
        )
        for row in in_pages(rows, by="pk"):
            yield row.bid__sequence, row.bid_id, row.receipt


def keys_without(table: Iterable[int], gone: Collection[int]) -> list[int]:
    """Return the keys of bids that are not in `gone`, sorted."""
    return sorted(set(table) - set(gone))
