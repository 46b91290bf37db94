"""Gangs of as many workers as a job can use: what SRTF and Tiresias-L run, all or nothing."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from scheduling.baselines.baseline import Baseline
from scheduling.baselines.floor import Floor, Task
from scheduling.baselines.gang import Gang, find_place, ideal_gang
from scheduling.baselines.room import Room
from scheduling.bid import Bid
from scheduling.policy import Cause


def whole_gang(bid: Bid, floor: Floor) -> Gang | None:
    """g = min(D, workers of the job's ideal type on all servers).

    g is halved (rounded down) while so many could not complete the job there within the horizon; None if one cannot.
    """
    gang = ideal_gang(bid, floor.inventory, 1)
    if gang is None:
        return None
    demand = floor.inventory.worker_demand[gang.worker]
    asked = demand > 0
    qualified = int((floor.inventory.capacity[:, asked] // demand[asked]).min(axis=1).sum())
    empty = Room(floor.inventory, now=0, slots=floor.slots)
    everywhere = np.ones(len(floor.inventory.servers), dtype=np.bool_)
    count = min(bid.chunks, qualified)
    while count and find_place(replace(gang, count=count), empty, Fraction(bid.work), usable=everywhere) is None:
        count //= 2
    return replace(gang, count=count) if count else None


class WholeGangs(Baseline):
    """A baseline that orders jobs by a key and runs the first, in gangs of all the workers they can use."""

    def key(self, task: Task, gang: Gang, floor: Floor) -> tuple[Fraction, ...]:
        """The least is first; equals in order of arrival."""
        raise NotImplementedError

    def arrange(self, floor: Floor, cause: Cause | None) -> None:
        """Start jobs in order of key, in place of those with a greater one; none is stopped as only a slot passed."""
        tasks = [task for task in floor.waiting if _uploads(task)] if cause is Cause.SLOT else floor.in_order
        rows = ((task, whole_gang(task.job.bid, floor)) for task in tasks)
        keyed = [(self.key(task, gang, floor), task, gang) for task, gang in rows if gang is not None]
        ranked = sorted(keyed, key=lambda row: row[0])
        for place, (key, task, gang) in enumerate(ranked):
            if task.running:
                continue
            worse = (other for rank, other, _ in reversed(ranked[place + 1 :]) if rank > key and other.running)
            victims: Iterable[Task] = () if cause is Cause.SLOT else worse
            floor.start_instead(task, gang, victims)

    def can_run(self, bid: Bid, floor: Floor) -> bool:
        """Whether its gang could complete the job on the empty cluster."""
        return whole_gang(bid, floor) is not None


def _uploads(task: Task) -> bool:
    """Whether a server may have become usable to it now: else nothing has changed for it since the last event."""
    return task.now <= task.job.bid.arrival + max(task.job.bid.delay, default=0)
