"""The outcome of one bid in one replay of a market's record."""

from dataclasses import dataclass
from typing import Final

from auctions.domain.refunds import Refund, machine_slots, undelivered, undelivered_share
from auctions.models import BidState
from scheduling.book.state import Job
from scheduling.model.decision import Decision
from scheduling.model.schedule import Placement, Schedule
from scheduling.model.utility import Utility

NEVER: Final = 2**40
"""A number of slots after arrival that stands for a completion at an unknown late time."""


@dataclass
class Outcome:
    """The present state of one bid, updated as events are replayed. Slots are numbers."""

    admitted: bool | None = None
    """None if not decided."""
    payment: float = 0.0
    start: int | None = None
    completion: int | None = None
    """Actual completion, or the planned one: when the replay ends, and of a job that was complete early."""
    ended: BidState | None = None
    """Withdrawn, quarantined, cancelled, failed, or completed early."""
    ended_slot: int | None = None
    stands: bool = False
    """Whether it was rejected and is tried again."""
    reason: str = ""
    """Reason of a rejection: one word as in receipts, or `refused` if the bid could not have been submitted."""
    explanation: str = ""
    receipt_value: float = 0.0
    """Value in the decision's receipt."""
    refund: float = 0.0
    """Refund of a failed job, money."""
    costs: tuple[float, ...] = ()
    """Posted cost of each slot of the granted schedule; empty if jobs do not pay, or if not known."""
    schedule: Schedule | None = None
    """The granted schedule."""
    held: tuple[Placement, ...] = ()
    """All placements of the job by its present plan, past and future."""
    kept_from: int | None = None
    """Slot from which on the promise is kept with other machines."""

    @classmethod
    def of(cls, decision: Decision) -> "Outcome":
        """Return the outcome of a decision; start and completion are taken from the job by `plan`."""
        return cls(
            admitted=decision.admitted,
            payment=decision.payment,
            reason="" if decision.reason is None else str(decision.reason),
            explanation=decision.explanation,
            receipt_value=decision.value,
            costs=decision.costs,
            schedule=decision.schedule,
        )

    @property
    def granted(self) -> tuple[int, int] | None:
        """First slot and completion of the granted schedule; None if there is none."""
        return None if self.schedule is None else (self.schedule.start, self.schedule.completion)

    def plan(self, job: Job) -> None:
        """Set start, completion and machines to those of the job's present plan."""
        self.start, self.completion, self.held = job.start, job.completion, job.held

    def end(self, state: BidState, slot: int) -> None:
        """Record that it was withdrawn, quarantined, cancelled, failed or completed early in this slot."""
        self.ended, self.ended_slot = state, slot

    def pay_back(self, how: Refund, slot: int) -> None:
        """Set the refund of a job that fails in this slot, by the rules of `auctions.domain.refunds`."""
        if how is Refund.UNDELIVERED and self.schedule is not None:
            cut = slot if self.kept_from is None else min(slot, self.kept_from)
            if self.costs:
                self.refund = undelivered(self.costs, paid=self.payment, start=self.schedule.start, cut=cut)
            else:
                delivered = machine_slots([(p.count, p.start, p.end) for p in self.held], until=cut)
                self.refund = undelivered_share(delivered, self.schedule, paid=self.payment)
        else:
            self.refund = self.payment if how is Refund.FULL else 0.0

    def resubmit(self) -> None:
        """Record that a quarantined bid is back in the decision queue."""
        self.ended, self.ended_slot = None, None

    def state(self, slot: int) -> BidState:
        """Return the state once slot `slot` has begun, by the rules of `auctions.domain.transitions`."""
        if self.ended is not None:
            return self.ended
        if self.admitted is None:
            return BidState.SUBMITTED
        if not self.admitted:
            return BidState.STANDING if self.stands else BidState.REJECTED
        if self.completion is not None and self.completion <= slot:
            return BidState.COMPLETED
        return BidState.RUNNING if self.start is not None and self.start <= slot else BidState.PLANNED

    @property
    def completed(self) -> int | None:
        """The slot at whose start it is complete; for a job that was complete early, the slot of its real end."""
        return self.ended_slot if self.ended is BidState.COMPLETED else self.completion

    def value(self, utility: Utility, *, arrival: int) -> float:
        """Return the stated value of its completion, money; 0 unless the job is complete or will be completed.

        For an admitted job without a planned completion, this is the value of a very late completion. A job that was
        complete early has the value of its planned completion.
        """
        if not self.admitted or self.ended not in (None, BidState.COMPLETED):
            return 0.0
        completion = self.completed if self.completion is None else self.completion
        return utility.at(NEVER if completion is None else completion - arrival)
