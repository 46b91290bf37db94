"""The one pass over a market's events, which all checks of its history share."""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from auctions.history.audit_history import RecordedStates
from auctions.history.audit_publications import Publications
from auctions.history.audit_replay import ReplayedRecord
from auctions.history.audit_standing import StandingTurns
from auctions.history.audit_turns import DecisionOrder
from auctions.history.grants_of_events import GrantsOfEvents
from auctions.history.recorded import pages_of_events
from auctions.history.replay import UNREADABLE
from auctions.models import Event, Market

Progress = Callable[[int, int], object]
"""Called with the number of events that were read, and with their number in all."""


class Reader(Protocol):
    """A reader of the events, in order."""

    def take(self, event: Event) -> Iterable[str]:
        """Read the next event; return what is wrong with it."""

    def finish(self) -> Iterable[str]:
        """Return what is wrong when all events have been read."""


R = TypeVar("R", bound=Reader)


class Reading(Generic[R]):
    """One reader in a pass. After an error it reads no more events, and every check that uses it raises the error."""

    def __init__(self, make: Callable[[], R]) -> None:
        self._problems: list[str] = []
        self._reader: R | None = None
        self._broken_off: Exception | None = None
        try:
            self._reader = make()
        except UNREADABLE as error:
            self._broken_off = error

    def take(self, event: Event) -> None:
        """Let it read the next event."""
        if self._broken_off is not None:
            return
        try:
            self._problems += self.reader.take(event)
        except UNREADABLE as error:
            self._broken_off = error

    @property
    def reader(self) -> R:
        """The reader; raises the error with which it broke off."""
        if self._broken_off is not None:
            raise self._broken_off
        if self._reader is None:
            raise TypeError("there is no reader")
        return self._reader

    def found(self) -> list[str]:
        """Return what it found wrong, once all events have been read; raises the error with which it broke off."""
        return [*self._problems, *self.reader.finish()]


class EventPass:
    """The findings of one pass over all events of a market. Nothing should write to the market meanwhile."""

    def __init__(self, market: Market, progress: Progress | None = None) -> None:
        self.market = market
        self.grants = Reading(GrantsOfEvents)
        self.states = Reading(lambda: RecordedStates(market, lambda: self.grants.reader))
        self.standing = Reading(lambda: StandingTurns(market))
        self.turns = Reading(lambda: DecisionOrder(market))
        self.publications = Reading(lambda: Publications(market))
        self.replay = Reading(lambda: ReplayedRecord(market))
        readings = (self.grants, self.states, self.standing, self.turns, self.publications, self.replay)
        read = 0
        for page in pages_of_events(market):
            for event in page:
                for one in readings:
                    one.take(event)
            read += len(page)
            if progress is not None:
                progress(read, market.version)
