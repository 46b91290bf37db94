"""The decision queue: one market's waiting bids, decided one at a time in the order of their sequence numbers.

Each decision is one transaction under the market's lock. So a bid is decided exactly once, even if a process dies,
other workers run, or a task is delivered several times. If a worker dies, its bid still waits, and the next worker or
`auctions.tasks.sweep` decides it. If the policy raises on a bid, nothing of that transaction is kept, the bid is
quarantined in the next one, with the error for operators, and the next bid is decided. An error of the database or the
machine is passed on: nothing is written, and the bid is decided again later.

`tests/auctions/test_decision_queue.py` shows that no bid is decided twice, and
`tests/faults/test_each_bid_is_decided_once_services.py` that this also holds if a worker is killed.
"""

from django.db import connection, transaction

from auctions.domain import waking
from auctions.domain.lock import locked_market, market_time, save_counters
from auctions.domain.policy_errors import PolicyFailed, policy_errors
from auctions.engine import outcomes, standing
from auctions.engine.decide import decide
from auctions.engine.slots import caught_up
from auctions.models import Bid, BidState
from auctions.state import book as books
from auctions.state.book import LiveBook
from cluster.database.prepared import Prepared

LONGEST_TURN = 200
"""Largest number of bids that one task decides before it lets tasks of other markets run."""


_WAITING = Bid.objects.filter(state=BidState.SUBMITTED).order_by("sequence")
_PENDING = Prepared(lambda market: _WAITING.filter(market=market).values_list("pk")[:1], int)
_FIRST = Prepared(lambda market: _WAITING.filter(market=market)[:1], int)


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
    return bool(_PENDING(market_id))


def decide_next(market_id: int) -> bool:
    """Decide or quarantine the first waiting bid of the market; return False if there is none."""
    if not has_pending(market_id):
        return False
    with locked_market(market_id) as market:
        bid = _FIRST.first(market_id)
        if bid is None:
            return False
        version, moment, failed = market.ledger_version, market_time(market), None
        book = caught_up(market, moment)
        try:
            with policy_errors():
                core = outcomes.current_core(market, bid, book)
            made = decide(book, core, owner=bid.owner_id)
        except PolicyFailed as error:
            failed = error
            transaction.set_rollback(True)
        else:
            until = standing.last_slot(bid.resolved_request, core, book, made.decision, standing.RULE)
            if until is None:
                outcomes.write(market, bid, book, moment, made)
            else:
                standing.begin(market, bid, book, moment, made, until=until)
            save_counters(market)
    if failed is None:
        books.store(market, book)
    else:
        _quarantine(bid, book, failed, version=version)
    return True


def _quarantine(bid: Bid, book: LiveBook, failed: PolicyFailed, *, version: int) -> None:
    """Quarantine a bid in a transaction of its own: what was written before its policy failed belongs to no event.

    Nothing happens if the bid was withdrawn since, or if the market has changed: then it is decided again.
    """
    with locked_market(bid.market_id) as market:
        first = _FIRST.first(market.pk)
        if first is not None and first.pk == bid.pk and market.ledger_version == version:
            outcomes.quarantine(market, first, book, market_time(market), failed)
            save_counters(market)
