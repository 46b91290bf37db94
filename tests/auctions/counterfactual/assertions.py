"""Assertions that hold for the replay of any market's record."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
from django.db.models import Max

from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.counterfactual.replayed import ReplayedMarket
from auctions.models import ADMITTED, Bid, BidState, DecisionRecord, Event, EventKind, Market, PolicyVersion
from scheduling.model.errors import InvalidField
from scheduling.registry import make_policy


def assert_replayed_as_recorded(market: Market) -> None:
    """A factual replay ends with every bid in the state of its row.

    Standing bids that were withdrawn since slots last began stand: their withdrawals are recorded when slots begin.
    """
    record = Record.of(market)
    replayed = record.before(0)
    for event in record.events():
        replayed.apply(event)
    slot = record.slot if replayed.slot is None else replayed.slot
    assert slot == record.slot
    for bid in Bid.objects.filter(market=market):
        outcome = replayed.outcomes[str(bid.sequence)]
        assert outcome.state(slot) == (BidState.STANDING if bid.unrecorded_withdrawal else bid.state), bid
        assert (outcome.start, outcome.completion) == (bid.start_slot, bid.completion_slot), bid
        if bid.state in ADMITTED:
            assert (outcome.receipt_value, outcome.payment) == (bid.value, bid.payment)


def assert_stands_on_rows_as_on_events(market: Market, *, looks: int = 6) -> None:
    """Before several decisions, the state read from rows equals the state after a replay of every event."""
    record = Record.of(market)
    versions = list(
        DecisionRecord.objects.filter(bid__market=market).order_by("version").values_list("version", flat=True)
    )
    looked_at = set(versions[:: max(1, len(versions) // looks)])
    replayed = record.before(0)
    for event in record.events():
        if event.version in looked_at:
            _assert_stands_as(record, event, replayed)
        replayed.apply(event)


def _assert_stands_as(record: Record, event: Event, replayed: ReplayedMarket) -> None:
    """Before this event; the replay of all events up to there goes on, so that only forks of it are looked at."""
    slow = replayed.fork()
    _assert_same_book(record.book_before(event.version), slow.fork(), now=event.slot)
    if all(job.bound for job in slow.book.running.jobs.values()):
        _assert_same_book(record.before(event.version), slow, now=event.slot)


def _assert_same_book(quick: ReplayedMarket, slow: ReplayedMarket, *, now: int) -> None:
    a, b = quick.at(now), slow.at(now)
    assert np.array_equal(a.ledger.used, b.ledger.used)
    assert list(a.running.jobs) == list(b.running.jobs)
    assert a.running.jobs == b.running.jobs
    assert list(a.running.history) == list(b.running.history)
    assert list(a.running.offers) == list(b.running.offers)
    assert (a.running.decided, a.policy, a.running.now) == (b.running.decided, b.policy, b.running.now)
    assert (quick.slot, quick._since) == (slow.slot, slow._since)


def assert_the_same_policy_changes_nothing(market: Market) -> None:
    """Since it was chosen, the policy in force would have decided and planned what it did, and all is accounted for."""
    chosen = PolicyVersion.objects.filter(market=market).latest("number")
    event = Event.objects.filter(market=market, kind=EventKind.POLICY).latest("version")
    record = Record.of(market)
    # A standing bid of before may have ended since, beside bids that an earlier policy decided: all of them are before.
    kinds = (EventKind.ADMITTED, EventKind.REJECTED, EventKind.STANDING)
    decided = Event.objects.filter(market=market, kind__in=kinds, version__lt=event.version)
    earlier = decided.aggregate(last=Max("bid__sequence"))["last"] or 0
    since = DecisionRecord.objects.filter(bid__market=market, bid__sequence__gt=earlier, version__gt=event.version)
    first = since.order_by("bid__sequence").first()
    if first is None:
        return
    policy = make_policy(chosen.name, chosen.parameters)
    same = compare(record, policy, since=first.bid.sequence)
    assert (same.changed, same.earlier_changed) == (0, 0)
    assert same.recorded == same.other
    assert [replace(row, other=row.recorded) for row in same.rows] == list(same.rows)


def assert_every_bid_is_accounted_for(market: Market, *names: str) -> None:
    """Whatever policy had decided, submitted = done + rejected + running + waiting and so on, or it could not have.

    A bid that is withdrawn in the record, perhaps after it stood, is withdrawn, unless it would have been admitted.
    """
    record = Record.of(market)
    for name in names:
        with suppress(InvalidField):
            found = compare(record, make_policy(name, {}))
            assert found.recorded.submitted == found.other.submitted == record.submitted
            for row in found.rows:
                recorded, other = (side.state == BidState.WITHDRAWN for side in row.sides)
                assert other == (recorded and not row.other.admitted), row
            assert found.recorded.undecided == found.other.undecided
