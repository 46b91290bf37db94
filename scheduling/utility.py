"""What finishing a job is worth, as a function of the slots between its arrival and its completion."""

from typing import Protocol

from scheduling.arrays import Floats, Json


class Utility(Protocol):
    """A non-negative, non-increasing function of elapsed slots, proportional to its amplitude `value`."""

    @property
    def value(self) -> float:
        """The amplitude: money."""

    def at(self, elapsed: int) -> float:
        """Worth of completion `elapsed` slots after arrival, money."""

    def curve(self, slots: int) -> Floats:
        """Worth at elapsed 0, 1, ..., slots - 1."""

    def scaled(self, factor: float) -> "Utility":
        """The same shape with the amplitude times `factor`."""

    def to_json(self) -> Json:
        """A document that `utility_from_json` reads back."""


def utility_from_json(document: Json, where: str = "utility") -> Utility:
    """Read a utility; raises InvalidField naming `where.<field>` when a field is missing or out of range."""
    raise NotImplementedError
