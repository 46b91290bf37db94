"""A utility that is cut off after a deadline."""

from dataclasses import dataclass

from scheduling.model.types import Floats, Json
from scheduling.model.utility import Utility


@dataclass(frozen=True)
class Ending:
    """A utility that is 0 when more than `last` slots have elapsed, and otherwise equals `whole`."""

    whole: Utility
    last: int

    @property
    def value(self) -> float:
        """The amplitude, money."""
        return self.whole.value

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""
        return self.whole.at(elapsed) if elapsed <= self.last else 0.0

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1."""
        values = self.whole.curve(slots)
        values[max(0, self.last + 1) :] = 0.0
        return values

    def scaled(self, factor: float) -> "Ending":
        """Return the same shape with the amplitude times `factor`."""
        return Ending(self.whole.scaled(factor), self.last)

    def to_json(self) -> Json:
        """Return the document of the utility without the cut-off."""
        return self.whole.to_json()
