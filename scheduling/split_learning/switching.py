"""A plan where switching costs (Section VI), made of one where it does not."""

from dataclasses import replace

import numpy as np

from scheduling.split_learning.backward import cheapest_backward
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.plan import Plan, by_priority


def charged(plan: Plan, instance: Instance) -> Plan:
    """The same assignment and priorities with the instance's costs of switching; `plan` is of `uninterrupted()` of it.

    Each helper does the best of three: it never interrupts a pass; it interrupts forward passes, and backward ones only
    where that pays; or the plan as it is, where that interrupts nothing. Not the least possible where costs are small
    but not nothing: no method for that is known.
    """
    if not instance.switch.any():
        return replace(plan, instance=instance)
    keys = plan.key_forward, plan.key_backward
    calm = by_priority(plan.instance, plan.assignment, *keys, preemptive=False)
    options = [
        replace(calm, instance=instance),
        replace(plan, instance=instance, backward=cheapest_backward(instance, plan.assignment, plan.forward)),
    ]
    best = options[0]
    forward, backward = list(best.forward), list(best.backward)
    for i in range(len(instance.helpers)):
        members = np.flatnonzero(plan.assignment == i)
        if len(members) and options[1].completion[members].max() < best.completion[members].max():
            for j in members:
                forward[j], backward[j] = options[1].forward[j], options[1].backward[j]
    return replace(best, forward=tuple(forward), backward=tuple(backward), preemptive=False)
