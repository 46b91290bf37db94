"""Machines that are idle while a job that waits, or was rejected, would fit and be worth running."""

import math
from typing import Final

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Role
from scheduling.model.types import Ints
from scheduling.policies.simulation import Simulation
from scheduling.preemptive.workers import TICKS
from studies.workloads.traces.mapping import TracedBids

WORTH: Final = 0.01
"""Least share of its stated value that a job has to be worth to count as wanted."""


class IdleGpus:
    """The GPUs of a whole cluster that no job holds, slot by slot, after a replay."""

    def __init__(self, run: Simulation, traced: TracedBids, inventory: Inventory, *, slot_s: int) -> None:
        self.jobs = {job.bid.id: job for job in (*run.done.values(), *run.book.jobs.values())}
        """Jobs that were admitted, by bid id."""
        self.lengths = {bid.id: max(1, math.ceil(traced.runs_s[bid.id] / slot_s)) for bid in traced.bids}
        """Slots of a whole run on a job's own GPUs, by bid id."""
        queued = _slots_of_workers(run)
        lasts = [*(p.end for job in self.jobs.values() for p in job.held), *(bid.arrival for bid in traced.bids)]
        lasts += [slot + 1 for slot in queued]
        self.end = max(lasts, default=0) + max(self.lengths.values(), default=0)
        """A slot after which nothing is held and every rejected job could have run."""
        self.free = np.full(self.end, int(inventory.capacity[:, 0].sum()))
        """Idle GPUs of each slot."""
        for job in self.jobs.values():
            for p in job.held:
                if p.role is Role.WORKER:
                    self.free[p.start : p.end] -= p.count
        for slot in queued:
            self.free[slot] -= 1

    def take(self, bid: Bid) -> int | None:
        """Hold the first slots, before its own first one if it has any, that have room for a job's whole run.

        Returns
        -------
        int or None
            The slot at which the job would be complete; None if no slots have room, or if it would then be worth less
            than `WORTH` of what it states.
        """
        slots = self.lengths[bid.id]
        began = self.jobs[bid.id].start if bid.id in self.jobs else None
        at = _first_fit(self.free[bid.arrival : began], bid.chunks, slots)
        if at is None or bid.utility.at(at + slots) < WORTH * bid.utility.value:
            return None
        self.free[bid.arrival + at : bid.arrival + at + slots] -= bid.chunks
        return bid.arrival + at + slots


def idle_while_wanted(run: Simulation, traced: TracedBids, inventory: Inventory, *, slot_s: int) -> int:
    """Return the GPU-slots that were idle while a job would have fitted into them and been worth running.

    Jobs that never ran, or began later than they could have, are taken in order of arrival. Each is put into the first
    slots that all its GPUs have free for its whole run, before the slot in which it began, if any, if completion then
    is worth at least `WORTH` of what it states. GPUs are counted for the whole cluster. What one job takes is no longer
    idle for the next. A GPU that processes queued chunks for a part of a slot is not idle in that slot.
    """
    idle = IdleGpus(run, traced, inventory, slot_s=slot_s)
    return sum(bid.chunks * idle.lengths[bid.id] for bid in traced.bids if idle.take(bid) is not None)


def _slots_of_workers(run: Simulation) -> list[int]:
    """Return the slots in which workers processed queued chunks, once for each worker, busy for all of it or not."""
    segments = (segment for ran in run.book.ran for segment in ran.segments)
    busy = {
        (one.server, one.index, slot) for one in segments for slot in range(one.start // TICKS, -(-one.end // TICKS))
    }
    return [slot for _, _, slot in busy]


def _first_fit(free: Ints, gpus: int, slots: int) -> int | None:
    """Return the first place at which this many slots in a row have this many GPUs; None if there is none."""
    if len(free) < slots:
        return None
    lacking = np.concatenate(([0], np.cumsum(free < gpus)))
    fits = np.flatnonzero(lacking[slots:] == lacking[: len(lacking) - slots])
    return int(fits[0]) if len(fits) else None
