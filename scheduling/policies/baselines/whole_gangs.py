"""Gangs of as many workers as a job can use, run all or nothing by SRTF and Tiresias-L."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from scheduling.model.bid import Bid
from scheduling.policies.baselines.capacity import FreeCapacity
from scheduling.policies.baselines.gang import Gang, find_place, ideal_gang
from scheduling.policies.baselines.ordering import InTurn
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.priority import Key, Priority


def whole_gang(bid: Bid, floor: PassState) -> Gang | None:
    """Return a gang of g = min(D, workers of the job's ideal type on all servers) workers.

    g is halved (rounded down) while g workers could not complete the job there within the horizon; None if one cannot.
    """
    return floor.memory.gang(bid, "whole", lambda: _whole_gang(bid, floor))


def _whole_gang(bid: Bid, floor: PassState) -> Gang | None:
    gang = ideal_gang(bid, floor.inventory, 1)
    if gang is None:
        return None
    qualified = floor.inventory.worker_room[gang.worker]
    empty = FreeCapacity(floor.inventory, now=0, slots=floor.slots)
    everywhere = np.ones(len(floor.inventory.servers), dtype=np.bool_)
    count = min(bid.chunks, qualified)
    while count and find_place(replace(gang, count=count), empty, Fraction(bid.work), usable=everywhere) is None:
        count //= 2
    return replace(gang, count=count) if count else None


class WholeGangs(InTurn):
    """A baseline that orders jobs by a key and runs the first, in gangs of all the workers they can use."""

    def key(self, task: PassJob, gang: Gang, floor: PassState) -> Key:
        """Return the key: the least is first, equals in order of arrival. It depends only on the work done before
        now."""
        raise NotImplementedError

    def rank_of(self, task: PassJob, floor: PassState) -> Priority | None:
        """Return the key and the whole gang."""
        gang = whole_gang(task.job.bid, floor)
        return None if gang is None else Priority(self.key(task, gang, floor), gang)

    def can_run(self, bid: Bid, floor: PassState) -> bool:
        """Whether the job's whole gang could complete it on the empty cluster."""
        return whole_gang(bid, floor) is not None
