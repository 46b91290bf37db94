"""Gangs of as many workers as a job can use: what SRTF and Tiresias-L run, all or nothing."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from scheduling.baselines.baseline import Baseline
from scheduling.baselines.floor import Floor
from scheduling.baselines.gang import Gang, find_place, ideal_gang
from scheduling.baselines.memory import Known
from scheduling.baselines.preempting import in_order_of_rank, newcomer_settles, preempt_in_order, start_in_order
from scheduling.baselines.rank import Key, Rank
from scheduling.baselines.room import Room
from scheduling.baselines.task import Task
from scheduling.bid import Bid
from scheduling.policy import Cause


def whole_gang(bid: Bid, floor: Floor) -> Gang | None:
    """g = min(D, workers of the job's ideal type on all servers).

    g is halved (rounded down) while so many could not complete the job there within the horizon; None if one cannot.
    """
    kept = floor.memory.whole.get(bid.id)
    if kept is None or kept[0] is not bid:
        kept = floor.memory.whole[bid.id] = bid, _whole_gang(bid, floor)
    return kept[1]


def _whole_gang(bid: Bid, floor: Floor) -> Gang | None:
    gang = ideal_gang(bid, floor.inventory, 1)
    if gang is None:
        return None
    qualified = floor.inventory.worker_room[gang.worker]
    empty = Room(floor.inventory, now=0, slots=floor.slots)
    everywhere = np.ones(len(floor.inventory.servers), dtype=np.bool_)
    count = min(bid.chunks, qualified)
    while count and find_place(replace(gang, count=count), empty, Fraction(bid.work), usable=everywhere) is None:
        count //= 2
    return replace(gang, count=count) if count else None


class WholeGangs(Baseline):
    """A baseline that orders jobs by a key and runs the first, in gangs of all the workers they can use."""

    falling = False
    """Whether keys of jobs that run only fall."""

    def key(self, task: Task, gang: Gang, floor: Floor) -> Key:
        """The least is first; equals in order of arrival. It follows from what the job did before now."""
        raise NotImplementedError

    def arrange(self, floor: Floor, cause: Cause | None) -> None:
        """Start jobs in order of key, in place of those with a greater one; none is stopped as only a slot passed."""
        if cause is None and self.falling and newcomer_settles(floor, self, lambda task: self._rank(task, floor)):
            return
        if cause is Cause.SLOT:
            tasks = (task for task in floor.may_start(cause) if _uploads(task.known, floor.now))
            ranked = in_order_of_rank(tasks, lambda task: self._rank(task, floor))
            start_in_order(floor, ranked, preempt=False)
        else:
            preempt_in_order(floor, self, lambda task: self._rank(task, floor))

    def _rank(self, task: Task, floor: Floor) -> Rank | None:
        return task.known.rank(self, floor.now, lambda: self._rank_of(task, floor))

    def _rank_of(self, task: Task, floor: Floor) -> Rank | None:
        gang = whole_gang(task.job.bid, floor)
        return None if gang is None else Rank(self.key(task, gang, floor), gang)

    def can_run(self, bid: Bid, floor: Floor) -> bool:
        """Whether its gang could complete the job on the empty cluster."""
        return whole_gang(bid, floor) is not None


def _uploads(known: Known, now: int) -> bool:
    """Whether a server may have become usable to it now: else nothing has changed for it since the last event."""
    return now <= known.uploaded
