"""Process slots that have begun: jobs start and complete, prices of each slot are stored, and the horizon advances.
Plans are made again, standing bids have their turn, outages take effect, and sums are published.

`auctions.tasks.sweep` calls `pass_slots` every two seconds, as does a worker that stays with markets
(`auctions/runtime/stay.py`). Every decision, and every change of an admitted job, a server or the policy, calls
`caught_up` first, so no slot that has begun is still sold.
"""

from collections.abc import Iterable

from auctions.domain import transitions
from auctions.domain.lock import ENDS, MarketTime, locked_market, market_time, record, save_counters
from auctions.domain.policy_errors import PolicyFailed, policy_errors
from auctions.engine import outages, planning, standing, team_credits
from auctions.kernels import warming
from auctions.models import Bid, BidState, Event, EventKind, Market, SlotPrice
from auctions.readings import publications
from auctions.state import book as books
from auctions.state import queue_rows
from auctions.state.book import LiveBook
from cluster.database.prepared import Prepared
from scheduling.book.state import Cause
from scheduling.model.decision import canonical

_MARKET = Prepared(lambda market: Market.objects.select_related("cluster").filter(pk=market), int)
_LAST_SLOT = Prepared(
    lambda market: Event.objects.filter(market=market, kind__in=(EventKind.OPENED, EventKind.SLOT)).order_by(
        "-version"
    )[:1],
    int,
)
_ENDING = Prepared(
    lambda market, since, now: (
        Bid.objects.filter(
            market=market,
            completion_slot__gt=since,
            completion_slot__lte=now,
            state__in=(BidState.PLANNED, BidState.RUNNING),
        )
        .order_by()
        .values_list("pk")[:1]
    ),
    int,
    int,
    int,
)
_ENDED = Prepared(
    lambda market, version: (
        Event.objects.filter(market=market, version__gt=version, kind__in=sorted(ENDS)).order_by().values_list("pk")[:1]
    ),
    int,
    int,
)


def pass_slots(market_id: int) -> bool:
    """Process the slots that began since the last call; return True if there were any."""
    found = _MARKET.first(market_id)
    if found is None:
        raise Market.DoesNotExist(f"There is no market {market_id}.")
    if market_time(found).slot <= found.slot:
        return False
    with locked_market(market_id) as market:
        moment = market_time(market)
        if moment.slot <= market.slot:
            return False
        book = caught_up(market, moment)
        save_counters(market)
    books.store(market, book)
    return True


def caught_up(market: Market, moment: MarketTime, *, teams: Iterable[int | None] = ()) -> LiveBook:
    """Return the book at this moment, for the holder of the lock; slots that began since are processed first.

    The caller saves the market's counters. Once the transaction is committed and every change is in the book, the
    caller gives the book to `book.store`. `teams` are those whose budgets the caller locks afterwards.

    Raises
    ------
    NotReady
        While the kernels of the market's policy are being compiled.
    """
    warming.check_market(market.pk)  # a transaction must not wait for a compiler
    late, before = moment.slot > market.slot, market.now
    book = books.checkout(market, now=market.slot + 1 if late else moment.now)
    if late:
        first = market.slot + 1
        cause = _cause(market, moment)
        unpriced = _keep_prices(market, book, last=moment.slot)
        begun = transitions.begin(market, moment.slot)
        team_credits.complete(market, begun.completed, moment)
        market.slot = moment.slot
        if book.advance(moment.now):
            cause = Cause.ENDED
    queue_rows.store(book.running, book.snapshot, market.pk)
    if late:
        planned = planning.plan(book, cause)
        payload = {"from": first, "to": moment.slot, "now": moment.now, "cause": cause}
        payload |= {"running": begun.running, "completed": begun.completed, **planned.payload()}
        if unpriced is not None:
            payload["unpriced"] = True
        withdrawn = transitions.recorded_withdrawals(market)
        if withdrawn:
            payload["withdrawn"] = withdrawn
        freed = book.policy.competes and cause is not Cause.ENDED and _freed(market)
        if freed:
            payload["freed"] = True
        ended = freed or cause is Cause.ENDED
        taken = standing.take_turn(market, book, moment, before=before, ended=ended, teams=teams)
        payload |= taken.turn.payload()
        if "standing" in payload:
            market.standing_rule = taken.turn.rule.to_json()
        event = record(market, EventKind.SLOT, moment, payload=payload)
        planning.write(book, planned.moves, moment, version=event.version)
        planning.note_failure(market, book, planned, event, moment, others=[unpriced])
        market.now = max(market.now, moment.now)  # never falls: these slots have been planned
        standing.write(market, taken, book, moment, event=event)
        book.version = market.ledger_version
        book = outages.take_effect(market, book, moment)
        publications.publish(market)
    return book


def _cause(market: Market, moment: MarketTime) -> Cause:
    """Return `Cause.ENDED` if a job ended since slots last passed, because its machines are free from `now` on.

    Also if planning failed the last time, because free machines were then not given to other jobs, and if slots were
    skipped, since in these no job was started whose upload ended. Otherwise return `Cause.SLOT`.
    """
    if market.planning_failed:
        return Cause.ENDED
    last = _last_slot(market)
    since = last.slot if last.kind == EventKind.OPENED else last.payload.get("now", last.slot + 1)
    if moment.now > since + 1:
        return Cause.ENDED
    return Cause.ENDED if _ENDING(market.pk, since, moment.now) else Cause.SLOT


def _last_slot(market: Market) -> Event:
    """Return the event with which slots last passed; the opening of the market if none has passed."""
    return _LAST_SLOT(market.pk)[0]


def _freed(market: Market) -> bool:
    """Return whether a job was cancelled, failed, or was complete early since slots last passed."""
    return bool(_ENDED(market.pk, _last_slot(market).version))


def _keep_prices(market: Market, book: LiveBook, *, last: int) -> PolicyFailed | None:
    """Store prices and use of the slots that began. If the policy fails, store nothing and return the error."""
    rows = book.slots_to_keep(last=last)
    if not rows:
        return None
    start = book.ledger.start
    try:
        with policy_errors():
            posted = book.prices()
            prices = {slot: posted[slot - start].tolist() for slot in rows}
            canonical(list(prices.values()))
    except PolicyFailed as failed:
        return failed
    used = book.used()
    SlotPrice.objects.bulk_create(
        SlotPrice(
            market=market,
            slot=slot,
            inventory_version=market.inventory_version,
            prices=prices[slot],
            used=used[slot - start].tolist(),
        )
        for slot in rows
    )
    return None
