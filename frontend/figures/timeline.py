"""Conversion of slots to dates, for axes and text."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

MARGIN_SLOTS: Final = 3
"""Slots shown on both sides of what one job holds."""


@dataclass(frozen=True)
class TimeLine:
    """The time line of a cluster: the beginning of slot 0 and the length of a slot."""

    epoch: datetime
    slot_seconds: int

    def date(self, slot: float) -> str:
        """Return the beginning of a slot, or a time within a slot, in the format of Plotly's date axes."""
        return self.date_of_seconds(slot * self.slot_seconds)

    def date_of_seconds(self, seconds: float) -> str:
        """Return a cluster time, in whole seconds, in the format of Plotly's date axes."""
        return (self.epoch + timedelta(seconds=round(seconds))).strftime("%Y-%m-%d %H:%M:%S")

    def words(self, slot: float) -> str:
        """Return date, time and slot as text; a time within a slot is given in hundredths."""
        number = int(slot) if slot == int(slot) else round(slot, 2)
        return f"{self._begins(slot).strftime(f'%-d %b %Y {self._clock}')} (slot {number})"

    def time_words(self, slot: int) -> str:
        """Return day and time of a slot, to be used in a sentence."""
        return self._begins(slot).strftime(f"%-d %b {self._clock}")

    def milliseconds(self, slots: float) -> int:
        """Return the length of a number of slots in the unit of Plotly's date axes."""
        return round(slots * self.slot_seconds * 1000)

    @property
    def _clock(self) -> str:
        """The format of the time of day, with seconds where slots are not whole minutes."""
        return "%H:%M" if self.slot_seconds % 60 == 0 else "%H:%M:%S"

    def _begins(self, slot: float) -> datetime:
        return self.epoch + timedelta(seconds=slot * self.slot_seconds)

    @property
    def slot_words(self) -> str:
        """Return the length of a slot as text."""
        for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
            if self.slot_seconds % size == 0:
                return f"{self.slot_seconds // size} {name}"
        return f"{self.slot_seconds} s"
