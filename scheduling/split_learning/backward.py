"""Backward passes when helpers and forward passes are decided (P_b, Problem 3): two ways to fill the free slots."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.plan import Pieces, Plan, merged


class Pass(NamedTuple):
    """A backward pass on its helper, in slots."""

    ready: int
    """The first free slot when it is at the helper, counted."""
    there: int
    """The slot at which it is at the helper, for ties."""
    slots: int
    tail: int
    """Slots from its end to the end of the client's batch."""
    client: int


class Free:
    """The slots of a helper that forward passes leave, counted from 0 as if there were no others.

    An optimal schedule of the eligible slots is an optimal schedule of the counted slots: the taken slots shift an end
    by the same amount for every client.
    """

    def __init__(self, taken: Pieces) -> None:
        self._starts = [start for start, _ in taken]
        self._lost = [0]
        """Slots taken by the first k pieces."""
        for start, end in taken:
            self._lost.append(self._lost[-1] + end - start)
        self._cuts = [start - lost for start, lost in zip(self._starts, self._lost, strict=False)]
        self._ends = [end for _, end in taken]

    def count(self, slot: int) -> int:
        """Return the number of free slots before this one, which is the number of the first one from it on."""
        k = bisect_right(self._starts, slot)
        lost = self._lost[k]
        if k and slot < self._ends[k - 1]:
            lost -= self._ends[k - 1] - slot
        return slot - lost

    def slots(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The real slots of counted slots [start, end), piece by piece."""
        k = bisect_right(self._cuts, start)
        while start < end:
            until = min(end, self._cuts[k]) if k < len(self._cuts) else end
            yield start + self._lost[k], until + self._lost[k]
            start, k = until, k + 1

    def window(self, start: int) -> int:
        """Return the number of consecutive free slots from this one on; -1 if they do not end."""
        k = bisect_right(self._cuts, start)
        return self._cuts[k] - start if k < len(self._cuts) else -1


Way = Callable[[Sequence[Pass], Free], Iterator[tuple[int, int, int]]]
"""Yields (client, start, end) in counted slots."""


def cheapest_backward(instance: Instance, assignment: Ints, forward: tuple[Pieces, ...]) -> tuple[Pieces, ...]:
    """Return the pieces of each client's backward pass, J. A pass of 0 slots has no pieces.

    Where switching costs (Section VI), each helper has the better of the preemptive optimum, its pieces charged, and of
    passes that are not interrupted. The result is optimal if switching is free; otherwise it need not be.

    Notes
    -----
    A pass is at its helper l + l' after its forward pass is complete: the printed release c^f + l + l' counts l twice,
    as c^f contains it (13). Slots in which the helper runs forward passes are not eligible, which the text says (22)
    and its Algorithm 2 forgets. Nothing waits for the last forward pass, as (21) would have it.
    """
    found: list[Pieces] = [()] * len(assignment)
    for passes, free in by_helper(instance, assignment, forward):
        twice = 2 * int(instance.switch[assignment[passes[0].client]])
        candidates = [timed(largest_tail_first, passes, free)]
        if twice:
            candidates.append(timed(one_at_a_time, passes, free))
        best = min(candidates, key=lambda found: _cost(passes, found, twice))
        for client, pieces in best.items():
            found[client] = pieces
    return tuple(found)


def largest_tail_first(passes: Sequence[Pass], free: Free) -> Iterator[tuple[int, int, int]]:
    """Run, of the passes that are there, the one with the largest tail, then who came first, then by client.

    Optimal for P_b, like Algorithm 2, whose recursion over blocks takes O(n^2): every cost is the end plus a tail
    (Jackson's rule, preemptive). O(n log n).
    """
    coming = sorted(passes, reverse=True)
    able: list[tuple[int, int, int]] = []
    left = {job.client: job.slots for job in passes}
    now = 0
    while coming or able:
        if not able:
            now = max(now, coming[-1].ready)
        while coming and coming[-1].ready <= now:
            job = coming.pop()
            heappush(able, (-job.tail, job.there, job.client))
        client = able[0][2]
        until = now + left[client]
        if coming:
            until = min(until, coming[-1].ready)
        yield client, now, until
        left[client] -= until - now
        now = until
        if not left[client]:
            heappop(able)


def one_at_a_time(passes: Sequence[Pass], free: Free) -> Iterator[tuple[int, int, int]]:
    """Never interrupt: of the passes that are there and fit before a forward pass, run the one with the largest tail.

    Of equals who came first, then by client. If none fits it waits. A heuristic. O(n^2).
    """
    waiting = sorted(passes, key=lambda job: (-job.tail, job.there, job.client))
    now = 0
    while waiting:
        room = free.window(now)
        able = [job for job in waiting if job.ready <= now and (room < 0 or job.slots <= room)]
        if able:
            waiting.remove(able[0])
            yield able[0].client, now, now + able[0].slots
            now += able[0].slots
            continue
        next_one = min((job.ready for job in waiting if job.ready > now), default=None)
        if room >= 0:
            next_one = now + room if next_one is None else min(next_one, now + room)
        if next_one is None:
            raise AssertionError("a pass that is there fits where no forward pass follows")
        now = next_one


def by_helper(instance: Instance, assignment: Ints, forward: tuple[Pieces, ...]) -> Iterator[tuple[list[Pass], Free]]:
    """Yield the passes of each helper, and its free slots; passes of 0 slots are left out, and helpers without any."""
    clients = np.arange(len(assignment))
    # Plan knows when a forward pass is complete, switching included; its backward passes are not decided yet.
    nothing: tuple[Pieces, ...] = ((),) * len(assignment)
    there = Plan(instance, assignment, forward, nothing, clients, clients, preemptive=True).released.tolist()
    for i in range(len(instance.helpers)):
        members = np.flatnonzero(assignment == i).tolist()
        slots, tail = instance.backward[i].tolist(), instance.tail[i].tolist()
        free = Free(merged([piece for j in members for piece in forward[j]]))
        passes = [Pass(free.count(there[j]), there[j], slots[j], tail[j], j) for j in members if slots[j]]
        if passes:
            yield passes, free


def timed(way: Way, passes: Sequence[Pass], free: Free) -> dict[int, Pieces]:
    """Return the real slots of each client's pass, by client."""
    rows: dict[int, list[tuple[int, int]]] = {job.client: [] for job in passes}
    for client, start, end in way(passes, free):
        rows[client] += free.slots(start, end)
    return {client: merged(pieces) for client, pieces in rows.items()}


def _cost(passes: Sequence[Pass], found: dict[int, Pieces], twice: int) -> int:
    """Return the end of the last client."""
    return max(found[job.client][-1][1] + twice * len(found[job.client]) + job.tail for job in passes)
