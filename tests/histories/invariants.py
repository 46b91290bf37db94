"""What must hold at the end of a history, counted here again from rows; `audit` is asked besides."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from auctions.history.audit import audit_market
from auctions.models import (
    ADMITTED,
    Bid,
    BidState,
    Commitment,
    DecisionRecord,
    Event,
    EventKind,
    Market,
    Outage,
    Payment,
)
from auctions.state import book
from cluster.models import Capacity, Demand
from scheduling.model.decision import parse
from tests.histories.history import History

DECIDED = (EventKind.ADMITTED, EventKind.REJECTED)


def broken(history: History) -> list[str]:
    """Return what is wrong; empty if everything holds."""
    market = Market.objects.get(pk=history.market.pk)
    checks = (unexpected, lost_or_doubled, undecided, answers_kept, memories)
    found = [f"{check.__name__}: {problem}" for check in checks for problem in check(history, market)]
    return found + broken_rows(market)


def broken_rows(market: Market) -> list[str]:
    """Return what is wrong with a market's rows, whatever wrote them; nothing may write to them meanwhile."""
    found = [f"{check.__name__}: {problem}" for check in (over_capacity, money) for problem in check(market)]
    return found + [
        f"audit, {one.check}: {row}" for one in audit_market(market) if not one.passed for row in one.rows[:3]
    ]


def unexpected(history: History, market: Market) -> list[str]:
    """Return the errors that no fault explains."""
    return history.simulation.unexpected


def lost_or_doubled(history: History, market: Market) -> Iterator[str]:
    """Every bid that was answered is stored once, as it was sent; nothing else is stored."""
    stored = defaultdict(list)
    for bid in Bid.objects.filter(market=market).order_by("sequence"):
        stored[str(bid.idempotency_key).partition(" ")[0]].append(bid)
    for key in stored.keys() - history.sent.keys():
        yield f"nobody sent {key}"
    for key, sent in history.sent.items():
        numbers = [bid.sequence for bid in stored[key]]
        if sent.sequences is None and not sent.refused:
            yield f"{key} was never answered"
        if numbers != (sent.sequences or []):
            yield f"{key} was answered {sent.sequences} {sent.refused}, and {numbers} are stored"
        if numbers and [bid.body for bid in stored[key]] != sent.bodies:
            yield f"{key} is stored with other bodies"
        if {bid.owner_id for bid in stored[key]} - {history.people[sent.owner].pk}:
            yield f"{key} belongs to another user"


def undecided(history: History, market: Market) -> Iterator[str]:
    """Every bid is decided once, unless it was withdrawn before or the policy fails on it."""
    events = Counter(Event.objects.filter(market=market, kind__in=DECIDED).values_list("bid__sequence", flat=True))
    ended = Counter[int]()
    for payload in Event.objects.filter(market=market, kind=EventKind.SLOT).values_list("payload", flat=True):
        ended.update(payload.get("standing", {}).get("ended", ()))
    receipts = Counter(DecisionRecord.objects.filter(bid__market=market).values_list("bid__sequence", flat=True))
    for bid in Bid.objects.filter(market=market):
        number, counted = bid.sequence, (events[bid.sequence] + ended[bid.sequence], receipts[bid.sequence])
        expected = (0, 0) if bid.state in (BidState.WITHDRAWN, BidState.QUARANTINED) else (1, 1)
        if bid.state in (BidState.SUBMITTED, BidState.STANDING, BidState.PLANNED, BidState.RUNNING):
            yield f"bid {number} is still {bid.state}"
        elif counted != expected:
            yield f"bid {number} ({bid.state}) has {counted[0]} decisions and {counted[1]} receipts"


def answers_kept(history: History, market: Market) -> Iterator[str]:
    """A bid that was withdrawn, cancelled, failed or completed by an answer to a user stays so."""
    states = dict(Bid.objects.filter(market=market).values_list("sequence", "state"))
    for number, state in history.ended.items():
        if states.get(number) != state:
            yield f"bid {number} was {state}, and is {states.get(number)}"


def over_capacity(market: Market) -> Iterator[str]:
    """No server holds more units in a slot than it has, or any once it is out of service."""
    rows = list(Commitment.objects.filter(bid__market=market, end__gt=0).order_by("pk"))
    amounts = {(one.server_id, one.resource_id): one.amount for one in Capacity.objects.all()}
    demands = defaultdict(list)
    for demand in Demand.objects.all():
        demands[demand.machine_type_id].append(demand)
    held: Counter[tuple[int, int, int]] = Counter()
    for row in rows:
        for slot in range(row.start, row.end):
            for demand in demands[row.machine_type_id]:
                held[slot, row.server_id, demand.resource_id] += row.count * demand.amount
    for (slot, server, resource), units in held.items():
        if units > amounts[server, resource]:
            yield f"server {server} holds {units} of {amounts[server, resource]} units in slot {slot}"
    outages = Outage.objects.values_list("server", "out_slot", "ended_slot")
    for out, first, last in outages:
        for slot, server, _ in held:
            if server == out and first is not None and first <= slot and (last is None or slot < last):
                yield f"server {server} holds units in slot {slot}, from {first} on it was out of service"


def money(market: Market) -> Iterator[str]:
    """Each admitted bid is charged once, what its receipt says, and refunds are parts of charges of failed jobs.

    The receipts of archived bids are in archives.
    """
    receipts = dict(DecisionRecord.objects.filter(bid__market=market).values_list("bid__sequence", "receipt"))
    charges = defaultdict(list)
    for number, amount in Payment.objects.filter(bid__market=market).values_list("bid__sequence", "amount"):
        charges[number].append(amount)
    for bid in Bid.objects.filter(market=market, seal=None):
        due = [parse(receipts[bid.sequence])["payment"]] if bid.state in ADMITTED else []
        if charges[bid.sequence] not in (due, [one for one in due if one]):
            yield f"bid {bid.sequence} ({bid.state}) is charged {charges[bid.sequence]}, its receipt says {due}"
        if bid.refund and (bid.state != BidState.FAILED or not 0 < bid.refund <= sum(due)):
            yield f"bid {bid.sequence} ({bid.state}) is paid back {bid.refund} of {due}"


def memories(history: History, market: Market) -> Iterator[str]:
    """The book in the memory of each process at the market's version is the one that the rows give."""
    for node in (*history.simulation.web, *history.simulation.workers):
        kept = node.books.get(market.token)
        if kept is None or kept.version != market.ledger_version:
            continue
        rebuilt = book.rebuild(market, now=kept.ledger.start)
        if not np.array_equal(kept.ledger.used, rebuilt.ledger.used):
            yield f"{node.name} remembers another ledger"
        if kept.running.jobs != rebuilt.running.jobs or kept.running.decided != rebuilt.running.decided:
            yield f"{node.name} remembers other jobs"
        if list(kept.running.history) != list(rebuilt.running.history):
            yield f"{node.name} remembers other prices"
