"""What no policy can exceed on a workload: one bound for all of them."""

import math

from scheduling.arrays import Json
from scheduling.bid import Bid
from studies.replays.replay import Progress
from studies.workloads.workload import Workload


def bound_of(workload: Workload, progress: Progress) -> Json:
    """An upper bound on welfare that holds for every policy: `kind`, `value`, and `gap` where one is known."""
    bids = workload.jobs.bids
    value = 0.0
    for number, bid in enumerate(bids, 1):
        value += ceiling(bid)
        progress(number, len(bids))
    return {"kind": "ceilings", "value": value, "gap": None}


def ceiling(bid: Bid) -> float:
    """Worth of the bid if all its workers were of its fastest type, began at once and never waited for gradients."""
    slots = bid.epochs * bid.minibatches * min(bid.worker_time)
    return bid.utility.at(max(1, math.ceil(slots)))
