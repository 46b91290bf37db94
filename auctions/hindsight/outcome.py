"""What became of one bid in one telling of a market's record."""

from dataclasses import dataclass
from typing import Final

from auctions.models import BidState
from scheduling.decision import Decision
from scheduling.policy import Job
from scheduling.utility import Utility

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
    """Withdrawn, cancelled or failed."""
    ended_slot: int | None = None
    reason: str = ""
    """Of a rejection: one word as in receipts, or `refused` where it could not have been submitted."""
    explanation: str = ""
    receipt_value: float = 0.0
    """Worth as the decision said."""

    @classmethod
    def of(cls, decision: Decision) -> "Outcome":
        """As decided; where it starts is told by its job."""
        return cls(
            admitted=decision.admitted,
            payment=decision.payment,
            reason="" if decision.reason is None else str(decision.reason),
            explanation=decision.explanation,
            receipt_value=decision.value,
        )

    def plan(self, job: Job) -> None:
        """Take over start and completion as planned by now."""
        self.start, self.completion = job.start, job.completion

    def end(self, state: BidState, slot: int) -> None:
        """Withdrawn, cancelled or failed in this slot."""
        self.ended, self.ended_slot = state, slot

    def state(self, slot: int) -> BidState:
        """Once slot `slot` has begun, by the rules of `auctions.transitions`."""
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
