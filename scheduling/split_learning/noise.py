"""Makespans of a plan when passes and links take other times than profiled."""

from dataclasses import dataclass, replace

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.split_learning.bounds import longest_path
from scheduling.split_learning.first_come import first_come
from scheduling.split_learning.instance import TIMES, Instance
from scheduling.split_learning.plan import Plan, by_priority
from scheduling.split_learning.replanning import best_orders
from scheduling.split_learning.switching import charged

NODES = 100
"""Largest number of orders of a helper for each makespan; small, since one request has many draws."""


@dataclass(frozen=True)
class Noisy:
    """Makespans of one draw, slots; the assignment is the plan's in all of them."""

    planned: int
    """Planned makespan."""
    priorities: int
    """Makespan if helpers follow the priorities of the plan."""
    first_come: int
    """Makespan if helpers run passes in order of arrival."""
    replanned: int
    """Makespan if helpers get new priorities for the drawn times, or keep the old ones if these are no worse."""
    bound: int
    """The longest path that no assignment avoids, with the drawn times."""


def disturbed(instance: Instance, spread: float, rng: np.random.Generator) -> Instance:
    """Return the instance with each time multiplied by its own factor in 1 - spread to 1 + spread, and rounded.

    Raises
    ------
    InvalidField
        If the spread is not in [0, 1), or a time becomes too long for an instance.
    """
    if not 0 <= spread < 1:
        raise InvalidField("spread", f"expected at least 0 and less than 1, got {spread}")
    shape = instance.release.shape
    drawn = {name: rng.uniform(1 - spread, 1 + spread, shape) * getattr(instance, name) for name in TIMES}
    return replace(instance, **{name: np.rint(times).astype(np.int64) for name, times in drawn.items()})


def under_noise(plan: Plan, spread: float, rng: np.random.Generator) -> Noisy:
    """Draw the times once, and compute the makespan of the plan's assignment under three rules for helpers.

    Raises
    ------
    InvalidField
        As `disturbed`.
    """
    actual = disturbed(plan.instance, spread, rng)
    flat = actual.uninterrupted()
    kept = _by_keys(plan, flat)
    # A plan that is not what its keys give was made by `charged`: so is its order for the drawn times.
    followed = (replace(kept, instance=actual) if _is_its_keys(plan) else charged(kept, actual)).makespan
    again = charged(best_orders(flat, plan.assignment, NODES), actual).makespan
    return Noisy(
        planned=plan.makespan,
        priorities=followed,
        first_come=first_come(actual, plan.assignment).makespan,
        replanned=min(again, followed),
        bound=longest_path(actual),
    )


def _by_keys(plan: Plan, flat: Instance) -> Plan:
    return by_priority(flat, plan.assignment, plan.key_forward, plan.key_backward, preemptive=plan.preemptive)


def _is_its_keys(plan: Plan) -> bool:
    """Whether the plan interrupts nothing, and its keys alone give it."""
    if plan.preemptive:
        return False
    kept = _by_keys(plan, plan.instance.uninterrupted())
    return (kept.forward, kept.backward) == (plan.forward, plan.backward)
