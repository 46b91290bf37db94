"""First come, first served: what helpers do when nobody plans, and the second step of balanced-greedy (Section VI)."""

from heapq import heapify, heappop, heappush

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.bounds import unavoidable
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import Step
from scheduling.split_learning.plan import Pieces, Plan


def first_come(instance: Instance, assignment: Ints) -> Plan:
    """The plan in which every helper takes passes as they arrive, forward and backward in one queue; none interrupted.

    Passes that arrive in the same slot are taken in the order of clients. Costs of switching (Section VI) delay what
    comes after a pass and not the helper, so a backward pass arrives after those of its forward pass.

    Parameters
    ----------
    assignment
        Helper of each client, J; memory is not looked at.

    Notes
    -----
    The keys are the order of arrival in the plan: a helper that always takes the greatest key among the passes that
    are there, and never interrupts, does the same. O(J log J).
    """
    passes: tuple[list[Pieces], list[Pieces]] = ([()] * len(assignment), [()] * len(assignment))
    arrivals = np.zeros((2, len(assignment)), dtype=np.int64)
    flat = instance.uninterrupted()
    for i in range(len(instance.helpers)):
        _serve(flat, i, np.flatnonzero(assignment == i).tolist(), passes, arrivals)
    # The greatest key first: the last place is for who arrives last, and for the client with the highest number.
    order = np.lexsort((np.tile(np.arange(len(assignment)), 2), arrivals.ravel()))
    keys = np.empty(2 * len(assignment), dtype=np.int64)
    keys[order] = np.arange(2 * len(assignment))[::-1]
    first, second = keys[: len(assignment)], keys[len(assignment) :]
    return Plan(instance, assignment, tuple(passes[0]), tuple(passes[1]), first, second, preemptive=False)


def _serve(flat: Instance, i: int, members: list[int], passes: tuple[list[Pieces], list[Pieces]], seen: Ints) -> None:
    """Fill in the passes of helper i's clients and when they arrive; a pass of 0 slots is complete when it arrives."""
    times = (flat.forward[i].tolist(), flat.backward[i].tolist())
    gap = flat.gap[i].tolist()
    queue = [(arrival, j, 0) for arrival, j in zip(flat.release[i, members].tolist(), members, strict=True)]
    heapify(queue)
    now = 0
    while queue:
        # Whatever arrives later than this cannot be taken before: a backward pass arrives after a pass that has ended.
        arrival, j, kind = heappop(queue)
        seen[kind, j] = arrival
        end = arrival
        if times[kind][j]:
            start = max(now, arrival)
            now = end = start + times[kind][j]
            passes[kind][j] = ((start, end),)
        if kind == 0:
            heappush(queue, (end + gap[j], j, 1))


def only_step(plan: Plan, note: str) -> Step:
    """Return the only step of a method that makes one plan and proves nothing."""
    return Step(unavoidable(plan.instance), plan, note)
