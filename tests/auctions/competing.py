"""A market in which bids compete, and what its policy sees of the bids that stand."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.history.replay import replay_market
from auctions.models import Bid, BidState, Market
from cluster.models import Server
from scheduling.book.state import Book
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision
from scheduling.policies.competition import Competition
from scheduling.policies.standing import Admissions
from tests.auctions.standing import HORIZON, assert_sound
from tests.auctions.worlds import PRICED, SLOT_S, make_cluster, submit

GOING = (BidState.PLANNED, BidState.RUNNING)
Seen = list[tuple[str, tuple[CoreBid, ...]]]
"""Bids that were decided, or the slots of turns, with their competitors, in order."""


def make_market(name: str = "lab", *, policy: str = "competition", servers: int = 1) -> Market:
    """Servers of four units each, and no cloud."""
    cluster = make_cluster(name, servers=servers, units=4, horizon=HORIZON)
    Server.objects.filter(cluster=cluster, name="cloud").delete()
    return open_market(cluster, policy=policy, parameters=dict(PRICED) if policy == "completions" else {})


def watched(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Record what the policy sees of the bids that stand, at each decision and at each new look at a book in a turn."""
    found: Seen = []
    decide, admissions = Competition.decide, Competition.admissions

    def decided(self: Competition, bid: CoreBid, book: Book) -> Decision:
        found.append((bid.id, book.competitors))
        return decide(self, bid, book)

    def looked(self: Competition, book: Book) -> Admissions:
        found.append((f"turn {book.now}", book.competitors))
        return admissions(self, book)

    monkeypatch.setattr(Competition, "decide", decided)
    monkeypatch.setattr(Competition, "admissions", looked)
    return found


def numbers(seen: Seen) -> list[tuple[str, list[int]]]:
    return [(what, [int(one.id) for one in competitors]) for what, competitors in seen]


def bid_of(market: Market, owner: User, value: float, *, slots: int = 1, **changes: Any) -> Bid:
    """A bid that takes all machines for some slots, and stands if it does not start."""
    utility = {"form": "linear", "value": value, "zero_at_s": 40 * SLOT_S}
    return submit(market, owner, value, epochs=slots, **{"utility": utility, "standing": True, **changes})


def decided(market: Market, owner: User, value: float, **changes: Any) -> Bid:
    bid = bid_of(market, owner, value, **changes)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


def running_for(market: Market, owner: User, slots: int) -> Bid:
    """A job that holds all machines for these slots: it is worth nothing later, so nothing may stop it."""
    utility = {"form": "step", "value": 1000.0, "deadline_s": slots * SLOT_S}
    bid = decided(market, owner, 1000.0, slots=slots, utility=utility)
    assert bid.state in GOING
    return bid


def states(*bids: Bid) -> list[str]:
    for bid in bids:
        bid.refresh_from_db()
    return [bid.state for bid in bids]


def assert_replay_sees_the_same(market: Market, seen: Seen) -> None:
    live = list(seen)
    seen.clear()
    market.refresh_from_db()
    assert replay_market(market).mismatches == ()
    assert numbers(seen) == numbers(live)
    assert seen == live
    assert_sound(market)
