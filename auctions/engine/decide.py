"""Let the policy decide a bid, and check its decision before any of it is written."""

from dataclasses import dataclass, field, replace
from time import perf_counter

from auctions.domain.bid_check import LEAST_WEIGHT
from auctions.domain.credits import limited, too_few
from auctions.domain.policy_errors import policy_errors
from auctions.state.book import LiveBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Reason, canonical
from scheduling.model.errors import SchedulingError
from scheduling.policies.base import Objective, Policy
from scheduling.policies.standing import StandingBid, Tries, stands, with_first_offer


class WrongDecision(SchedulingError):
    """A policy's answer breaks a rule of every decision."""


@dataclass(frozen=True)
class Made:
    """A decision that has been applied to the book."""

    decision: Decision
    receipt: str
    """The decision as canonical text."""
    latency_ms: float
    """Time that the policy needed for the decision, ms."""
    left: int | None = None
    """Millionths of a credit that the bid's team had left before the decision; None without a limit."""


def decide(book: LiveBook, bid: CoreBid, *, owner: int, left: int | None = None, wants_to_stand: bool = False) -> Made:
    """Let the policy decide a bid, and apply the decision to the book. `owner` is the number of its owner.

    `left` is what the bid's team may spend, millionths of a credit; None without a limit. The receipt of a bid that
    wants to stand says if it does not because of that.

    Raises
    ------
    PolicyFailed
        If the policy raises, or its decision breaks a rule. The book must not be used afterwards.
    """
    with policy_errors():
        began = perf_counter()
        decision = explained(bid, limited(answer(bid, book), left), book.policy, left if wants_to_stand else None)
        latency_ms = (perf_counter() - began) * 1000
        receipt = canonical(decision.to_json())
        canonical(decision.costs)
        _check(decision, bid)
        book.apply_decision(bid, decision, owner=owner)
    return Made(decision, receipt, latency_ms, left)


@dataclass
class TriedBook:
    """A book on which standing bids are tried, one after another."""

    book: LiveBook
    tries: Tries = field(init=False)

    def __post_init__(self) -> None:
        self.tries = Tries(self.book.policy, self.book.view)

    def without(self, bid: CoreBid, *, admitted: bool = False) -> None:
        """Note that this bid competes no longer, since it was `admitted` or for another reason."""
        self.tries.after(admitted=admitted)
        self.book.competitors = tuple(one for one in self.book.competitors if one.id != bid.id)


def decide_again(tried: TriedBook, one: StandingBid, first: Decision, *, owner: int, left: int | None) -> Made | None:
    """Try a standing bid; apply an admission to the book, and return None if the bid is rejected again.

    `first` is the rejection after which it stands, with densities in the positions of the inventory in force. A try
    that costs more than `left`, millionths of a credit, is a rejection. Where bids compete, the bid is then no
    competitor of those that are tried after it.

    Raises
    ------
    PolicyFailed
        If the policy raises, or its decision breaks a rule.
    """
    book = tried.book
    with policy_errors():
        if refusal(one.bid, book.policy):
            return None
        began = perf_counter()
        admission = tried.tries.admission(one.bid)
        latency_ms = (perf_counter() - began) * 1000
        if admission is None:
            return None
        if not limited(admission, left).admitted:
            if book.policy.competes:
                tried.without(one.bid)
            return None
        decision = with_first_offer(admission, first)
        receipt = canonical(decision.to_json())
        canonical(decision.costs)
        _check(decision, one.bid)
        book.apply_decision(one.bid, decision, owner=owner, again=True)
        tried.without(one.bid, admitted=True)
    return Made(decision, receipt, latency_ms, left)


def answer(bid: CoreBid, book: LiveBook) -> Decision:
    """Return the decision on a bid; nothing is changed.

    A bid that the policy in force does not accept is rejected without asking the policy. Such a bid was submitted
    under another policy, before the market changed to this one.
    """
    problem = refusal(bid, book.policy)
    if not problem:
        return book.policy.decide(bid, book.view())
    nothing = (0.0,) * len(book.snapshot.inventory.resources)
    return Decision.reject(bid.id, Reason.REFUSED, problem, slot=book.running.now, density=nothing)


def explained(bid: CoreBid, decision: Decision, policy: Policy, left: int | None) -> Decision:
    """Return the decision on a bid that wants to stand; if its team has too little left for that, it says so."""
    problem = unpayable(bid, decision, policy, left)
    return replace(decision, explanation=f"{decision.explanation} {problem}") if problem else decision


def unpayable(bid: CoreBid, decision: Decision, policy: Policy, left: int | None) -> str:
    """Return why a bid that might stand after this decision does not: it would compete for what its team could not pay.

    `left` is what its team has left, millionths of a credit; None without a limit. Empty if it may stand, or if the
    decision is final anyway.
    """
    return too_few(bid.utility.value, left) if policy.competes and stands(decision) else ""


def refusal(bid: CoreBid, policy: Policy) -> str:
    """Return why a market under this policy does not accept this bid; empty if it does."""
    if bid.architecture not in policy.architectures:
        return f"{policy.title} does not run {bid.architecture} jobs."
    if policy.objective is not Objective.WELFARE and bid.utility.value < LEAST_WEIGHT:
        return f"Its amplitude, taken as its weight, is below {LEAST_WEIGHT:g}."
    return ""


def _check(decision: Decision, bid: CoreBid) -> None:
    """Raise WrongDecision if the decision breaks a rule: it could not be stored, and the policy is at fault."""
    if decision.bid_id != bid.id:
        raise WrongDecision(f"the decision on bid {bid.id} speaks of bid {decision.bid_id}")
    if not 0 <= decision.payment <= decision.value:
        raise WrongDecision(f"the payment {decision.payment} is not between 0 and the value {decision.value}")
