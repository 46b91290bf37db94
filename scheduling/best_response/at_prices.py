"""Upper bounds on what any scheduler could have earned in hindsight, proved by weak duality."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np

from scheduling.best_response.base import Response
from scheduling.best_response.elastic import kernel as elastic
from scheduling.best_response.rigid import kernel as rigid
from scheduling.model.bid import Bid
from scheduling.model.ending import Ending
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats


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


class Terms(Protocol):
    """The empty cluster at fixed prices: what each bid would earn there."""

    def term(self, bid: Bid, *, first: int | None = None, end: int | None = None) -> float:
        """max(0, best payoff), money, of schedules that start in slot `first` or later and are complete by `end`."""


class AtPrices:
    """The empty cluster at prices that stay as they are: what any number of bids would earn there, one index for all.

    `best` answers the schedule of greatest payoff that starts in a given slot or later, if its payoff is above 0.
    """

    def __init__(self, best: Callable[[Bid, int | None], Response | None]) -> None:
        self._best = best

    def term(self, bid: Bid, *, first: int | None = None, end: int | None = None) -> float:
        """max(0, best payoff at the prices, ignoring what others occupy), money: one bid's term of the dual bound.

        Only schedules that start in slot `first` or later and are complete by slot `end` are looked at.
        """
        if end is not None:
            bid = replace(bid, utility=Ending(bid.utility, end - bid.arrival))
        answer = self._best(bid, first)
        return 0.0 if answer is None else answer.payoff


def rigid_terms(inventory: Inventory, prices: Floats, *, start: int, tail: int = 0) -> AtPrices:
    """The terms of bids whose machines stay the same.

    `prices` is T x S x R, money per unit and slot, none negative, for the slots from `start` on; `tail` slots are held
    beyond completion.
    """
    used, index = np.zeros(prices.shape, dtype=np.int64), rigid.RigidIndex(inventory, len(prices))

    def best(bid: Bid, first: int | None) -> Response | None:
        # Neither the empty ledger nor the prices ever change, so they are version 1 for good.
        return rigid.best_response(
            bid,
            inventory,
            start=start,
            used=used,
            prices=prices,
            first_start=first,
            tail=tail,
            index=index,
            version=1,
        )

    return AtPrices(best)


def elastic_terms(inventory: Inventory, prices: Floats, *, start: int) -> AtPrices:
    """The terms of bids whose machines may change every slot; `prices` as for `rigid_terms`."""
    used, index = np.zeros(prices.shape, dtype=np.int64), elastic.ElasticIndex(inventory, len(prices))

    def best(bid: Bid, first: int | None) -> Response | None:
        return elastic.best_response(
            bid, inventory, start=start, used=used, prices=prices, first_start=first, index=index, version=1
        )

    return AtPrices(best)


def zero_price_bound(ceilings: Iterable[float]) -> Bound:
    """Everyone at their ceiling at once: the dual bound at price 0, from the ceilings in the receipts."""
    terms = tuple(ceilings)
    return Bound(BoundKind.ZERO_PRICE, value=float(sum(terms)), bid_terms=terms, capacity_term=0.0)


def dual_bound(bids: Iterable[Bid], inventory: Inventory, *, prices: Floats, terms: Terms) -> Bound:
    """The bound that prices prove: what each bid would earn at them on the empty cluster, plus all capacity sold.

    For any prices p >= 0, welfare of any feasible set of schedules is at most
    `sum_j max(0, max_l value_j(l) - p x l) + sum p x capacity`, whatever the set: each bid earns at most its best
    payoff, and together they buy at most what there is.

    Parameters
    ----------
    bids
        Every bid submitted, admitted or not.
    prices
        T x S x R, money per unit and slot, none negative. What was in use before the first bid may be left in: the
        bound only grows.
    terms
        What each bid would earn at these prices: a policy's `at_prices`.

    Notes
    -----
    One call of the best-response kernel for each bid.
    """
    earned = tuple(terms.term(bid) for bid in bids)
    sold = float((prices * inventory.capacity).sum())
    return Bound(BoundKind.POSTED_PRICE, value=float(sum(earned)) + sold, bid_terms=earned, capacity_term=sold)
