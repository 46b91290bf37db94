"""What a best-response kernel answers."""

from dataclasses import dataclass

from scheduling.model.schedule import Schedule


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
