"""DPS: dynamic pricing and scheduling in edge-cloud networks."""

from dataclasses import dataclass

from scheduling.arrays import Floats, Json
from scheduling.bid import Bid
from scheduling.decision import Decision
from scheduling.policy import Book


@dataclass(frozen=True)
class Dps:
    """Posted prices, exponential in utilisation, and the rigid best response (DPS, Algorithm 1)."""

    name = "dps"

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Decide one bid against the book."""
        raise NotImplementedError

    def prices(self, book: Book) -> Floats:
        """Posted prices, T x S x R."""
        raise NotImplementedError

    def to_json(self) -> Json:
        """Every parameter by name."""
        raise NotImplementedError
