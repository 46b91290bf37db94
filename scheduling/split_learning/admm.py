"""The paper's first method: assignments and forward passes by ADMM (Algorithm 1), backward passes by Algorithm 2."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats, Ints
from scheduling.solvers.milp import IntegerProgram
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.balanced_greedy import balanced, nowhere
from scheduling.split_learning.bounds import unavoidable
from scheduling.split_learning.columns import helpers_of
from scheduling.split_learning.forward_first import forward_first
from scheduling.split_learning.forward_schedule import ForwardSlots, schedule
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import Step
from scheduling.split_learning.plan import Plan


@dataclass(frozen=True)
class Round:
    """The result of one pass through lines 2 to 4."""

    forward: ForwardSlots
    assignment: Ints
    """y, as the helper of each client, J."""
    plan: Plan
    """Line 6 and Algorithm 2 for it."""


@dataclass(frozen=True)
class Admm:
    """Algorithm 1, which leaves its numbers open; the defaults are what measured best of a few.

    Raises InvalidField naming the one that is out of range.
    """

    rho: float = 4.0
    """Penalty of (16), for each slot that is not where the assignment says, above 0."""
    dual_step: float = 1.0
    """Factor of the violation in line 4: 1 as in the paper, rho as in ADMM, 0 for the penalty alone."""
    moved: float = 1.0
    """epsilon_1 (17): stop if fewer entries of y changed."""
    shorter: float = 1.0
    """epsilon_2 (18): stop if the forward makespan changed by fewer slots."""
    rounds: int = 20
    """tau_max."""

    def __post_init__(self) -> None:
        for name, low in (("rho", 0.0), ("moved", 0.0), ("shorter", 0.0)):
            if not low < getattr(self, name) < np.inf:
                raise InvalidField(name, f"expected more than {low:g}, got {getattr(self, name)}")
        if not 0 <= self.dual_step < np.inf:
            raise InvalidField("dual_step", f"expected at least 0, got {self.dual_step}")
        if self.rounds < 1:
            raise InvalidField("rounds", f"expected at least 1, got {self.rounds}")

    def __call__(self, instance: Instance, *, left: Left, rng: np.random.Generator) -> Iterator[Step]:
        """Yield a step a round, with the best plan so far; raises NoPlan where memory allows no assignment.

        It proves nothing, so the bound is what no plan avoids.
        """
        least = unavoidable(instance)
        best: Plan | None = None
        for number, done in enumerate(self.iterate(instance, left), 1):
            if best is None or done.plan.makespan < best.makespan:
                best = done.plan
            yield Step(least, best, f"round {number}")

    def iterate(self, instance: Instance, left: Left) -> Iterator[Round]:
        """Yield rounds until assignment and makespan stand still, there is no time, or for `rounds`; at least one."""
        y = np.zeros(instance.forward.shape, dtype=np.int64)
        dual = np.zeros(instance.forward.shape)
        gap = instance.gap + 2 * instance.switch[:, None]
        makespan = None
        for _ in range(self.rounds):
            # In (16) |n - y p| is p - n where y is 1 and n elsewhere, as (20) keeps n within p.
            price = dual + self.rho / 2 * (1 - 2 * y)
            forward = schedule(instance, (gap * y).sum(axis=0), price, y, left)
            assignment = assign(instance, forward.slots, dual, self.rho, left)
            yield Round(forward, assignment, forward_first(instance, assignment))
            before, y = y, (np.arange(len(y))[:, None] == assignment).astype(np.int64)
            dual = dual + self.dual_step * (forward.slots - y * instance.forward)
            still = makespan is not None and abs(forward.makespan - makespan) < self.shorter
            if (np.abs(y - before).sum() < self.moved and still) or left() <= 0:
                return
            makespan = forward.makespan


def assign(instance: Instance, slots: Ints, dual: Floats, rho: float, left: Left) -> Ints:
    """Line 3: the assignment within memory, (4) and (5), that minimises (16) for these forward slots, J.

    Where no time is left it is balanced-greedy's. Raises NoPlan where memory allows no assignment.
    """
    length = instance.forward
    # What y = 1 costs more than y = 0, for each pair.
    cost = -dual * length + rho / 2 * (length - 2 * slots)
    rows = IntegerProgram()
    y = {(int(i), int(j)): rows.column(cost=float(cost[i, j])) for i, j in np.argwhere(instance.fits)}
    by_client: list[list[tuple[int, int]]] = [[] for _ in instance.clients]
    by_helper: list[list[tuple[int, int]]] = [[] for _ in instance.helpers]
    demand = instance.demand.tolist()
    for (i, j), column in y.items():
        by_client[j].append((column, 1))
        by_helper[i].append((column, demand[j]))
    for terms in by_client:
        rows.row(terms, 1, 1)
    smallest = list(accumulate(sorted(demand)))
    for terms, there in zip(by_helper, instance.capacity.tolist(), strict=True):
        rows.capacity_row(terms, there)
        # Demands are much alike, so how many clients fit says more to the solver than how many bytes.
        rows.row([(column, 1) for column, _ in terms], high=bisect_right(smallest, there))
    answer = rows.solve(left)
    if not answer.feasible:
        raise nowhere(instance)
    return balanced(instance) if answer.values is None else helpers_of(answer.values, y)
