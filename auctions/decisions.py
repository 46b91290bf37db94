"""The policy is asked about a bid, and its answer is checked before anything of it is written."""

from dataclasses import dataclass
from time import perf_counter

from auctions.book import LiveBook
from auctions.policy_errors import policy_errors
from scheduling.bid import Bid
from scheduling.decision import Decision, canonical
from scheduling.errors import SchedulingError


class WrongDecision(SchedulingError):
    """A policy's answer breaks a rule of every decision."""


@dataclass(frozen=True)
class Made:
    """A decision that the book has taken in."""

    decision: Decision
    receipt: str
    """Canonical text."""
    latency_ms: float
    """Time the policy took."""


def decide(book: LiveBook, bid: Bid, *, owner: int) -> Made:
    """Let the policy decide a bid, and the book take the decision in. `owner` is the key of the user who sent it.

    Raises
    ------
    PolicyFailed
        If the policy raises, or its decision breaks a rule. Then the book is not to be used any more.
    """
    with policy_errors():
        began = perf_counter()
        decision = book.policy.decide(bid, book.view())
        latency_ms = (perf_counter() - began) * 1000
        receipt = canonical(decision.to_json())
        canonical(decision.costs)
        _check(decision, bid)
        book.take_in(bid, decision, owner=owner)
    return Made(decision, receipt, latency_ms)


def _check(decision: Decision, bid: Bid) -> None:
    """A decision that cannot be stored is the policy's mistake."""
    if decision.bid_id != bid.id:
        raise WrongDecision(f"the decision on bid {bid.id} speaks of bid {decision.bid_id}")
    if not 0 <= decision.payment <= decision.value:
        raise WrongDecision(f"the payment {decision.payment} is not between 0 and the value {decision.value}")
