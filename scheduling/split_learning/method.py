"""The interface of methods: steps that each report a better plan or a better bound."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduling.model.errors import SchedulingError
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.plan import Plan


@dataclass(frozen=True)
class Step:
    """The state of a method after one step."""

    lower_bound: int
    """No plan ends earlier, slots."""
    plan: Plan | None
    """The best plan so far; None if there is none."""
    note: str = ""
    """The last step, in words."""

    @property
    def optimal(self) -> bool:
        """Whether the plan is proven to be optimal."""
        return self.plan is not None and self.plan.makespan <= self.lower_bound

    @property
    def gap(self) -> float | None:
        """makespan / lower bound - 1, the largest possible distance from the optimum; None without a plan."""
        return None if self.plan is None else self.plan.makespan / max(1, self.lower_bound) - 1


class Method(Protocol):
    """Yields steps, bounds never falling and makespans never rising; ends when done or when no time is left."""

    def __call__(self, instance: Instance, *, left: Left, rng: np.random.Generator) -> Iterator[Step]:
        """Yield at least one step; raises NoPlan, naming a client, if memory allows no plan."""
        ...


class NoPlan(SchedulingError):
    """Clients cannot be divided among helpers within memory, or the method found no way."""
