"""A_maxweight: place jobs one by one, each at its least cost by a deadline (weighted completion, Algorithm 3)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduling.bid import Bid
from scheduling.consumption import ConsumptionPrice
from scheduling.ledger import Ledger
from scheduling.response import Response
from scheduling.rigid import RigidMarket
from scheduling.schedule import Schedule
from scheduling.utility import Linear, Step

Windows = Iterable[tuple[int, int]]
"""First slot and latest completion of each call, in order."""


def pack(bids: Sequence[Bid], ledger: Ledger, prices: ConsumptionPrice, windows: Windows) -> dict[str, Schedule]:
    """Run A_maxweight in window after window, each with the jobs that the windows before left over (A_dual).

    Parameters
    ----------
    bids
        In the order in which they may choose.
    ledger
        What others hold; what is placed is committed to it.
    prices
        A job is placed only if its weight is more than its cost at these.

    Returns
    -------
    dict
        Schedules by the bid's id, of those that were placed.
    """
    placed: dict[str, Schedule] = {}
    market = RigidMarket(ledger, prices)
    for first, end in windows:
        for bid in bids:
            if bid.id in placed:
                continue
            response = least_cost(bid, market, prices, first=first, end=end)
            if response is not None:
                ledger.commit(response.schedule)
                placed[bid.id] = response.schedule
        if len(placed) == len(bids):
            break
    return placed


def least_cost(bid: Bid, market: RigidMarket, prices: ConsumptionPrice, *, first: int, end: int) -> Response | None:
    """The schedule of least cost from slot `first` on, complete by `end`, if the weight is more (A_mincost).

    Where nothing costs anything all schedules tie and the one complete first is taken. That one is asked for outright,
    so that the search can stop at it.
    """
    last = max(0, end - bid.arrival)
    weight = Linear(last + 1.0, 1.0) if prices.free else Step(bid.utility.value, last)
    return market.best(replace(bid, utility=weight), first_start=first)
