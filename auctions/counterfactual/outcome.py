"""What became of one bid in one telling of a market's record."""

from dataclasses import dataclass
from typing import Final

from auctions.domain.refunds import Refund, undelivered
from auctions.models import BidState
from scheduling.book.state import Job
from scheduling.model.decision import Decision
from scheduling.model.utility import Utility

NEVER: Final = 2**40
"""Slots after arrival: what a job is worth whenever it may be complete."""


@dataclass
class Outcome:
    """Where a bid is, slots by number. It changes as events are told."""

    admitted: bool | None = None
    """None: not decided."""
    payment: float = 0.0
    start: int | None = None
    completion: int | None = None
    """As planned when the telling ends, or as it was."""
    ended: BidState | None = None
    """Withdrawn, quarantined, cancelled or failed."""
    ended_slot: int | None = None
    reason: str = ""
    """Of a rejection: one word as in receipts, or `refused` where it could not have been submitted."""
    explanation: str = ""
    receipt_value: float = 0.0
    """Worth as the decision said."""
    refund: float = 0.0
    """Paid back when it failed, money."""
    costs: tuple[float, ...] = ()
    """Posted cost of each slot of the schedule that was granted; empty where nobody pays, or not known."""
    granted: tuple[int, int] | None = None
    """First slot and completion of that."""
    kept_from: int | None = None
    """Slot from which on other machines keep the promise."""

    @classmethod
    def of(cls, decision: Decision) -> "Outcome":
        """As decided; where it starts is told by its job."""
        return cls(
            admitted=decision.admitted,
            payment=decision.payment,
            reason="" if decision.reason is None else str(decision.reason),
            explanation=decision.explanation,
            receipt_value=decision.value,
            costs=decision.costs,
            granted=None if decision.schedule is None else (decision.schedule.start, decision.schedule.completion),
        )

    def plan(self, job: Job) -> None:
        """Take over start and completion as planned by now."""
        self.start, self.completion = job.start, job.completion

    def end(self, state: BidState, slot: int) -> None:
        """Withdrawn, quarantined, cancelled or failed in this slot."""
        self.ended, self.ended_slot = state, slot

    def pay_back(self, how: Refund, slot: int) -> None:
        """What a job that fails in this slot is paid back, as `auctions.domain.refunds` says."""
        if how is Refund.UNDELIVERED and self.granted is not None:
            start, completion = self.granted
            cut = slot if self.kept_from is None else min(slot, self.kept_from)
            # Where no costs were kept all slots count the same.
            costs = [*self.costs] or [self.payment / (completion - start)] * (completion - start)
            self.refund = undelivered(costs, paid=self.payment, start=start, cut=cut)
        else:
            self.refund = self.payment if how is Refund.FULL else 0.0

    def resubmit(self) -> None:
        """A quarantined bid is back in the queue."""
        self.ended, self.ended_slot = None, None

    def state(self, slot: int) -> BidState:
        """Once slot `slot` has begun, by the rules of `auctions.domain.transitions`."""
        if self.ended is not None:
            return self.ended
        if self.admitted is None:
            return BidState.SUBMITTED
        if not self.admitted:
            return BidState.REJECTED
        if self.completion is not None and self.completion <= slot:
            return BidState.COMPLETED
        return BidState.RUNNING if self.start is not None and self.start <= slot else BidState.PLANNED

    def worth(self, utility: Utility, *, arrival: int) -> float:
        """What its owner said completion then is worth, money; 0 unless it is complete or still to be.

        While nothing is planned for an admitted job, what it is worth however late.
        """
        if not self.admitted or self.ended is not None:
            return 0.0
        return utility.at(NEVER if self.completion is None else self.completion - arrival)
