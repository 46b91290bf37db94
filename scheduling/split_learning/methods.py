"""The methods by name."""

from collections.abc import Callable, Mapping

import numpy as np

from scheduling.errors import InvalidField
from scheduling.split_learning.admm import Admm
from scheduling.split_learning.balanced_greedy import balanced_greedy
from scheduling.split_learning.exact import exact
from scheduling.split_learning.ilp import ilp
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import Left, Method, NoPlan, Step
from scheduling.split_learning.random_fcfs import random_fcfs

METHODS: Mapping[str, Method] = {
    "exact": exact,
    "admm": Admm(),
    "balanced-greedy": balanced_greedy,
    "random": random_fcfs,
    "ilp": ilp,
}


def method_of(name: str, field: str = "method") -> Method:
    """Raises InvalidField for a name that is not one."""
    if name not in METHODS:
        raise InvalidField(field, f"expected one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name]


def last_step(
    instance: Instance, name: str, *, left: Left, seed: int, seen: Callable[[Step], None] | None = None
) -> Step:
    """What a method knows at its end; `seen` is told of every step. Raises NoPlan, and InvalidField for the name."""
    last: Step | None = None
    for step in method_of(name)(instance, left=left, rng=np.random.default_rng(seed)):
        last = step
        if seen is not None:
            seen(step)
    if last is None or last.plan is None:
        raise NoPlan(f"{name} found no plan in the time it had")
    return last
