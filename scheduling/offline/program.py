"""Common parts of the integer programs: completions of jobs, and capacities of servers."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.model.errors import SchedulingError
from scheduling.model.types import Floats
from scheduling.offline.fluid import make_fluid
from scheduling.offline.problem import OfflineProblem
from scheduling.offline.reduced_cost_fixing import Filter
from scheduling.solvers.milp import IntegerProgram, Solution
from scheduling.solvers.time_limit import Left

LEAST_LARGEST = 10
"""Logarithm to base two of the largest value of a completion as the solver gets it, at least. The solver ends within a
fixed 1e-6 of the optimum, whatever the gap it is given: with values as small as that, any solution would do."""
MOST_DOUBLINGS = 1000


class TooLarge(SchedulingError):
    """The program would have more columns than allowed."""


@dataclass(frozen=True)
class Solved:
    """The solver's result, in the objective's sign."""

    bound: float | None
    """None: it proved none."""
    incumbent: float | None
    optimal: bool


class Program:
    """Columns of completions with their values; a job has at most one, or exactly one where it has to run."""

    def __init__(self, problem: OfflineProblem, most: int, fixing: Filter | None) -> None:
        self.problem = problem
        self.fixing = fixing
        """Drops columns of schedules that are worse than what is known."""
        self.rows = IntegerProgram()
        self._most = most
        self._value_at = make_fluid(problem).value_at
        self._scale = _scale(self._value_at)
        """Factor on values as the solver gets them."""
        self._ends: dict[int, list[tuple[int, float]]] = defaultdict(list)
        """Columns of each job's completions, with their values."""

    def column(self, low: float = 0.0, high: float = 1.0, *, cost: float = 0.0, whole: bool = True) -> int:
        """A number, whole or not; raises TooLarge."""
        if self.rows.columns >= self._most:
            raise TooLarge(f"more than {self._most} columns")
        return self.rows.column(low, high, cost=cost, whole=whole)

    def open_job(self, i: int) -> None:
        """Begin with a job: complete after the end, where nothing is counted, if that may be."""
        if np.isfinite(self._value_at[i, -1]) and self.may_complete(i, self.problem.slots + 1):
            self._add(i, float(self._value_at[i, -1]))

    def may_complete(self, i: int, at: int) -> bool:
        """Whether that can be better than what is known."""
        return self.fixing is None or self.fixing.completes(i, at)

    def loses_by_waiting(self, i: int, at: int) -> bool:
        """Return whether completion a slot later has less value, or is after the end."""
        return at == self.problem.slots or bool(self._value_at[i, at + 1] < self._value_at[i, at])

    def completion(self, i: int, at: int) -> int:
        """A binary column: job i is complete at this slot, counted from the start."""
        return self._add(i, float(self._value_at[i, at]))

    def _add(self, i: int, value: float) -> int:
        column = self.column(cost=-value * self._scale)
        self._ends[i].append((column, value))
        return column

    def run(self, left: Left, *, whole: bool = True) -> Solution:
        """Run the solver; the bound on the cost is in the unit of the values."""
        solution = self.rows.solve(left, whole=whole)
        return replace(solution, bound=solution.bound / self._scale)

    def solve(self, left: Left) -> Solved:
        """Solve to the optimum, or until no time is left."""
        self.close()
        if not self.rows.columns:
            return self._without_columns()
        solution = self.run(left)
        found = None if solution.values is None else self.total(solution.values)
        # The solver's objective is a sum of doubles times near-binaries; `found` is the schedule's own.
        value = found if found is not None and solution.optimal else -solution.bound
        return self.better(value, found, optimal=solution.optimal)

    def _without_columns(self) -> Solved:
        """Return the result where no schedule is left: no job runs. There is no such schedule where all have to run."""
        if self.problem.most or not self.problem.bids:
            return self.better(0.0, 0.0, optimal=True)
        return self.better(-np.inf, None, optimal=True)

    def relax(self, left: Left) -> Solved:
        """The bound of the linear relaxation, if that takes no longer. Instead of `solve`."""
        self.close()
        bound = self.run(left, whole=False).bound if self.rows.columns else 0.0
        return self.better(-bound, None, optimal=False)

    def better(self, value: float, found: float | None, *, optimal: bool) -> Solved:
        """Return the result in the objective's sign. Dropped columns are worse than the incumbent."""
        sign = 1.0 if self.problem.most else -1.0
        if self.fixing is not None:
            value = max(value, self.fixing.incumbent)
        bound = sign * value if np.isfinite(value) else None
        return Solved(bound, None if found is None else sign * found, optimal and bound is not None)

    def close(self) -> None:
        """Write the rows of jobs: each is complete once at most, or exactly once if it has to run."""
        low = 0.0 if self.problem.most else 1.0
        for i in range(len(self.problem.bids)):
            self.rows.row([(column, 1.0) for column, _ in self._ends[i]], low=low, high=1.0)

    def only_better(self, known: float) -> None:
        """Keep only columns of schedules that are better than this one from now on."""
        if self.fixing is not None:
            self.fixing.incumbent = max(self.fixing.incumbent, known)

    def total(self, values: Floats) -> float:
        """Return the sum of values of a solution's completions; more is better."""
        return sum(value for ends in self._ends.values() for column, value in ends if values[column] > 0.5)

    def value_of(self, ends: dict[int, int]) -> float:
        """Return the total value if these jobs complete at these slots, and the others later or not at all."""
        total = 0.0
        for i, value_at in enumerate(self._value_at):
            later = float(value_at[-1])
            total += float(value_at[ends[i]]) if i in ends else max(0.0, later) if self.problem.most else later
        return total


def _scale(value_at: Floats) -> float:
    """Return the power of two, 1 or more, that makes the largest value large enough; it rounds nothing."""
    largest = float(np.abs(value_at[np.isfinite(value_at)]).max(initial=0.0))
    return 2.0 ** min(max(0, LEAST_LARGEST + 1 - math.frexp(largest)[1]), MOST_DOUBLINGS)


class Cells:
    """Use of each resource of each server in each slot by columns, and the rows that limit it to the free units."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._free = program.problem.free()
        self._held: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)

    def hold(self, column: int, server: int, demand: Sequence[int], start: int, end: int) -> None:
        """A machine counted by this column holds `demand` in slots [start, end), counted from the start."""
        for r, units in enumerate(demand):
            if units:
                for t in range(start, end):
                    self._held[t, server, r].append((column, int(units)))

    def close(self) -> None:
        """Write the rows."""
        for (t, s, r), terms in self._held.items():
            self._program.rows.capacity_row(terms, int(self._free[t, s, r]))
