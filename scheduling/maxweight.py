"""A_maxweight: place jobs one by one, each at its least cost by a deadline (weighted completion, Algorithm 3)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduling.bid import Bid
from scheduling.ledger import Ledger
from scheduling.rigid import PriceOf, RigidMarket
from scheduling.schedule import Schedule
from scheduling.utility import Step

Windows = Iterable[tuple[int, int]]
"""First slot and latest completion of each call, in order."""


def pack(bids: Sequence[Bid], ledger: Ledger, prices: PriceOf, windows: Windows) -> dict[str, Schedule]:
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
        left = [bid for bid in bids if bid.id not in placed]
        if not left:
            break
        for bid in left:
            response = market.best(due(bid, end), first_start=first)
            if response is not None:
                ledger.commit(response.schedule)
                placed[bid.id] = response.schedule
    return placed


def due(bid: Bid, end: int) -> Bid:
    """The bid as A_maxweight sees it: its weight if it is complete by slot `end`, else nothing."""
    return replace(bid, utility=Step(bid.utility.value, max(0, end - bid.arrival)))
