"""Write what a decision brings: the bid's state, what it holds and pays, its receipt, and the event."""

from auctions.domain import transitions
from auctions.domain.lock import MarketTime, record
from auctions.domain.policy_errors import PolicyFailed, store_error
from auctions.engine import planning
from auctions.engine.decide import Made
from auctions.models import Bid, Commitment, DecisionRecord, Event, EventKind, Market, Payment
from auctions.state import book as books
from auctions.state import queue_rows
from auctions.state.book import LiveBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision
from scheduling.model.types import Json


def current_core(market: Market, bid: Bid, book: LiveBook) -> CoreBid:
    """Return the bid in the positions of the inventory in force; rewrite its row if the inventory has changed since."""
    core = books.core_in_force(bid, market, book.snapshot)
    if bid.inventory_version != market.inventory_version:
        bid.core_bid, bid.inventory_version = core.to_json(), market.inventory_version
        bid.save(update_fields=["core_bid", "inventory_version"])
    return core


def write(
    market: Market, bid: Bid, book: LiveBook, moment: MarketTime, made: Made, *, stood_from: int | None = None
) -> None:
    """Write an admission or a final rejection that is in the book already, under the market's lock.

    `stood_from` is the slot of the bid's first decision if it stood since then.
    """
    decision, against = made.decision, market.ledger_version
    _write_outcome(bid, decision, book, moment)
    kind = EventKind.ADMITTED if decision.admitted else EventKind.REJECTED
    payload = planning.to_payload(decision.moves)
    event = record(market, kind, moment, bid=bid, payload=payload)
    planning.write(book, decision.moves, moment, version=event.version)
    if decision.admitted and not book.policy.binding:
        planning.note([(bid, _window(decision))], moment, version=event.version)
    book.version = market.ledger_version
    DecisionRecord.objects.create(
        bid=bid,
        costs=list(decision.costs) if decision.costs else None,
        stood_from=stood_from,
        **receipt_fields(market, book, moment, made, event=event, against=against),
    )


def receipt_fields(
    market: Market, book: LiveBook, moment: MarketTime, made: Made, *, event: Event, against: int
) -> Json:
    """Return the columns that every receipt has; `against` is the ledger version at which it was decided."""
    return {
        "policy_id": book.policy_id,
        "ledger_version": against,
        "version": event.version,
        "inventory_version": market.inventory_version,
        "slot": moment.now,
        "decided_at": moment.wall,
        "decided_s": moment.seconds,
        "latency_ms": made.latency_ms,
        "standalone_value": made.decision.standalone_value,
        "receipt": made.receipt,
    }


def quarantine(market: Market, bid: Bid, book: LiveBook, moment: MarketTime, failed: PolicyFailed) -> None:
    """Quarantine a bid. Nothing else of the failed attempt was written."""
    transitions.quarantine(bid)
    event = record(market, EventKind.QUARANTINED, moment, bid=bid)
    store_error(failed, event, moment, policy_id=book.policy_id, bid=bid)


def _write_outcome(bid: Bid, decision: Decision, book: LiveBook, moment: MarketTime) -> None:
    if not decision.admitted:
        transitions.reject(bid)
        return
    schedule = decision.schedule
    transitions.admit(bid, value=decision.value, payment=decision.payment, window=_window(decision), slot=moment.slot)
    if schedule is not None:
        Commitment.objects.bulk_create(planning.commitments(bid, book.snapshot.holdings(schedule.placements)))
        if book.running.queues is not None:
            queue_rows.join(bid, schedule.chunks, book.running.queues, book.snapshot)
    Payment.objects.create(bid=bid, amount=decision.payment, created_at=moment.wall)


def _window(decision: Decision) -> transitions.Window:
    return (None, None) if decision.schedule is None else (decision.schedule.start, decision.schedule.completion)
