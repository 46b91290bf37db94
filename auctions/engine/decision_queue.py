"""The decision queue: one market's waiting bids, decided one after another; owners take turns.

Whose bid is next is said by `auctions/domain/turns.py`. A batch has bids of one slot of arrival.

Bids that wait are decided in batches. Each batch is one transaction under the market's lock, in which every bid has its
own decision, event, version and receipt, as if it was alone. So a bid is decided exactly once, even if a process dies,
other workers run, or a task is delivered several times. If a worker dies, its bids still wait, and the next worker or
`auctions.tasks.sweep` decides them. If the policy raises on a bid, the batch ends before it. If it is the first of its
batch, nothing of that transaction is kept, the bid is quarantined in the next one, with the error for operators, and
the next bid is decided. An error of the database or the machine is passed on: nothing is written, and the bids are
decided again later.

`tests/auctions/test_decision_queue.py` shows that no bid is decided twice, and
`tests/faults/test_each_bid_is_decided_once_services.py` that this also holds if a worker is killed.
"""

import logging
from collections.abc import Sequence
from time import perf_counter, time_ns
from typing import Final

from django.db import connection, transaction

from auctions.domain import waking
from auctions.domain.lock import MarketTime, locked_market, market_time, save_counters
from auctions.domain.owners import owner_number
from auctions.domain.policy_errors import PolicyFailed, policy_errors
from auctions.engine import competitors, outcomes, standing, team_credits
from auctions.engine.decide import decide
from auctions.engine.slots import caught_up
from auctions.models import Bid, BidState, Market
from auctions.state import book as books
from auctions.state import owner_turns
from auctions.state.book import LiveBook
from cluster.database.prepared import Prepared
from scheduling.policies.standing import rule_for
from web import logs, tracing
from web.metrics import Laps

log = logging.getLogger(__name__)
TASK: Final = "auctions.tasks.decide_market"
LARGEST_BATCH: Final = 16
"""Largest number of bids of one transaction."""
LONGEST_BATCH_S: Final = 0.05
"""Time after which a batch ends with the bid under decision: submissions wait for the market's lock meanwhile."""


_WAITING = Bid.objects.filter(state=BidState.SUBMITTED).order_by("sequence")
_PENDING = Prepared(lambda market: _WAITING.filter(market=market).values_list("pk")[:1], int)


def wake(market_id: int) -> None:
    """Once the open transaction is committed, notify a worker that the market has bids to decide.

    Nobody is notified twice within a moment, since a worker stays with the market: see `auctions/runtime/stay.py`.
    """
    waking.wake_once(TASK, market_id)


def wake_all() -> None:
    """Notify a worker of every market that has bids to decide."""
    bids = Bid.objects.filter(state=BidState.SUBMITTED)
    for market_id in bids.order_by("market_id").values_list("market_id", flat=True).distinct():
        wake(market_id)
    connection.close()  # also called from threads of a server, for which nothing else closes the connection


def process_pending(market_id: int, *, at_most: int | None = None) -> int:
    """Decide or quarantine waiting bids in order, at most `at_most` of them; return how many were processed."""
    decided = 0
    while at_most is None or decided < at_most:
        batch = LARGEST_BATCH if at_most is None else min(LARGEST_BATCH, at_most - decided)
        processed = decide_batch(market_id, at_most=batch)
        if processed == 0:
            break
        decided += processed
    return decided


def has_pending(market_id: int) -> bool:
    """Return whether the market has bids to decide."""
    return bool(_PENDING(market_id))


def decide_batch(market_id: int, *, at_most: int = LARGEST_BATCH) -> int:
    """Decide the next waiting bids of the market in one transaction, or quarantine the first one.

    Return how many were processed. If the policy fails on a later bid, those before it are decided, and that bid is
    the first of the next batch.
    """
    if not has_pending(market_id):
        return 0
    laps = Laps("decide")
    with locked_market(market_id) as market:
        laps.lap("lock")
        queue = owner_turns.checkout(market)
        bids = queue.next_bids(market, at_most=at_most)
        if not bids:
            return 0
        version, moment = market.ledger_version, market_time(market, arrived=bids[0].arrival_slot)
        book = caught_up(market, moment, teams=[bid.team_id for bid in bids])
        laps.lap("book")
        priced: list[tuple[int, int]] = []
        versions, failed = _decide(market, bids, book, moment, laps, priced)
        decided = len(versions)
        if decided == 0:
            transaction.set_rollback(True)
        else:
            queue.take(market, list(zip(bids, versions, strict=False)))
            save_counters(market)
            laps.lap("write")
    laps.lap("commit")
    owner_turns.store(market, queue)
    laps.count(policy=book.policy.name)
    _trace(market, bids[:decided], laps, priced)
    if failed is None:
        books.store(market, book)
    elif decided == 0:
        _quarantine(bids[0], book, failed, version=version)
        decided = 1
    if log.isEnabledFor(logging.INFO):
        for bid in bids[:decided]:
            row = {"market": market.cluster.name, "bid": bid.sequence, "state": str(bid.state)}
            log.info("bid %s of %s: %s", bid.sequence, row["market"], row["state"], extra=row)
    return decided


def _decide(
    market: Market,
    bids: Sequence[Bid],
    book: LiveBook,
    moment: MarketTime,
    laps: Laps,
    priced: list[tuple[int, int]],
) -> tuple[list[int], PolicyFailed | None]:
    """Decide bids in order and write their outcomes; return the versions of their events.

    If the policy failed on the next bid, return its error, too.

    Begin and end of the policy's work on each bid, nanoseconds of the wall clock, are added to `priced`.
    After an error the book must not be used any more. No more bids are decided once this took `LONGEST_BATCH_S`.
    """
    credits = team_credits.locked([bid.team_id for bid in bids], moment)
    until, made = perf_counter() + LONGEST_BATCH_S, outcomes.Outcomes(market, book, moment, credits)
    versions, failed, rule = list[int](), None, rule_for(book.policy)
    compared = competitors.let_compete(market, book)
    for bid in bids:
        try:
            with logs.named(market=market.cluster.name, bid=bid.sequence):
                began = time_ns()
                with policy_errors():
                    core = outcomes.current_core(market, bid, book)
                left, wants_to_stand = credits.left(bid.team_id), bool(bid.resolved_request.get("standing"))
                owner = owner_number(user=bid.owner_id, team=bid.team_id)
                one = decide(book, core, owner=owner, left=left, wants_to_stand=wants_to_stand)
        except PolicyFailed as error:
            failed = error
            break
        priced.append((began, time_ns()))
        credits.take(bid.team_id, one.decision.payment)
        stands_until = standing.last_slot(bid.resolved_request, core, book, one.decision, rule, one.left)
        if stands_until is None:
            made.add(bid, one)
        else:
            made.add_standing(bid, one, until=stands_until, rule=rule.to_json())
            if compared is not None:
                compared.join(core, owner)
        versions.append(market.version)
        if perf_counter() > until:
            break
    laps.lap("policy")
    book.competitors = ()
    made.write()
    return versions, failed


def _trace(market: Market, bids: Sequence[Bid], laps: Laps, priced: Sequence[tuple[int, int]]) -> None:
    """Add each decision, which is committed, to the trace of its bid; all but the price is of the whole batch."""
    if not any(bid.trace_context for bid in bids):
        return
    times = laps.times()
    for bid, price in zip(bids, priced, strict=True):
        spans = {"claim": times["lock"], "book": times["book"], "price": price}
        spans |= {step: times[step] for step in ("write", "commit")}
        steps = [tracing.Step(name, *span) for name, span in spans.items()]
        tracing.decided(bid.trace_context, steps, market=market.cluster.name, bid=bid.sequence, state=str(bid.state))


def _quarantine(bid: Bid, book: LiveBook, failed: PolicyFailed, *, version: int) -> None:
    """Quarantine a bid in a transaction of its own: what was written before its policy failed belongs to no event.

    Nothing happens if the bid was withdrawn since, if another one is next, or if the market has changed: then it is
    decided again.
    """
    with locked_market(bid.market_id) as market:
        queue = owner_turns.checkout(market)
        for first in queue.next_bids(market, at_most=1):
            if first.pk == bid.pk and market.ledger_version == version:
                moment = market_time(market, arrived=first.arrival_slot)
                outcomes.quarantine(market, first, book, moment, failed)
                queue.take(market, [(first, market.version)])
                save_counters(market)
    owner_turns.store(market, queue)
