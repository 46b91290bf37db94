"""Value, payment and refund of a bid, by its state: one function for REST, pages and the admin."""

from dataclasses import dataclass

from auctions.domain.totals import VALUE_KEPT
from auctions.models import Bid


@dataclass(frozen=True)
class Money:
    """Value, payment and refund of an admitted bid, money."""

    value: float
    """Value of its completion; 0 for a job that was cancelled or failed."""
    paid: float
    refund: float

    @property
    def payoff(self) -> float:
        """Value less payment plus refund."""
        return self.value - self.paid + self.refund


def money_of(bid: Bid) -> Money | None:
    """Return the money of a bid; None if it was not admitted."""
    if bid.value is None or bid.payment is None:
        return None
    kept = bid.state in VALUE_KEPT
    return Money(value=bid.value if kept else 0.0, paid=bid.payment, refund=bid.refund)
