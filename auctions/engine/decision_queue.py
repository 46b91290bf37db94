"""The decision queue: one market's waiting bids, decided one at a time in the order of their sequence numbers.

Each decision is one transaction under the market's lock. So a bid is decided exactly once, even if a process dies,
other workers run, or a task is delivered several times. If a worker dies, its bid still waits, and the next worker or
`auctions.tasks.sweep` decides it. If the policy raises on a bid, the bid is quarantined in that same transaction, with
the error for operators, and the next bid is decided. An error of the database or the machine is passed on: nothing is
written, and the bid is decided again later.

`tests/auctions/test_decision_queue.py` shows that no bid is decided twice, and
`tests/faults/test_each_bid_is_decided_once_services.py` that this also holds if a worker is killed.
"""

from django.db import connection

from auctions.domain import transitions, waking
from auctions.domain.lock import MarketTime, locked_market, market_time, record, save_counters
from auctions.domain.policy_errors import PolicyFailed, policy_errors, store_error
from auctions.engine import planning
from auctions.engine.decide import Made, decide
from auctions.engine.slots import caught_up
from auctions.models import Bid, BidState, Commitment, DecisionRecord, EventKind, Market, Payment
from auctions.state import book as books
from auctions.state import queue_rows
from auctions.state.book import LiveBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision

LONGEST_TURN = 200
"""Largest number of bids that one task decides before it lets tasks of other markets run."""


def wake(market_id: int) -> None:
    """Once the open transaction is committed, notify a worker that the market has bids to decide."""
    waking.wake("auctions.tasks.decide_market", market_id)


def wake_all() -> None:
    """Notify a worker of every market that has bids to decide."""
    bids = Bid.objects.filter(state=BidState.SUBMITTED)
    for market_id in bids.order_by("market_id").values_list("market_id", flat=True).distinct():
        wake(market_id)
    connection.close()  # also called from threads of a server, for which nothing else closes the connection


def process_pending(market_id: int, *, at_most: int | None = None) -> int:
    """Decide or quarantine waiting bids in order, at most `at_most` of them; return how many were processed."""
    decided = 0
    while (at_most is None or decided < at_most) and decide_next(market_id):
        decided += 1
    return decided


def has_pending(market_id: int) -> bool:
    """Return whether the market has bids to decide."""
    return Bid.objects.filter(market_id=market_id, state=BidState.SUBMITTED).exists()


def decide_next(market_id: int) -> bool:
    """Decide or quarantine the first waiting bid of the market; return False if there is none."""
    if not has_pending(market_id):
        return False
    with locked_market(market_id) as market:
        bid = Bid.objects.filter(market=market, state=BidState.SUBMITTED).order_by("sequence").first()
        if bid is None:
            return False
        moment = market_time(market)
        book = caught_up(market, moment)
        try:
            with policy_errors():
                core = current_core(market, bid, book)
            made = decide(book, core, owner=bid.owner_id)
        except PolicyFailed as failed:
            _quarantine(market, bid, book, moment, failed)
            sound = False  # the book may be partly changed: the next one is rebuilt from rows
        else:
            _write(market, bid, book, moment, made)
            sound = True
        save_counters(market)
    if sound:
        books.store(market, book)
    return True


def current_core(market: Market, bid: Bid, book: LiveBook) -> CoreBid:
    """Return the bid in the positions of the inventory in force; rewrite its row if the inventory has changed since."""
    core = books.core_in_force(bid, market, book.snapshot)
    if bid.inventory_version != market.inventory_version:
        bid.core_bid, bid.inventory_version = core.to_json(), market.inventory_version
        bid.save(update_fields=["core_bid", "inventory_version"])
    return core


def _write(market: Market, bid: Bid, book: LiveBook, moment: MarketTime, made: Made) -> None:
    decision, against = made.decision, market.ledger_version
    _write_outcome(bid, decision, book, moment)
    kind = EventKind.ADMITTED if decision.admitted else EventKind.REJECTED
    payload = planning.to_payload(decision.moves)
    event = record(market, kind, moment, bid=bid, payload=payload)
    planning.write(book, decision.moves, moment, version=event.version)
    if decision.admitted and not book.policy.binding:
        planning.note([(bid, book.running.jobs[decision.bid_id])], moment, version=event.version)
    book.version = market.ledger_version
    DecisionRecord.objects.create(
        bid=bid,
        policy_id=book.policy_id,
        ledger_version=against,
        version=event.version,
        inventory_version=market.inventory_version,
        slot=moment.now,
        decided_at=moment.wall,
        decided_s=moment.seconds,
        latency_ms=made.latency_ms,
        standalone_value=decision.standalone_value,
        receipt=made.receipt,
        costs=list(decision.costs) if decision.costs else None,
    )


def _quarantine(market: Market, bid: Bid, book: LiveBook, moment: MarketTime, failed: PolicyFailed) -> None:
    """Quarantine a bid. Nothing else of the failed attempt was written."""
    transitions.quarantine(bid)
    event = record(market, EventKind.QUARANTINED, moment, bid=bid)
    store_error(failed, event, moment, policy_id=book.policy_id, bid=bid)


def _write_outcome(bid: Bid, decision: Decision, book: LiveBook, moment: MarketTime) -> None:
    if not decision.admitted:
        transitions.reject(bid)
        return
    schedule = decision.schedule
    window = (None, None) if schedule is None else (schedule.start, schedule.completion)
    transitions.admit(bid, value=decision.value, payment=decision.payment, window=window, slot=moment.slot)
    if schedule is not None:
        Commitment.objects.bulk_create(planning.commitments(bid, book.snapshot.holdings(schedule.placements)))
        if book.running.queues is not None:
            queue_rows.join(bid, schedule.chunks, book.running.queues, book.snapshot)
    Payment.objects.create(bid=bid, amount=decision.payment, created_at=moment.wall)
