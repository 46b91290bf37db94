"""What every kernel is asked, and what it answers."""

from dataclasses import dataclass
from typing import Protocol

from scheduling.model.bid import Bid
from scheduling.model.schedule import Schedule
from scheduling.model.types import Floats, Ints


class PriceOf(Protocol):
    """Prices as a function of what is used: only servers that changed are priced again."""

    def of(self, used: Ints, capacity: Ints) -> Floats:
        """Price of one unit for one slot, the shape of `used`."""


@dataclass(frozen=True)
class Response:
    """A schedule with what it is worth and what it costs at the posted prices, money."""

    schedule: Schedule
    value: float
    cost: float

    @property
    def payoff(self) -> float:
        """value - cost."""
        return self.value - self.cost


class Kernel(Protocol):
    """Best responses against one ledger at its posted prices."""

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Response | None:
        """The schedule of greatest payoff, if that is more than `above`, that starts in slot `first_start` or later."""

    def min_cost_per_value(self, bid: Bid) -> Response | None:
        """The schedule of least cost for its worth, among those worth anything."""

    def latest(self, bid: Bid) -> Response | None:
        """The schedule of positive payoff that starts last."""
