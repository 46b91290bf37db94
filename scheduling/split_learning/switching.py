"""A plan where switching costs (Section VI), made of one where it does not."""

from dataclasses import replace

from scheduling.split_learning.backward import cheapest_backward
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.plan import Plan, best_by_helper, by_priority


def charged(plan: Plan, instance: Instance) -> Plan:
    """The same assignment and priorities with the instance's costs of switching; `plan` is of `uninterrupted()` of it.

    Each helper has the best of three: it never interrupts a pass; it does not, or does as the plan does, in forward
    passes, and interrupts backward ones only where that pays. Not the least possible where costs are small but not
    nothing: no method for that is known.
    """
    if not instance.switch.any():
        return replace(plan, instance=instance)
    keys = plan.key_forward, plan.key_backward
    calm = by_priority(plan.instance, plan.assignment, *keys, preemptive=False)
    candidates = [replace(calm, instance=instance)]
    for forward in (plan.forward, calm.forward):
        backward = cheapest_backward(instance, plan.assignment, forward)
        candidates.append(replace(plan, instance=instance, forward=forward, backward=backward))
    found = best_by_helper(candidates)
    # Without an interruption forward passes may still be in the order in which they would interrupt.
    return replace(found, preemptive=found.preemptive or (plan.preemptive and found.forward != calm.forward))
