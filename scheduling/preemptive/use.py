"""Units used by the workers that process queues, slot by slot."""

from collections.abc import Iterable

import numpy as np

from scheduling.model.schedule import CLOUD
from scheduling.model.types import Ints
from scheduling.preemptive.record import Segment

Busy = tuple[int, int, int, int, range]
"""Server, worker type, worker, how many side by side, and the slots in some part of which they are busy."""


def units_in_use(found: Iterable[Busy], demand: Ints, *, servers: int, start: int, end: int) -> Ints:
    """Return the units in use in some part of each slot of [start, end), T x servers x R.

    Parameters
    ----------
    found
        Busy periods of workers, in any order. A worker of the edge counts once a slot, whatever it does there. In the
        cloud chunks count one by one: each keeps its place until the slot in which it is complete is over.
    demand
        Units of each resource that a worker of each type takes, W x R.
    """
    used: Ints = np.zeros((end - start, servers, demand.shape[1]), dtype=np.int64)
    seen: set[tuple[int, int, int, int]] = set()
    for server, kind, worker, count, slots in found:
        for slot in range(max(start, slots.start), min(end, slots.stop)):
            if worker == CLOUD or (server, kind, worker, slot) not in seen:
                used[slot - start, server] += count * demand[kind]
                seen.add((server, kind, worker, slot))
    return used


def slots_of(segments: Iterable[Segment], ticks: int) -> Iterable[Busy]:
    """Convert segments in ticks to the slots that they touch."""
    return ((s.server, s.type, s.index, s.count, range(s.start // ticks, -(-s.end // ticks))) for s in segments)
