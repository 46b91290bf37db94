"""Machines that are idle while a job that waits, or was rejected, would fit and be worth running."""

import math
from typing import Final

import numpy as np

from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Role
from scheduling.model.types import Ints
from scheduling.policies.simulation import Simulation
from studies.workloads.traces.mapping import TracedBids

WORTH: Final = 0.01
"""Least share of its stated value that a job has to be worth to count as wanted."""


def idle_while_wanted(run: Simulation, traced: TracedBids, inventory: Inventory, *, slot_s: int) -> int:
    """Return the GPU-slots that were idle while a job would have fitted into them and been worth running.

    Jobs that never ran, or began later than they could have, are taken in order of arrival. Each is put into the first
    slots that all its GPUs have free for its whole run, before the slot in which it began, if any, if completion then
    is worth at least `WORTH` of what it states. GPUs are counted for the whole cluster. What one job takes is no longer
    idle for the next.
    """
    jobs = {job.bid.id: job for job in (*run.done.values(), *run.book.jobs.values())}
    lengths = {bid.id: max(1, math.ceil(traced.runs_s[bid.id] / slot_s)) for bid in traced.bids}
    lasts = [*(p.end for job in jobs.values() for p in job.held), *(bid.arrival for bid in traced.bids)]
    end = max(lasts, default=0) + max(lengths.values(), default=0)
    free = np.full(end, int(inventory.capacity[:, 0].sum()))
    for job in jobs.values():
        for p in job.held:
            if p.role is Role.WORKER:
                free[p.start : p.end] -= p.count
    total = 0
    for bid in traced.bids:
        slots = lengths[bid.id]
        held = jobs[bid.id].held if bid.id in jobs else ()
        began = held[0].start if held else end
        at = _first_fit(free[bid.arrival : began], bid.chunks, slots)
        if at is None or bid.utility.at(at + slots) < WORTH * bid.utility.value:
            continue
        free[bid.arrival + at : bid.arrival + at + slots] -= bid.chunks
        total += bid.chunks * slots
    return total


def _first_fit(free: Ints, gpus: int, slots: int) -> int | None:
    """Return the first place at which this many slots in a row have this many GPUs; None if there is none."""
    if len(free) < slots:
        return None
    lacking = np.concatenate(([0], np.cumsum(free < gpus)))
    fits = np.flatnonzero(lacking[slots:] == lacking[: len(lacking) - slots])
    return int(fits[0]) if len(fits) else None
