"""Label, style and meaning of each state of bids and background jobs."""

from dataclasses import dataclass
from typing import Final

from auctions.models import Bid, BidState, DeliveryStatus
from execution.models import TrainingState
from studies.background.models import JobState


@dataclass(frozen=True)
class Look:
    """Label, style and meaning of a state."""

    label: str
    tone: str
    """Suffix of the style sheet's class."""
    meaning: str


LOOKS: Final = {
    BidState.SUBMITTED: Look("Waiting", "wait", "It is in the decision queue."),
    BidState.STANDING: Look("Standing", "wait", "It was rejected and is tried again when slots begin."),
    BidState.PLANNED: Look("Planned", "plan", "It was admitted and its start and machines are set."),
    BidState.RUNNING: Look("Running", "run", "Its machines process it now."),
    BidState.COMPLETED: Look("Completed", "done", "Its last slot is over."),
    BidState.REJECTED: Look("Rejected", "no", "It was not admitted and pays nothing."),
    BidState.WITHDRAWN: Look("Withdrawn", "off", "Its owner withdrew it before it was decided."),
    BidState.QUARANTINED: Look("Quarantined", "no", "It could not be decided; an operator has been informed."),
    BidState.CANCELLED: Look("Cancelled", "off", "Its remaining slots were freed; the payment is not refunded."),
    BidState.FAILED: Look("Failed", "no", "It ended before it was complete; its remaining slots were freed."),
}

PLAN_LOOKS: Final = {
    JobState.QUEUED: Look("Queued", "wait", "It waits for a worker."),
    JobState.RUNNING: Look("Running", "run", "A worker is computing it."),
    JobState.COMPLETED: Look("Completed", "done", "Its method has ended."),
    JobState.FAILED: Look("Failed", "no", "There is no plan."),
    JobState.CANCELLED: Look("Cancelled", "off", "It was ended before its method had ended."),
}

PLAN_RUN_LOOKS: Final = {
    JobState.QUEUED: Look("Queued", "wait", "It waits for a worker."),
    JobState.RUNNING: Look("Running", "run", "Its clients and helpers run."),
    JobState.COMPLETED: Look("Completed", "done", "All batches ended in the order of the plan."),
    JobState.FAILED: Look("Failed", "no", "It ended early, or in another order than the plan's."),
    JobState.CANCELLED: Look("Cancelled", "off", "It was ended before its last batch."),
}

COUNTERFACTUAL_LOOKS: Final = {
    JobState.QUEUED: Look("Queued", "wait", "It waits for a worker."),
    JobState.RUNNING: Look("Running", "run", "A worker is replaying the record."),
    JobState.COMPLETED: Look("Completed", "done", "The record was replayed to its end."),
    JobState.FAILED: Look("Failed", "no", "The record could not be replayed."),
    JobState.CANCELLED: Look("Cancelled", "off", "It was ended before the record was replayed to its end."),
}

RUN_LOOKS: Final = {
    **PLAN_LOOKS,
    JobState.COMPLETED: Look("Completed", "done", "All of it is computed."),
    JobState.FAILED: Look("Failed", "no", "At least one run failed."),
    JobState.CANCELLED: Look("Cancelled", "off", "It was ended before all of it was computed."),
}
"""Labels of experiments and their runs."""

TRAINING_LOOKS: Final = {
    TrainingState.WAITING: Look("Waiting", "wait", "It waits for its machines."),
    TrainingState.RUNNING: Look("Training", "run", "Its processes run on its machines."),
    TrainingState.FINISHED: Look("Finished", "done", "The program ended by itself, with success."),
    TrainingState.STOPPED: Look("Stopped", "off", "Nothing more is started for it."),
    TrainingState.FAILED: Look("Failed", "no", "Nothing more is started for it."),
}
"""Labels of trainings."""

DELIVERY_LOOKS: Final = {
    DeliveryStatus.WAITING: Look("Waiting", "wait", "It will be sent, or sent again."),
    DeliveryStatus.DELIVERED: Look("Delivered", "done", "The receiver has taken it."),
    DeliveryStatus.GIVEN_UP: Look("Given up", "no", "It is not sent again by itself."),
}
"""Labels of messages of webhooks."""

WAITS: Final = Look("In line", "wait", "It was admitted and has no planned start yet.")
"""A planned job that has no start."""
PLAN: Final = Look("Planned", "plan", "It was admitted. Its planned start can change until it has started.")
"""A planned job whose start is no promise."""
PAUSED: Final = Look("Paused", "wait", "It has run and holds no machines now; it continues when machines are free.")
"""A job that has run, holds no machines and has no planned resumption yet."""
EARLY: Final = Look("Completed", "done", "Its training ended early; its remaining slots were freed.")
"""A job that was complete before its last slot."""
STOOD: Final = Look("Withdrawn", "off", "It stood, and its owner withdrew it.")
"""A bid that was withdrawn after its first decision."""
IN_LINE: Final = "in_line"
"""Name of this state in addresses."""


def look_of(bid: Bid, *, may_move: bool = False) -> Look:
    """Return label, style and meaning of a bid's state; `may_move` if a planned start may change."""
    state = BidState(bid.state)
    if state == BidState.PLANNED and bid.start_slot is None:
        return WAITS
    if state == BidState.PLANNED and may_move:
        return PLAN
    if state == BidState.RUNNING and bid.completion_slot is None:
        return PAUSED
    if state == BidState.WITHDRAWN and bid.stands_until is not None:
        return STOOD
    return EARLY if bid.completed_early else LOOKS[state]
