"""A plan for an assignment with forward passes decided before backward ones, as the paper's decomposition does."""

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.backward import Free, Pass, cheapest_backward, one_at_a_time
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.plan import Pieces, Plan, best_by_helper, by_priority


def forward_first(instance: Instance, assignment: Ints) -> Plan:
    """Solve P_f for an assignment (19), then P_b for what that leaves; each optimal, the two together need not be.

    On each helper the forward pass with the largest gap runs first (Jackson's rule, preemptive, which needs no solver),
    and backward passes have the slots that are left, the largest tail first.

    Where switching costs (Section VI) neither is optimal: each helper has the better of forward passes that are
    interrupted and of such that are not, each with the better of both kinds of backward passes.
    """
    clients = np.arange(len(assignment))
    gap, tail = instance.gap[assignment, clients], instance.tail[assignment, clients]
    # Any forward pass goes before any backward pass.
    keys = gap + tail.max() + 1
    plan = by_priority(instance, assignment, keys, tail)
    if not instance.switch.any():
        return plan
    candidates = [
        _completed(instance, assignment, forward, keys, tail)
        for forward in (plan.forward, _whole(instance, assignment))
    ]
    return best_by_helper(candidates)


def _completed(instance: Instance, assignment: Ints, forward: tuple[Pieces, ...], keys: Ints, tail: Ints) -> Plan:
    backward = cheapest_backward(instance, assignment, forward)
    return Plan(instance, assignment, forward, backward, keys, tail, preemptive=True)


def _whole(instance: Instance, assignment: Ints) -> tuple[Pieces, ...]:
    """Forward passes that are not interrupted: of those that are there the one with the largest gap."""
    found: list[Pieces] = [()] * len(assignment)
    for i in np.unique(assignment):
        rows = [getattr(instance, name)[i].tolist() for name in ("release", "forward", "gap")]
        members = [j for j in np.flatnonzero(assignment == i).tolist() if rows[1][j]]
        passes = [Pass(rows[0][j], rows[0][j], rows[1][j], rows[2][j], j) for j in members]
        for j, start, end in one_at_a_time(passes, Free(())):
            found[j] = ((start, end),)
    return tuple(found)
