"""Modes of a job: use of one pair of machine types, together on one server or spread.

In any slot a divided job shares its time among modes. That is a relaxation of every schedule in which a job holds
machines of one worker type and one PS type at a time, at most one worker for each chunk: what it holds in a slot, and
what it gets done, is a mean over the moments of the slot, each of which lies below the line from nothing to full use
of a mode.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints
from scheduling.preemptive.workers import machines

EVER = 10**9
"""Slots."""
NO_TIME = 1e6
"""Speed of a job whose mini-batches take no time."""


@dataclass(frozen=True)
class Mode:
    """Full use of some machines."""

    speed: float
    """Share of the job's work that is done in a slot."""
    use: tuple[float, ...]
    """Use of each of the G things that have prices."""
    delay: int
    """Slots from arrival to the first."""


class Rooms:
    """Machines that each empty server has room for, types looked at one by one; and what machines take."""

    def __init__(self, inventory: Inventory, *, worker_use: Ints, ps_use: Ints) -> None:
        self.inventory = inventory
        self.worker = machines(inventory.capacity, inventory.worker_demand)
        """Workers of each type, S x W."""
        self.ps = machines(inventory.capacity, inventory.ps_demand)
        """Parameter servers of each type, S x P."""
        self.worker_use = worker_use
        """Use of one worker of each type, W x G."""
        self.ps_use = ps_use
        """Use of one parameter server of each type, P x G."""
        self.cloud = np.array(inventory.cloud, dtype=np.bool_)


def best_modes(modes: Iterable[Mode]) -> list[Mode]:
    """Those of which no other is always as good: a part of it that does as much takes no more, and begins no later."""
    ordered = sorted(modes, key=lambda m: (-m.speed, m.use, m.delay))
    speed, delay = np.array([mode.speed for mode in ordered]), np.array([mode.delay for mode in ordered])
    use = np.array([mode.use for mode in ordered])
    kept = 0
    for i, mode in enumerate(ordered):
        # Those kept are the first of all lists, and all are as fast or faster.
        part = np.where(speed[:kept] == speed[i], 1.0, speed[i] / speed[:kept])
        as_good = (part[:, None] * use[:kept] <= use[i]).all(axis=1) & (delay[:kept] <= delay[i])
        if not as_good.any():
            ordered[kept], speed[kept], delay[kept], use[kept] = mode, speed[i], delay[i], use[i]
            kept += 1
    return ordered[:kept]


def list_modes(bid: Bid, rooms: Rooms, *, slots: int = EVER, rigid: bool = False) -> list[Mode]:
    """Return the modes of the types that can complete the job alone in this number of slots.

    Parameters
    ----------
    slots
        A job that may change its types as it runs needs all of them: EVER.
    rigid
        Whether a job always has parameter servers for all workers that are not beside one, also in a cloud.
    """
    if bid.architecture is Architecture.RING:
        return list(_rings(bid, rooms, slots))
    return list(_with_pss(bid, rooms, slots, rigid=rigid))


def _able(bid: Bid, times: Iterable[Fraction], slots: int) -> list[tuple[int, Fraction]]:
    """Return types with which this number of slots of D workers can suffice, for this part of a mini-batch alone."""
    most = bid.chunks * slots
    return [(i, time) for i, time in enumerate(times) if bid.work * time.numerator <= most * time.denominator]


def _with_pss(bid: Bid, rooms: Rooms, slots: int, *, rigid: bool) -> Iterator[Mode]:
    """One PS is enough together, and in the mean of n workers there is one for each N of them at least.

    Rigid jobs have PSs for all workers that are not beside one. In a cloud PSs are not counted for any others: chunks
    in queues have as many there as they want.
    """
    inventory, delay, able = rooms.inventory, np.array(bid.delay), _able(bid, bid.worker_time, slots)
    for p, update in _able(bid, bid.ps_time, slots):
        beside = (rooms.ps[:, p] > 0) | (rooms.cloud & (not rigid))
        if not (rooms.ps[:, p] > 0).any():
            continue
        ps = rooms.ps_use[p] if rigid or not rooms.cloud.any() else 0 * rooms.ps_use[p]
        for w, step in able:
            room, demand = rooms.worker[:, w], rooms.worker_use[w]
            fits = (inventory.capacity >= inventory.worker_demand[w] + inventory.ps_demand[p]).all(axis=1)
            one = np.where(beside & (fits | rooms.cloud), room, 0)
            served = float(inventory.parameter_servers[p].bandwidth_mbps / inventory.workers[w].bandwidth_mbps)
            for first, most, in_all in _rooms_by(delay, one, room):
                if most:
                    count = min(bid.chunks, most)
                    yield _mode(bid, count, step + update, count * demand + ps, first)
                count = min(bid.chunks, in_all)
                pss = max(1.0, count / (int(room.max()) + served)) if rigid else 1.0
                yield _mode(bid, count, step + update + bid.transfer_time[w], count * demand + pss * ps, first)


def _rings(bid: Bid, rooms: Rooms, slots: int) -> Iterator[Mode]:
    """One worker, and as many as there can be: what others do lies below the line between these two.

    n workers do n^2 / (a n - c) mini-batches in a slot, a = v + c, c = reduction and transfer of one (weighted
    completion, eq. 14), which is convex in n from 1 on.
    """
    delay = np.array(bid.delay)
    for w, step in _able(bid, bid.worker_time, slots):
        room, demand = rooms.worker[:, w], rooms.worker_use[w]
        for first, most, in_all in _rooms_by(delay, room, room):
            yield _mode(bid, 1, step, demand, first)
            for count, transfer in ((most, Fraction(0)), (in_all, bid.transfer_time[w])):
                n = min(bid.chunks, count)
                exchange = (bid.reduce_time + transfer) * Fraction(n - 1, n)
                yield _mode(bid, n, step + exchange, n * demand, first)


def _rooms_by(delay: Ints, one: Ints, room: Ints) -> Iterator[tuple[int, int, int]]:
    """After each delay that changes it: most workers on one server, and on all of them."""
    before = (0, 0)
    for first in np.unique(delay[room > 0]).tolist():
        now = (int(one[delay <= first].max(initial=0)), int(room[delay <= first].sum()))
        if now != before:
            before = now
            yield (first, *now)


def _mode(bid: Bid, count: int, step: Fraction, use: Ints | Floats, delay: int) -> Mode:
    if step == 0:
        return Mode(NO_TIME, (0.0,) * len(use), delay)
    return Mode(float(count / (step * bid.work)), tuple(float(x) for x in use), delay)
