"""Jobs whose chunks never move, in whole slots."""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.offline.problem import OfflineProblem
from scheduling.preemptive.workers import Workers


@dataclass(frozen=True)
class QueuedJob:
    """Slots are counted from the problem's start."""

    type: int
    """Type of its workers."""
    chunks: int
    each: int
    """Slots of a chunk with communication (p0)."""
    alone: int
    """Slots of a chunk without communication, if the whole job is in the cloud (p1)."""
    arrival: int
    ready: dict[int, int]
    """First slot in which a worker of the edge has the data, by worker."""
    cloud: int | None
    """The same of the cloud; None: there is none."""

    def room(self, worker: int, by: int) -> int:
        """Chunks that one worker can do by slot `by`."""
        return min(self.chunks, max(0, by - self.ready[worker]) // self.each)

    def can(self, by: int) -> bool:
        """Whether it can be complete by slot `by`, alone."""
        if self.cloud is not None and by >= self.cloud + self.alone:
            return True
        return sum(self.room(w, by) for w in self.ready) >= self.chunks

    @property
    def earliest(self) -> int:
        """The completion alone, which may be later than the problem's end."""
        until = 1
        while not self.can(until):
            until *= 2
        return bisect_left(range(until + 1), True, key=self.can)


def queued_job(i: int, bid: Bid, problem: OfflineProblem, workers: Workers) -> QueuedJob:
    """Job i of a problem, of a workers that counts in slots.

    Raises
    ------
    InvalidField
        If it has nowhere to run, or a chunk does not take whole slots, at least one.
    """
    task = workers.task(bid)
    if task is None:
        raise InvalidField("bids", f"expected jobs that some server can host, got job {bid.id}")
    kind = task.worker
    batches = bid.epochs * bid.minibatches
    alone = batches * (bid.worker_time[kind] + bid.ps_time[workers.ps_type(bid)])
    each = alone + batches * bid.transfer_time[kind]
    # A worker does any number of chunks of no time, so there is no number that it can do by a slot.
    if each.denominator != 1 or alone.denominator != 1 or not each:
        raise InvalidField(f"bids[{i}]", f"expected chunks of whole slots, at least one, got {each} and {alone}")
    arrival, cloud = bid.arrival - problem.start, np.array(problem.inventory.cloud)
    clouds = [bid.delay[s] for s in np.flatnonzero(cloud & (workers.count[:, kind] > 0)).tolist()]
    return QueuedJob(
        type=kind,
        chunks=bid.chunks,
        each=int(each),
        alone=int(alone),
        arrival=arrival,
        ready={w: max(0, arrival + bid.delay[workers.server[w]]) for w in workers.of_type[kind].tolist()},
        cloud=max(0, arrival + min(clouds)) if clouds else None,
    )
