"""What an owner or an operator does to a bid after it was submitted."""

from django.db.models import F

from auctions import book as books
from auctions import plans, queue_rows, transitions
from auctions.book import LiveBook
from auctions.lock import Happening, Moment, locked_market, moment_of, record, save_counters
from auctions.models import Bid, Commitment, EventKind, Market
from auctions.slots import caught_up
from scheduling.policy import Cause


def withdraw_bid(bid: Bid) -> Bid:
    """Take back a bid that waits; raises WrongState if it has been decided."""
    with locked_market(bid.market_id) as market:
        moment = moment_of(market)
        transitions.withdraw(bid)
        record(market, Happening(EventKind.WITHDRAWN, at=moment.wall, slot=moment.now, bid=bid))
        save_counters(market)
    return bid


def cancel_job(bid: Bid) -> Bid:
    """End a planned or running job and free its slots from now on; what it paid stays paid."""
    with locked_market(bid.market_id) as market:
        moment = moment_of(market)
        book = caught_up(market, moment)  # a job whose last slot has passed is completed, not cancelled
        transitions.cancel(bid, slot=moment.now)
        _end(market, bid, book, moment, kind=EventKind.CANCELLED)
    books.keep(market, book)
    return bid


def fail_job(bid: Bid, why: str) -> Bid:
    """For operators: a planned or running job cannot go on; its slots from now on are free again."""
    with locked_market(bid.market_id) as market:
        moment = moment_of(market)
        book = caught_up(market, moment)
        transitions.fail(bid, slot=moment.now)
        _end(market, bid, book, moment, kind=EventKind.FAILED, why=why)
    books.keep(market, book)
    return bid


def _end(market: Market, bid: Bid, book: LiveBook, moment: Moment, *, kind: EventKind, why: str = "") -> None:
    held = Commitment.objects.filter(bid=bid, end__gt=moment.now)
    held.filter(start__gte=moment.now).update(end=F("start"))
    held.filter(start__lt=moment.now).update(end=moment.now)
    queue_rows.take_out([bid], now=moment.now)
    book.end(str(bid.sequence))
    moves = plans.plan(book, Cause.ENDED)
    payload = ({"why": why} if why else {}) | plans.to_payload(moves)
    event = record(market, Happening(kind, at=moment.wall, slot=moment.now, bid=bid, payload=payload))
    plans.write(book, moves, moment, version=event.version)
    book.version = market.ledger_version
    save_counters(market)
