"""The planning methods by name."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.admm import Admm
from scheduling.split_learning.balanced_greedy import balanced_greedy
from scheduling.split_learning.exact import exact
from scheduling.split_learning.ilp import ilp
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import Method, NoPlan, Step
from scheduling.split_learning.plan import Plan
from scheduling.split_learning.random_fcfs import random_fcfs

METHODS: Mapping[str, Method] = {
    "exact": exact,
    "admm": Admm(),
    "balanced-greedy": balanced_greedy,
    "random": random_fcfs,
    "ilp": ilp,
}


def method_of(name: str, field: str = "method") -> Method:
    """Return the method of this name; raises InvalidField for an unknown name."""
    if name not in METHODS:
        raise InvalidField(field, f"expected one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name]


@dataclass(frozen=True)
class Answer:
    """The result of a method."""

    plan: Plan
    lower_bound: int
    """No plan ends earlier, slots."""

    @property
    def optimal(self) -> bool:
        """Whether the plan is proven to be optimal."""
        return self.plan.makespan <= self.lower_bound


def answer_of(
    instance: Instance, name: str, *, left: Left, seed: int, seen: Callable[[Step], None] | None = None
) -> Answer:
    """The best plan a method finds and its bound; raises NoPlan, and InvalidField for the name. See `last_of`."""
    return last_of(method_of(name)(instance, left=left, rng=np.random.default_rng(seed)), name, seen)


def last_of(steps: Iterator[Step], name: str, seen: Callable[[Step], None] | None = None) -> Answer:
    """Run all steps and return the last one; `seen` is called with each. Raises NoPlan if no plan was found in time."""
    last = Step(0, None)
    for last in steps:
        if seen is not None:
            seen(last)
    if last.plan is None:
        raise NoPlan(f"{name} found no plan in the time it had")
    return Answer(last.plan, last.lower_bound)
