"""Payoffs of bids on the empty cluster at fixed prices: the terms of the dual bound on the welfare of any scheduler.

For any prices p >= 0, welfare of any feasible set of schedules is at most
`sum_j max(0, max_l value_j(l) - p x l) + sum p x capacity`, because each bid earns at most its best payoff, and
together they buy at most the capacity (weak duality). The live certificate (`auctions.readings.certificates`) sums
these terms at the posted prices; `scheduling.offline` finds better prices in hindsight.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from scheduling.best_response.base import Response
from scheduling.best_response.elastic import kernel as elastic
from scheduling.best_response.rigid import kernel as rigid
from scheduling.model.bid import Bid
from scheduling.model.ending import Ending
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats


class Terms(Protocol):
    """Payoffs of bids on the empty cluster at fixed prices."""

    def term(self, bid: Bid, *, first: int | None = None, end: int | None = None) -> float:
        """Return max(0, best payoff), money, over schedules that start in slot `first` or later and are complete by
        `end`."""


class AtPrices:
    """Payoffs of any number of bids on the empty cluster at fixed prices, with one shared index.

    `best` returns the schedule of greatest payoff that starts in a given slot or later, if its payoff is above 0.
    """

    def __init__(self, best: Callable[[Bid, int | None], Response | None]) -> None:
        self._best = best

    def term(self, bid: Bid, *, first: int | None = None, end: int | None = None) -> float:
        """Return max(0, best payoff at the prices on the empty cluster), money: one bid's term of the dual bound.

        Only schedules that start in slot `first` or later and are complete by slot `end` count.
        """
        if end is not None:
            bid = replace(bid, utility=Ending(bid.utility, end - bid.arrival))
        answer = self._best(bid, first)
        return 0.0 if answer is None else answer.payoff


def rigid_terms(inventory: Inventory, prices: Floats, *, start: int, tail: int = 0) -> AtPrices:
    """Return the terms of bids whose machines stay the same.

    Parameters
    ----------
    inventory
        Servers and machine types; all of them are free.
    prices
        Money per unit and slot, T x S x R, none negative, for the slots from `start` on.
    start
        First slot of the prices.
    tail
        Slots that machines are held after completion.

    Examples
    --------
    >>> import numpy as np
    >>> from scheduling.model.example import INVENTORY, job
    >>> terms = rigid_terms(INVENTORY, np.ones((4, 2, 2)), start=0)
    >>> terms.term(job()), terms.term(job(), first=1)
    (2.0, 1.0)
    """
    used, index = np.zeros(prices.shape, dtype=np.int64), rigid.RigidIndex(inventory, len(prices))

    def best(bid: Bid, first: int | None) -> Response | None:
        # The empty ledger and the prices never change, so the version stays 1.
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
    """Return the terms of bids whose machines may change every slot; `prices` as for `rigid_terms`."""
    used, index = np.zeros(prices.shape, dtype=np.int64), elastic.ElasticIndex(inventory, len(prices))

    def best(bid: Bid, first: int | None) -> Response | None:
        return elastic.best_response(
            bid, inventory, start=start, used=used, prices=prices, first_start=first, index=index, version=1
        )

    return AtPrices(best)
