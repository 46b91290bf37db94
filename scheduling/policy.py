"""What every policy is: parameters that check themselves, and a pure function from the book to a decision."""

from dataclasses import dataclass
from typing import Protocol

from scheduling.arrays import Floats, Json
from scheduling.bid import Bid
from scheduling.decision import Decision
from scheduling.inventory import Inventory
from scheduling.ledger import Ledger


@dataclass(frozen=True)
class Book:
    """What a policy may look at when it decides. It can be rebuilt from rows at any time."""

    now: int
    """The current slot; nothing starts before it."""
    ledger: Ledger
    """Promises so far, its horizon starting at `now`. To be read, never moved, by a policy."""
    history: Floats
    """`density` of the bids decided earlier, in order, N x R (the last `HISTORY` of them at most)."""
    decided: int
    """How many bids were decided before this one, N or more."""

    @property
    def inventory(self) -> Inventory:
        """Servers, resources and machine types."""
        return self.ledger.inventory


HISTORY = 512
"""How many past bids prices may learn from."""


class Policy(Protocol):
    """A frozen dataclass of validated parameters; same inputs, same bytes out."""

    name: str

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Decide one bid against the book; nothing is changed."""

    def prices(self, book: Book) -> Floats:
        """Posted price of one unit of each resource for one slot, T x S x R, money."""

    def to_json(self) -> Json:
        """Every parameter by name, plain JSON values."""
