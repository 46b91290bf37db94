"""Slots as dates, for axes and words."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class TimeLine:
    """A cluster's time: where slot 0 begins and how long a slot is."""

    epoch: datetime
    slot_seconds: int

    def date(self, slot: float) -> str:
        """Beginning of a slot, or a time within one, as Plotly's date axes read it."""
        return self.date_of_seconds(slot * self.slot_seconds)

    def date_of_seconds(self, seconds: float) -> str:
        """An instant in cluster time, whole seconds, as Plotly's date axes read it."""
        return (self.epoch + timedelta(seconds=round(seconds))).strftime("%Y-%m-%d %H:%M:%S")

    def words(self, slot: float) -> str:
        """Date, time and slot for a reader; hundredths of a slot for a time within one."""
        return f"{self._begins(slot):%-d %b %Y %H:%M} (slot {int(slot) if slot == int(slot) else round(slot, 2)})"

    def time_words(self, slot: int) -> str:
        """Day and time of a slot in the middle of a sentence."""
        return f"{self._begins(slot):%-d %b %H:%M}"

    def milliseconds(self, slots: float) -> int:
        """Return the length of a number of slots in the unit of Plotly's date axes."""
        return round(slots * self.slot_seconds * 1000)

    def _begins(self, slot: float) -> datetime:
        return self.epoch + timedelta(seconds=slot * self.slot_seconds)

    @property
    def slot_words(self) -> str:
        """How long a slot is, for a reader."""
        for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
            if self.slot_seconds % size == 0:
                return f"{self.slot_seconds // size} {name}"
        return f"{self.slot_seconds} s"
