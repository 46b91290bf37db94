"""An end to what finishing is worth, whatever its shape."""

from dataclasses import dataclass

from scheduling.model.types import Floats, Json
from scheduling.model.utility import Utility


@dataclass(frozen=True)
class Ending:
    """A utility that is worth nothing once more than `last` slots have gone by."""

    whole: Utility
    last: int

    @property
    def value(self) -> float:
        """The amplitude, money."""
        return self.whole.value

    def at(self, elapsed: int) -> float:
        """Worth of completion `elapsed` slots after arrival, money."""
        return self.whole.at(elapsed) if elapsed <= self.last else 0.0

    def curve(self, slots: int) -> Floats:
        """Worth at elapsed 0, 1, ..., slots - 1."""
        worth = self.whole.curve(slots)
        worth[max(0, self.last + 1) :] = 0.0
        return worth

    def scaled(self, factor: float) -> "Ending":
        """The same shape with the amplitude times `factor`."""
        return Ending(self.whole.scaled(factor), self.last)

    def to_json(self) -> Json:
        """The document of the whole utility."""
        return self.whole.to_json()
