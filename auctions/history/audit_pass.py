"""The one pass over a market's events, which all checks of its history share."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from auctions.history.audit_history import RecordedStates
from auctions.history.audit_publications import Publications
from auctions.history.audit_replay import ReplayedRecord
from auctions.history.audit_standing import StandingTurns
from auctions.history.audit_turns import DecisionOrder
from auctions.history.grants_of_events import GrantsOfEvents
from auctions.history.recorded import Rows, Source
from auctions.history.replay import UNREADABLE
from auctions.models import Event, Market
from auctions.state.seals import state_at_cut
from scheduling.model.types import Json

Progress = Callable[[int, int], object]
"""Called with the number of events that were read, and with their number in all."""


class Reader(Protocol):
    """A reader of the events, in order."""

    def take(self, event: Event) -> Iterable[str]:
        """Read the next event; return what is wrong with it."""

    def resume(self, document: Json) -> None:
        """Go on from a state that was stored."""

    def finish(self) -> Iterable[str]:
        """Return what is wrong when all events have been read."""


R = TypeVar("R", bound=Reader)


class Reading(Generic[R]):
    """One reader in a pass. After an error it reads no more events, and every check that uses it raises the error."""

    def __init__(self, make: Callable[[], R], start: Json | None) -> None:
        """Make the reader; it goes on from `start` if that is given."""
        self.problems: list[str] = []
        """Problems that it found so far."""
        self._reader: R | None = None
        self._broken_off: Exception | None = None
        try:
            self._reader = make()
            if start is not None:
                self._reader.resume(start)
        except UNREADABLE as error:
            self._broken_off = error

    def take(self, event: Event) -> None:
        """Let it read the next event."""
        if self._broken_off is not None:
            return
        try:
            self.problems += self.reader.take(event)
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

    def found_so_far(self) -> list[str]:
        """Return what it found wrong with the events; raises the error with which it broke off."""
        return self.problems if self.reader is not None else []

    def found(self) -> list[str]:
        """Return what it found wrong, once all events have been read; raises the error with which it broke off."""
        return [*self.problems, *self.reader.finish()]


class EventPass:
    """The findings of one pass over events of a market. Nothing should write to the market meanwhile.

    The events are those of `source`, or all that are not archived. `start` is the state before them as `state` returned
    it; None before the first event.
    """

    def __init__(
        self,
        market: Market,
        progress: Progress | None = None,
        *,
        source: Source | None = None,
        start: Json | None = None,
    ) -> None:
        self.market = market
        if source is None:
            source, start = Rows(market, since=market.sealed_version), state_at_cut(market)
        known: Json = start or {}
        self.grants = Reading(GrantsOfEvents, known.get("grants"))
        self.states = Reading(lambda: RecordedStates(market, lambda: self.grants.reader, source), known.get("states"))
        self.standing = Reading(lambda: StandingTurns(market), known.get("standing"))
        self.turns = Reading(lambda: DecisionOrder(market), known.get("turns"))
        self.publications = Reading(lambda: Publications(market), known.get("publications"))
        self.replay = Reading(lambda: ReplayedRecord(market, source), known.get("replay"))
        self.readings = (self.grants, self.states, self.standing, self.turns, self.publications, self.replay)
        read = market.sealed_version if start is known else 0
        for page in source.pages():
            for event in page:
                for one in self.readings:
                    one.take(event)
            read += len(page)
            if progress is not None:
                progress(read, market.version)

    def state(self, gone: Mapping[int, int], *, first_slot: int) -> Json:
        """Return the state after the last event as a document, without the bids in `gone` (numbers by key).

        Stored slots are compared from `first_slot` on afterwards. Raises the error with which a reader broke off.
        """
        keys, numbers = frozenset(gone), frozenset(gone.values())
        return {
            "grants": self.grants.reader.to_json(keys),
            "states": self.states.reader.to_json(keys),
            "standing": self.standing.reader.to_json(numbers),
            "turns": self.turns.reader.to_json(numbers),
            "publications": self.publications.reader.to_json(keys),
            "replay": self.replay.reader.to_json(keys, numbers, first_slot=first_slot),
        }
