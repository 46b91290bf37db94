"""The grants of a market's events, as a pass over them goes on."""

from collections.abc import Iterable

from auctions.models import Event
from auctions.state.grants import Grants


class GrantsOfEvents:
    """The grants after the events so far, and the jobs that the last one moved."""

    def __init__(self) -> None:
        self.grants = Grants()
        self.moved: list[int] = []
        """Keys of the bids whose jobs the last event moved."""

    def take(self, event: Event) -> Iterable[str]:
        """Apply one event; nothing is checked."""
        self.moved = self.grants.step(event)
        return ()

    def finish(self) -> Iterable[str]:
        """Check nothing: `audit_schedules` compares the grants with rows."""
        return ()
