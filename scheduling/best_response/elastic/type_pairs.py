"""The pairs of machine types with which an elastic job can be done, and the worker-slots that each needs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType


@dataclass(frozen=True)
class TypePair:
    """One worker type with one PS type."""

    worker_type: int
    ps_type: int
    worker: MachineType
    ps: MachineType
    step: Fraction
    """Slots in which a worker does one mini-batch: tau + 2 e / b."""
    worker_slots: int
    """Slots x workers in all, constraint (2): ceil(E N M (tau + 2 e / b)), at least 1."""

    def pss(self, workers: int) -> int:
        """Return the number of parameter servers for the bandwidth of the workers, constraint (6), exact."""
        return math.ceil(workers * self.worker.bandwidth_mbps / self.ps.bandwidth_mbps)


def fits(work: int, time: Fraction, most: int) -> bool:
    """Return whether mini-batches of a time, in slots, can be done in `most` worker-slots.

    Whole numbers are faster than fractions: an instance may have hundreds of types, of which a job uses one.
    """
    return work * time.numerator <= most * time.denominator


def type_pairs(bid: Bid, inventory: Inventory, *, slots: int) -> Iterator[TypePair]:
    """Yield the pairs of types with which the job fits `slots` slots at N workers, whatever servers there are.

    A pair whose workers have more bandwidth than its PSs cannot satisfy constraints (6) and (7) together.

    Examples
    --------
    >>> from scheduling.model.example import INVENTORY, job
    >>> [pair.worker_slots for pair in type_pairs(job(), INVENTORY, slots=8)]
    [4]
    """
    work, most = bid.work, bid.chunks * slots
    pss = [
        (p, ps, time)
        for p, (ps, time) in enumerate(zip(inventory.parameter_servers, bid.ps_time, strict=True))
        if fits(work, time, most)
    ]
    for w, (worker, time) in enumerate(zip(inventory.workers, bid.worker_time, strict=True)):
        if not fits(work, time, most):
            continue
        for p, ps, update in pss:
            step = time + update + bid.transfer_time[w]
            if fits(work, step, most) and worker.bandwidth_mbps <= ps.bandwidth_mbps:
                yield TypePair(w, p, worker, ps, step, max(1, math.ceil(work * step)))
