"""The steps of a replay."""

from dataclasses import dataclass

from auctions.models import EventKind
from scheduling.model.decision import Decision


@dataclass(frozen=True)
class Step:
    """One replayed event."""

    version: int
    kind: EventKind
    moves: str
    """Changes beside those of its bid, as canonical text: new schedules of jobs, the numbers of jobs that fail
    because of it, the turn of standing bids, and until when a bid stands."""
    recorded_moves: str


@dataclass(frozen=True)
class Replayed(Step):
    """A replayed decision."""

    sequence: int
    bid_id: int
    decision: Decision
    receipt: str
    charged: float | None
    """Its payment at the prices posted then, 0 if jobs do not pay; None if it was rejected, or if not requested."""
    stands: bool = False
    """Whether the bid stands after this decision, so that it has another one later."""
