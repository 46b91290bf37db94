"""The grants of a market's events, as a pass over them goes on."""

from collections.abc import Collection, Iterable

from auctions.models import Event
from auctions.state.grants import Grants
from scheduling.model.types import Json


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

    def to_json(self, gone: Collection[int]) -> Json:
        """Return the grants without those of the bids in `gone`, as `resume` reads them."""
        return self.grants.to_json(gone)

    def resume(self, document: Json) -> None:
        """Go on from the grants that `to_json` wrote."""
        self.grants.resume(document)

    def finish(self) -> Iterable[str]:
        """Check nothing: `audit_schedules` compares the grants with rows."""
        return ()
