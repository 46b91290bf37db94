"""How each state of a bid looks and what it means, in one place."""

from dataclasses import dataclass
from typing import Final

from auctions.models import BidState


@dataclass(frozen=True)
class Look:
    """Label, style and meaning of a state."""

    label: str
    tone: str
    """Suffix of the style sheet's class."""
    meaning: str


LOOKS: Final = {
    BidState.SUBMITTED: Look("Waiting", "wait", "It is in the queue and will be decided in a moment."),
    BidState.PLANNED: Look("Planned", "plan", "It was admitted and its machines are reserved."),
    BidState.RUNNING: Look("Running", "run", "Its machines are working on it now."),
    BidState.COMPLETED: Look("Completed", "done", "It has had all of its work."),
    BidState.REJECTED: Look("Rejected", "no", "It was not admitted and pays nothing."),
    BidState.WITHDRAWN: Look("Withdrawn", "off", "Its owner took it back before it was decided."),
    BidState.CANCELLED: Look("Cancelled", "off", "Its slots from then on were freed; what it paid stays paid."),
    BidState.FAILED: Look("Failed", "no", "An operator ended it; its slots from then on were freed."),
}
