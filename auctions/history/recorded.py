"""Events and receipts of a market as they are recorded, read page by page: memory does not grow with the market."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from django.db.models import QuerySet

from auctions.history.steps import Replayed
from auctions.models import Bid, DecisionRecord, Event, FirstDecision, Market
from cluster.database.paging import in_pages, pages


def pages_of_events(market: Market) -> Iterator[list[Event]]:
    """Yield all events in order; the bid of each has been read with its receipts and their policies."""
    for page in pages(Event.objects.filter(market=market), by="version"):
        bids = bids_with_receipts({event.bid_id for event in page if event.bid_id is not None})
        for event in page:
            if event.bid_id is not None:
                event.bid = bids[event.bid_id]
        yield page


def bids_with_receipts(keys: Collection[int]) -> dict[int, Bid]:
    """Return the bids of these keys, at most a page of them, with their receipts and the policies of these."""
    return Bid.objects.select_related("decision__policy", "first_decision").in_bulk(list(keys))


class RecordedReceipts:
    """The receipts of a market, each of which a replay should give once."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._taken: dict[bool, set[int]] = {False: set(), True: set()}
        """Keys of the bids whose last and first receipts were compared."""

    def compared(self, steps: Sequence[Replayed], bid: Bid | None) -> Iterator[tuple[Replayed, str]]:
        """Yield the replayed decisions of one event, each with the recorded receipt; "" if there is none.

        `bid` is the event's bid as `pages_of_events` reads it. Others are those whose turn came in a slot.
        """
        others = {step.bid_id for step in steps if bid is None or step.bid_id != bid.pk}
        rows = bids_with_receipts(others) if others else {}
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
        rows = records.filter(bid__market=self._market).values_list(
            "pk", "bid__sequence", "bid_id", "receipt", named=True
        )
        for row in in_pages(rows, by="pk"):
            yield row.bid__sequence, row.bid_id, row.receipt
