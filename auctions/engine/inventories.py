"""Give a market another inventory: servers are added, removed, lost or returned, and jobs move or fail as a result."""

from typing import Final

from auctions.domain import transitions
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.lock import MarketTime, record
from auctions.domain.refunds import Refund, refund_of
from auctions.engine import planning, team_credits
from auctions.models import Bid, Certificate, Event, EventKind, Market, SlotPrice
from auctions.state import queue_rows
from auctions.state.book import LiveBook
from scheduling.model.types import Json

NO_SERVER: Final = "Its machines are out of service"


def change_inventory(
    market: Market,
    book: LiveBook,
    moment: MarketTime,
    snapshot: InventorySnapshot,
    *,
    service: Json | None = None,
    reason: str = "",
) -> LiveBook:
    """Record another inventory under the market's lock, move or fail jobs, and return the book under it.

    `service` is the operator's statement about a server. `why` is the reason given to jobs that fail because of it.
    """
    # At the very beginning of a slot, the slot is processed but can still be traded: the prices kept for it are stale.
    SlotPrice.objects.filter(market=market, slot__gte=moment.now).delete()
    # If the clock was set back, that slot may already be in the certificate's sums: the certificate is computed again.
    Certificate.objects.filter(market=market, settled_through__gt=moment.now).delete()
    rebased = planning.rebased(book, snapshot, planning.offers_of(book))
    new = rebased.book
    if new.running.queues is not None:
        queue_rows.lose(new.running.queues, snapshot, market.pk, now=moment.now)
    said: Json = {} if service is None else {"service": service}
    failed: Json = {"failed": [int(name) for name in rebased.failed]} if rebased.failed else {}
    unkept: Json = {"unkept": [int(name) for name in rebased.unkept]} if rebased.unkept else {}
    more = {**said, **failed, **unkept}
    event = record_inventory(market, moment, snapshot, kind=EventKind.INVENTORY, planned=rebased.planned, more=more)
    planning.write(new, rebased.moves, moment, version=event.version)
    planning.note_failure(market, new, rebased.planned, event, moment, others=rebased.unkept.values())
    bids = {bid.sequence: bid for bid in Bid.objects.filter(market=market, sequence__in=failed.get("failed", []))}
    for sequence in failed.get("failed", []):
        _fail(market, bids[sequence], moment, reason=reason or f"{NO_SERVER}.", by=event.version)
    new.version = market.ledger_version
    return new


def record_inventory(
    market: Market,
    moment: MarketTime,
    snapshot: InventorySnapshot,
    *,
    kind: EventKind,
    planned: planning.Planned = planning.NOTHING,
    more: Json | None = None,
) -> Event:
    """Write the event of an inventory and put the inventory in force."""
    payload = snapshot.to_json() | planned.payload() | (more or {})
    event = record(market, kind, moment, payload=payload)
    market.inventory_version = event.version
    return event


def _fail(market: Market, bid: Bid, moment: MarketTime, *, reason: str, by: int) -> None:
    """Write that the inventory of version `by` broke a promise; the job has left the book already."""
    refund = refund_of(bid, Refund.UNDELIVERED, now=moment.now)
    transitions.fail(bid, slot=moment.now, reason=reason, refund=refund)
    team_credits.end(bid, moment)
    planning.cut(bid, now=moment.now)
    payload = {"reason": reason, "refund": refund, "how": Refund.UNDELIVERED.value, "by": by}
    record(market, EventKind.FAILED, moment, bid=bid, payload=payload)
