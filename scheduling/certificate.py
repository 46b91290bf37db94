"""Upper bounds on what any scheduler could have earned in hindsight, proved by weak duality."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from scheduling.arrays import Floats
from scheduling.bid import Bid
from scheduling.inventory import Inventory
from scheduling.rigid import best_response


class BoundKind(StrEnum):
    """How a bound was proved."""

    ZERO_PRICE = "zero_price"
    """Every bid alone on the empty cluster."""
    POSTED_PRICE = "posted_price"
    """Weak duality at given prices."""


@dataclass(frozen=True)
class Bound:
    """An upper bound on welfare, money: `value` = sum of `bid_terms` + `capacity_term`."""

    kind: BoundKind
    value: float
    bid_terms: tuple[float, ...]
    capacity_term: float


def ceiling(bid: Bid, inventory: Inventory, *, start: int, end: int, tail: int = 0) -> float:
    """The most a bid can be worth on the empty cluster in slots [start, end), money; 0 if it cannot complete there."""
    prices = np.zeros((end - start, *inventory.capacity.shape))
    return bid_term(bid, inventory, prices=prices, start=start, tail=tail)


def bid_term(bid: Bid, inventory: Inventory, *, prices: Floats, start: int, tail: int = 0) -> float:
    """max(0, best payoff at `prices`, ignoring what others occupy): one bid's term of the dual bound, money.

    `prices` is T x S x R, money per unit and slot, for the slots from `start` on.
    """
    used = np.zeros(prices.shape, dtype=np.int64)
    response = best_response(bid, inventory, start=start, used=used, prices=prices, tail=tail)
    return 0.0 if response is None else response.payoff


def zero_price_bound(ceilings: Iterable[float]) -> Bound:
    """Everyone at their ceiling at once: the dual bound at price 0, from the ceilings in the receipts."""
    terms = tuple(ceilings)
    return Bound(BoundKind.ZERO_PRICE, value=float(sum(terms)), bid_terms=terms, capacity_term=0.0)


def dual_bound(bids: Iterable[Bid], inventory: Inventory, *, prices: Floats, start: int, tail: int = 0) -> Bound:
    """The bound that prices prove: what each bid would earn at them on the empty cluster, plus all capacity sold.

    For any prices p >= 0, welfare of any feasible set of schedules is at most
    `sum_j max(0, max_l value_j(l) - p x l) + sum p x capacity`, whatever the set: each bid earns at most its best
    payoff, and together they buy at most what there is.

    Parameters
    ----------
    bids
        Every bid submitted, admitted or not.
    prices
        T x S x R, money per unit and slot, none negative, for the slots from `start` on. What was in use before the
        first bid may be left in: the bound only grows.
    start
        The first slot.
    tail
        Slots held beyond completion.

    Notes
    -----
    One call of the best-response kernel for each bid.
    """
    terms = tuple(bid_term(bid, inventory, prices=prices, start=start, tail=tail) for bid in bids)
    sold = float((prices * inventory.capacity).sum())
    return Bound(BoundKind.POSTED_PRICE, value=float(sum(terms)) + sold, bid_terms=terms, capacity_term=sold)
