"""The policy is asked about a bid, and its answer is checked before anything of it is written."""

from dataclasses import dataclass
from time import perf_counter

from auctions.domain.bid_format import LEAST_WEIGHT
from auctions.domain.policy_errors import policy_errors
from auctions.state.book import LiveBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Reason, canonical
from scheduling.model.errors import SchedulingError
from scheduling.policies.base import Objective, Policy


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


def decide(book: LiveBook, bid: CoreBid, *, owner: int) -> Made:
    """Let the policy decide a bid, and the book take the decision in. `owner` is the key of the user who sent it.

    Raises
    ------
    PolicyFailed
        If the policy raises, or its decision breaks a rule. Then the book is not to be used any more.
    """
    with policy_errors():
        began = perf_counter()
        decision = answer(bid, book)
        latency_ms = (perf_counter() - began) * 1000
        receipt = canonical(decision.to_json())
        canonical(decision.costs)
        _check(decision, bid)
        book.apply_decision(bid, decision, owner=owner)
    return Made(decision, receipt, latency_ms)


def answer(bid: CoreBid, book: LiveBook) -> Decision:
    """What becomes of a bid; nothing is changed.

    The policy is not asked about a bid that it would not take, which another policy took before the market changed
    to this one: it is rejected.
    """
    problem = refusal(bid, book.policy)
    if not problem:
        return book.policy.decide(bid, book.view())
    nothing = (0.0,) * len(book.layout.inventory.resources)
    return Decision.reject(bid.id, Reason.REFUSED, problem, slot=book.running.now, density=nothing)


def refusal(bid: CoreBid, policy: Policy) -> str:
    """Why a market under this policy takes no such bid; empty if it does."""
    if bid.architecture not in policy.architectures:
        return f"{policy.title} does not run {bid.architecture} jobs."
    if policy.objective is not Objective.WELFARE and bid.utility.value < LEAST_WEIGHT:
        return f"Its amplitude, taken as its weight, is below {LEAST_WEIGHT:g}."
    return ""


def _check(decision: Decision, bid: CoreBid) -> None:
    """A decision that cannot be stored is the policy's mistake."""
    if decision.bid_id != bid.id:
        raise WrongDecision(f"the decision on bid {bid.id} speaks of bid {decision.bid_id}")
    if not 0 <= decision.payment <= decision.value:
        raise WrongDecision(f"the payment {decision.payment} is not between 0 and the value {decision.value}")
