"""Upper bounds on what any scheduler could have earned in hindsight, proved by weak duality."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from scheduling.arrays import Floats, Json
from scheduling.bid import Bid
from scheduling.inventory import Inventory
from scheduling.rigid import RigidIndex, best_response
from scheduling.utility import Utility


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


class AtPrices:
    """The empty cluster at prices that stay as they are: what any number of bids would earn there, one index for all.

    `prices` is T x S x R, money per unit and slot, none negative, for the slots from `start` on.
    """

    def __init__(self, inventory: Inventory, prices: Floats, *, start: int, tail: int = 0) -> None:
        self._inventory, self._prices, self._start, self._tail = inventory, prices, start, tail
        self._used = np.zeros(prices.shape, dtype=np.int64)
        self._index = RigidIndex(inventory, len(prices))

    def term(self, bid: Bid, *, first: int | None = None, end: int | None = None) -> float:
        """max(0, best payoff at the prices, ignoring what others occupy), money: one bid's term of the dual bound.

        Only schedules that start in slot `first` or later and are complete by slot `end` are looked at.
        """
        if end is not None:
            bid = replace(bid, utility=_Until(bid.utility, end - bid.arrival))
        response = best_response(
            bid,
            self._inventory,
            start=self._start,
            used=self._used,
            prices=self._prices,
            first_start=first,
            tail=self._tail,
            index=self._index,
            version=1,  # neither the empty ledger nor the prices ever change
        )
        return 0.0 if response is None else response.payoff


def ceiling(bid: Bid, inventory: Inventory, *, start: int, end: int, tail: int = 0) -> float:
    """The most a bid can be worth on the empty cluster in slots [start, end), money; 0 if it cannot complete there."""
    prices = np.zeros((end - start, *inventory.capacity.shape))
    return bid_term(bid, inventory, prices=prices, start=start, tail=tail)


def bid_term(bid: Bid, inventory: Inventory, *, prices: Floats, start: int, tail: int = 0) -> float:
    """max(0, best payoff at `prices`, ignoring what others occupy): one bid's term of the dual bound, money.

    `prices` is T x S x R, money per unit and slot, for the slots from `start` on.
    """
    return AtPrices(inventory, prices, start=start, tail=tail).term(bid)


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
    market = AtPrices(inventory, prices, start=start, tail=tail)
    terms = tuple(market.term(bid) for bid in bids)
    sold = float((prices * inventory.capacity).sum())
    return Bound(BoundKind.POSTED_PRICE, value=float(sum(terms)) + sold, bid_terms=terms, capacity_term=sold)


@dataclass(frozen=True)
class _Until:
    """A utility that is worth nothing once more than `last` slots have gone by."""

    whole: Utility
    last: int

    @property
    def value(self) -> float:
        return self.whole.value

    def at(self, elapsed: int) -> float:
        return self.whole.at(elapsed) if elapsed <= self.last else 0.0

    def curve(self, slots: int) -> Floats:
        worth = self.whole.curve(slots)
        worth[max(0, self.last + 1) :] = 0.0
        return worth

    def scaled(self, factor: float) -> "_Until":
        return _Until(self.whole.scaled(factor), self.last)

    def to_json(self) -> Json:
        return self.whole.to_json()
