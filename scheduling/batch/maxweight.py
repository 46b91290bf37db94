"""A_maxweight: place jobs one by one, each at its least cost by a deadline (weighted completion, Algorithm 3)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduling.batch.consumption import ConsumptionPrice
from scheduling.batch.planner import plan_batch, plan_idle
from scheduling.best_response.rigid.kernel import RigidKernel
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.schedule import Placement, Schedule
from scheduling.model.utility import Step

Windows = Iterable[tuple[int, int]]
"""First slot and latest completion of each call, in order."""


def pack(
    bids: Sequence[Bid],
    ledger: Ledger,
    prices: ConsumptionPrice,
    windows: Windows,
    *,
    freed: Sequence[Placement] = (),
) -> dict[str, Schedule]:
    """Run A_maxweight in window after window, each with the jobs that the windows before left over (A_dual).

    Parameters
    ----------
    bids
        In the order in which they may choose.
    ledger
        What others hold. It is not moved.
    prices
        A job is placed only if its weight is more than its cost at these; at no price each is complete as early as
        it can be.
    windows
        No window begins before an earlier one.
    freed
        What is in the ledger but counts as free.

    Returns
    -------
    dict
        Schedules by the bid's id, of those that were placed.
    """
    if prices.free:
        return plan_batch(bids, ledger, windows, freed=freed) if bids else {}
    ledger = ledger.without(freed)
    placed: dict[str, Schedule] = {}
    market = RigidKernel(ledger, prices)
    for first, end in windows:
        for bid in bids:
            if bid.id in placed:
                continue
            schedule = _least_cost(bid, market, first=first, end=end)
            if schedule is not None:
                ledger.commit(schedule)
                placed[bid.id] = schedule
        if len(placed) == len(bids):
            break
    return placed


def _least_cost(bid: Bid, market: RigidKernel, *, first: int, end: int) -> Schedule | None:
    """The job's schedule of least cost, if its weight is more (A_mincost).

    Two questions that are quick to answer come first: does it fit what is idle, at no cost, and does it fit at all?
    """
    idle = plan_idle(bid, market.ledger, first=first, end=end)
    if idle is not None or not plan_batch([bid], market.ledger, [(first, end)]):
        return idle
    response = market.best(_due(bid, end), first_start=first)
    return None if response is None else response.schedule


def _due(bid: Bid, end: int) -> Bid:
    """The bid as A_mincost sees it: its weight if it is complete by slot `end`, else nothing."""
    return replace(bid, utility=Step(bid.utility.value, max(0, end - bid.arrival)))
