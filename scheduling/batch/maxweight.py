"""A_maxweight: place jobs one by one, each at its least cost by a deadline (weighted completion, Algorithm 3)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduling.batch.consumption import ConsumptionPrice
from scheduling.batch.planner import Search, plan_batch, plan_idle
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
    only: str | None = None,
    later: int | None = None,
    search: Search | None = None,
) -> dict[str, Schedule]:
    """Run A_maxweight in each window in turn, with the jobs that earlier windows did not place (A_dual).

    Parameters
    ----------
    bids
        Bids in the order in which they are placed.
    ledger
        Reservations of other jobs. It is not changed.
    prices
        A job is placed only if its weight exceeds its cost at these prices; at price 0 each job gets its earliest
        completion.
    windows
        First slots of windows never decrease.
    freed
        Placements in the ledger that count as free.
    only
        At price 0, the id of the one bid whose schedule is wanted; other schedules may be left out.
    later
        Largest number of placed jobs that start after the first slot of the first window; then, at price 0, only jobs
        that start in that slot are placed. None: no limit.
    search
        At price 0, improve the plan by local search.

    Returns
    -------
    dict
        Schedules of the placed bids, by bid id.
    """
    if prices.free:
        return plan_batch(bids, ledger, windows, freed=freed, only=only, later=later, search=search) if bids else {}
    ledger = ledger.without(freed)
    placed: dict[str, Schedule] = {}
    market = RigidKernel(ledger, prices)
    now: int | None = None
    for first, end in windows:
        now = first if now is None else now
        for bid in bids:
            if bid.id in placed:
                continue
            if later is not None and sum(schedule.start > now for schedule in placed.values()) >= later:
                return placed
            schedule = _least_cost(bid, market, first=first, end=end)
            if schedule is not None:
                ledger.commit(schedule)
                placed[bid.id] = schedule
        if len(placed) == len(bids):
            break
    return placed


def _least_cost(bid: Bid, market: RigidKernel, *, first: int, end: int) -> Schedule | None:
    """Return the job's schedule of least cost if its weight exceeds the cost (A_mincost).

    Two cheap checks come first: whether the job fits on idle resources at no cost, and whether it fits at all.
    """
    idle = plan_idle(bid, market.ledger, first=first, end=end)
    if idle is not None or not plan_batch([bid], market.ledger, [(first, end)]):
        return idle
    response = market.best(_due(bid, end), first_start=first)
    return None if response is None else response.schedule


def _due(bid: Bid, end: int) -> Bid:
    """Return the bid as A_mincost uses it: its weight if it is complete by slot `end`, else 0."""
    return replace(bid, utility=Step(bid.utility.value, max(0, end - bid.arrival)))
