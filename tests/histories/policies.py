"""The policies of histories: those of the registry, which fail on some bids and in some slots at first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from scheduling.book.state import Book, Cause
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Move
from scheduling.model.errors import OutsideHorizon
from scheduling.model.types import Json
from scheduling.registry import POLICIES
from tests.auctions.faulty import UNLUCKY

PARAMETERS: Final[dict[str, tuple[Json, ...]]] = {
    "dps": (
        {"initial_low": 0.01, "initial_high": 1.0},
        {"price": "paper"},
        {"price": "fluid", "refit_every": 2},
        {"worker_reserve_factor": 0.1, "refit_every": 3},
    ),
    "completions": ({}, {"refit_every": 2, "restart": 1}),
    "competition": ({}, {"later": 0.0}, {"restart": 1, "steps": 8}),
    "weighted_completion": ({}, {"lambda": 8.0}, {"mode": "interval", "batches": "chained"}),
    "preemptive": ({}, {"cloud": "edge"}),
}
"""Parameters from which a history draws; other policies have their defaults."""
TEXT: Final = "this policy fails here"


class Failing:
    """Bids and slots on which policies fail."""

    def __init__(self) -> None:
        self.is_corrected = False
        self.slots: frozenset[int] = frozenset()
        """First slots on sale in which no policy plans."""

    def check_bid(self, bid: CoreBid) -> None:
        """Raise if policies fail on this bid."""
        if bid.utility.value == UNLUCKY and not self.is_corrected:
            raise OutsideHorizon(TEXT)

    def check_slot(self, slot: int) -> None:
        """Raise if policies fail to plan in this slot."""
        if slot in self.slots and not self.is_corrected:
            raise OutsideHorizon(TEXT)


@contextmanager
def failing(where: Failing) -> Iterator[None]:
    """Let all policies of the registry fail there."""
    with patch.dict(POLICIES, {name: _failing(kind, where) for name, kind in POLICIES.items()}):
        yield


def _failing(kind: type[Any], where: Failing) -> type[Any]:
    """Return a subclass of a policy that fails there."""

    def decide(self: Any, bid: CoreBid, book: Book) -> Decision:
        where.check_bid(bid)
        decision: Decision = kind.decide(self, bid, book)
        return decision

    def plan(self: Any, book: Book, cause: Cause) -> tuple[Move, ...]:
        where.check_slot(book.now)
        moves: tuple[Move, ...] = kind.plan(self, book, cause)
        return moves

    return type(kind.__name__, (kind,), {"decide": decide, "plan": plan})
