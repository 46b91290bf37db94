"""Batches planned job by job, each by the rigid best response to a step utility."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from scheduling.best_response.rigid.kernel import PriceOf, best_response
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.schedule import Placement, Schedule
from scheduling.model.utility import Step


def plan_batch(
    bids: Sequence[Bid],
    ledger: Ledger,
    windows: Iterable[tuple[int, int]],
    *,
    freed: Iterable[Placement] = (),
    prices: PriceOf | None = None,
    later: int | None = None,
) -> dict[str, Schedule]:
    """As the planner promises, and A_maxweight at prices; without prices the weight does not matter.

    It ends when `later` jobs start after the first slot of the first window.
    """
    windows = list(windows)
    ledger, placed = ledger.copy(), dict[str, Schedule]()
    ledger.release(Schedule(start=0, completion=0, placements=tuple(freed)), from_slot=ledger.start)
    for first, end in windows:
        for bid in bids:
            if later is not None and sum(one.start > windows[0][0] for one in placed.values()) >= later:
                return placed
            if bid.id in placed:
                continue
            response = best_response(
                replace(bid, utility=Step(1.0 if prices is None else bid.utility.value, max(0, end - bid.arrival))),
                ledger.inventory,
                start=ledger.start,
                used=ledger.used,
                prices=np.zeros(ledger.used.shape) if prices is None else prices,
                first_start=first,
            )
            if response is not None:
                ledger.commit(response.schedule)
                placed[bid.id] = response.schedule
    return placed
