"""Operations of an owner or an operator on a submitted bid: withdraw, retry, cancel, fail and complete early."""

from auctions.domain import transitions
from auctions.domain.lock import MarketTime, locked_market, market_time, record, save_counters
from auctions.domain.refunds import Refund, refund_of
from auctions.engine import decision_queue, planning, team_credits
from auctions.engine.slots import caught_up
from auctions.models import Bid, EventKind, Market
from auctions.state import book as books
from auctions.state.book import LiveBook
from scheduling.book.state import Cause
from scheduling.model.types import Json


def withdraw_bid(bid: Bid) -> Bid:
    """Withdraw a waiting, standing or quarantined bid; raises WrongState if it is in another state.

    The withdrawal of a standing bid is named in the event of the next slot. An event of its own would raise the
    market's version when nothing else happens, and others would see that a bid stood.
    """
    with locked_market(bid.market_id) as market:
        moment = market_time(market)
        if not transitions.withdraw(bid):
            record(market, EventKind.WITHDRAWN, moment, bid=bid)
            save_counters(market)
    return bid


def retry_bid(bid: Bid) -> Bid:
    """Put a quarantined bid back in the queue, for operators; raises WrongState if it is in another state.

    It keeps its sequence number, so it is decided before waiting bids that were submitted after it. A bid that stood
    stands again.
    """
    with locked_market(bid.market_id) as market:
        moment = market_time(market)
        bid.refresh_from_db()
        transitions.retry(bid)
        record(market, EventKind.RETRIED, moment, bid=bid)
        save_counters(market)
        decision_queue.wake(market.pk)
    return bid


def cancel_job(bid: Bid) -> Bid:
    """Cancel a planned or running job and free its slots from now on; its payment is not refunded.

    Raises
    ------
    WrongState
        If the job is neither planned nor running; it may have been completed meanwhile.
    NotReady
        While the kernels of the market's policy are being compiled.
    """
    with locked_market(bid.market_id) as market:
        moment = market_time(market)
        book = caught_up(market, moment)  # a job whose last slot has passed is completed, not cancelled
        transitions.cancel(bid, slot=moment.now)
        _end(market, bid, book, moment, kind=EventKind.CANCELLED)
    books.store(market, book)
    return bid


def fail_job(bid: Bid, reason: str, *, refund: Refund = Refund.UNDELIVERED) -> Bid:
    """Fail a planned or running job that cannot continue, for operators, and free its remaining slots.

    Raises
    ------
    WrongState
        If the job is neither planned nor running.
    NotReady
        While the kernels of the market's policy are being compiled.
    """
    with locked_market(bid.market_id) as market:
        moment = market_time(market)
        book = caught_up(market, moment)
        bid.refresh_from_db()
        transitions.check_can_fail(bid)  # before its receipt is read: an archived bid has none
        amount = refund_of(bid, refund, now=moment.now)
        transitions.fail(bid, slot=moment.now, reason=reason, refund=amount)
        said = {"reason": reason, "refund": amount, "how": refund.value}
        _end(market, bid, book, moment, kind=EventKind.FAILED, said=said)
    books.store(market, book)
    return bid


def complete_job(bid: Bid) -> Bid:
    """Complete a running job whose training ended before its last slot, and free its slots from now on.

    Its payment, its value and its planned completion stay as they were decided: they belong to the promise. The slot in
    which it really ended is `ended_slot`.

    Raises
    ------
    WrongState
        If the job is not running; so a second call changes nothing.
    NotReady
        While the kernels of the market's policy are being compiled.
    """
    with locked_market(bid.market_id) as market:
        moment = market_time(market)
        book = caught_up(market, moment)
        bid.refresh_from_db()
        transitions.complete(bid, slot=moment.now)
        _end(market, bid, book, moment, kind=EventKind.COMPLETED, said={"begun": market.slot})
    books.store(market, book)
    return bid


def _end(
    market: Market, bid: Bid, book: LiveBook, moment: MarketTime, *, kind: EventKind, said: Json | None = None
) -> None:
    team_credits.end(bid, moment)
    planning.cut(bid, now=moment.now)
    book.end(str(bid.sequence))
    planned = planning.plan(book, Cause.ENDED)
    payload = (said or {}) | planned.payload()
    event = record(market, kind, moment, bid=bid, payload=payload)
    planning.write(book, planned.moves, moment, version=event.version)
    planning.note_failure(market, book, planned, event, moment)
    book.version = market.ledger_version
    save_counters(market)
