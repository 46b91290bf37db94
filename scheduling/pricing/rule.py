"""The interface of price rules."""

from typing import Protocol

from scheduling.book.state import Book
from scheduling.pricing.price_function import PriceFunction


class PriceRule(Protocol):
    """Turn a book into posted prices.

    The rule chooses the parameters of the price function, from given numbers or from bids that were decided earlier;
    the function then computes a price from the units in use. Implementations: `QuantileRule`, `FluidRule`,
    `DpsPaperRule` and `OasisPaperRule`.
    """

    def price_function(self, book: Book) -> PriceFunction:
        """Return the price function for the next bid.

        Equal books give equal functions. The bid being decided is not in the book, so no bid moves the prices that it
        pays itself.
        """
