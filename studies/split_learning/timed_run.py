"""Run a method to its end on one instance, check its plan and measure its time."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from scheduling.split_learning.check import violations
from scheduling.split_learning.ilp import TooLarge
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import Method


@dataclass(frozen=True)
class TimedRun:
    """The result of one method on one instance."""

    makespan: float
    """Slots; nan without a plan, if the instance is too large for the method."""
    bound: int
    """Proved lower bound on the makespan, slots."""
    seconds: float
    """Time by the clock of the run: wall-clock time, if no other was given."""


def run(
    method: Method, instance: Instance, *, seconds: float, seed: int, clock: Callable[[], float] = perf_counter
) -> TimedRun:
    """Run a method to its end, or until its time limit, both by the `clock`, which returns seconds.

    Raises
    ------
    RuntimeError
        If a plan breaks a constraint.
    """
    began = clock()
    makespan, bound, plan = float("nan"), 0, None
    try:
        for step in method(instance, left=lambda: began + seconds - clock(), rng=np.random.default_rng(seed)):
            bound, plan = step.lower_bound, step.plan
    except TooLarge:
        return TimedRun(makespan, bound, clock() - began)
    took = clock() - began
    if plan is not None:
        makespan = plan.makespan
        wrong = violations(plan)
        if wrong:
            raise RuntimeError("; ".join(wrong))
    return TimedRun(makespan, bound, took)
