"""Policies that raise: on some bids when they decide, and in some slots when they plan."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User

from auctions.engine import decision_queue
from auctions.engine.submission import submit_bid
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.models import Bid, Market
from scheduling.book.state import Book, Cause
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Move
from scheduling.model.errors import OutsideHorizon
from scheduling.model.parameters import parameter
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.dps import Dps
from scheduling.registry import POLICIES

UNLUCKY = 13.0
"""Bids of this value or weight are not decided."""


@dataclass(frozen=True)
class FaultyDps(Dps):
    """Raises on unlucky bids."""

    name = "faulty_dps"

    def decide(self, bid: CoreBid, book: Book) -> Decision:
        """Raise, or decide."""
        _stumble(bid)
        return super().decide(bid, book)


@dataclass(frozen=True)
class FaultyFifo(Fifo):
    """Raises on unlucky bids, and on every plan in some slots."""

    first_bad: int = parameter(0, "First slot in which planning fails.", low=0, high=10**6)
    good: int = parameter(0, "First slot after it in which planning does not fail.", low=0, high=10**6)

    name = "faulty_fifo"

    def decide(self, bid: CoreBid, book: Book) -> Decision:
        """Raise, or decide."""
        _stumble(bid)
        return super().decide(bid, book)

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """Raise, or plan."""
        if self.first_bad <= book.now < self.good:
            raise OutsideHorizon(f"no plan in slot {book.now}")
        return super().plan(book, cause)


def _stumble(bid: CoreBid) -> None:
    if bid.utility.value == UNLUCKY:
        raise OutsideHorizon(f"bid {bid.id} is unlucky")


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let markets choose these policies until the test ends."""
    for policy in (FaultyDps, FaultyFifo):
        monkeypatch.setitem(POLICIES, policy.name, policy)


def send(market: Market, owner: User, value: float, *, auction: bool = False, **changes: Any) -> Bid:
    """A stored bid with a value or a weight, not decided yet."""
    stated: dict[str, Any] = {"utility": {"form": "constant", "value": value}} if auction else {"weight": value}
    body = {"model": "ResNet-50", "epochs": 1, **stated, **changes}
    return submit_bid(cluster=market.cluster, owner=owner, body=body).bid


def states(market: Market) -> list[str]:
    """Return the states of all bids, in their order."""
    return list(Bid.objects.filter(market=market).order_by("sequence").values_list("state", flat=True))


def assert_clean(market: Market) -> None:
    """The audit finds nothing, and a replay gives every byte again."""
    assert {f.check: f.rows for f in audit_market(market) if not f.passed} == {}
    assert replay_market(market).mismatches == ()


def process_pending(market: Market) -> int:
    """Decide all that wait."""
    return decision_queue.process_pending(market.pk)
