"""The dual bound at given prices, written as its formula."""

from collections.abc import Iterable

from scheduling.best_response.dual_bound import Terms
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats


def dual_bound(bids: Iterable[Bid], inventory: Inventory, *, prices: Floats, terms: Terms) -> float:
    """An upper bound on welfare, money: the payoff of each bid at these prices, and the price of all capacity.

    `prices` are T x S x R, money per unit and slot; `terms` are a policy's `at_prices` at these prices.
    """
    return sum(terms.term(bid) for bid in bids) + float((prices * inventory.capacity).sum())
