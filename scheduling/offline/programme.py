"""What the integer programmes share: jobs that complete at some slot or not at all, and servers that are not full."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.arrays import Floats
from scheduling.errors import SchedulingError
from scheduling.offline.fluid import make_fluid
from scheduling.offline.question import Question
from scheduling.split_learning.rows import Rows, Solution


class TooLarge(SchedulingError):
    """The programme would have more columns than were allowed."""


@dataclass(frozen=True)
class Solved:
    """What the solver says, as the objective counts."""

    bound: float | None
    """None: it proved none."""
    incumbent: float | None
    optimal: bool


class Programme:
    """Columns of completions, with what each is worth; a job has at most one, or exactly one where it has to run."""

    def __init__(self, question: Question, most: int) -> None:
        self.question = question
        self.rows = Rows()
        self._most = most
        self._worth = make_fluid(question).worth
        self._ends: dict[int, list[tuple[int, float]]] = defaultdict(list)
        """Columns of each job's completions and what they are worth."""

    def column(self, low: float = 0.0, high: float = 1.0, *, cost: float = 0.0) -> int:
        """A whole number; raises TooLarge."""
        if self.rows.columns >= self._most:
            raise TooLarge(f"more than {self._most} columns")
        return self.rows.column(low, high, cost=cost)

    def open_job(self, i: int) -> None:
        """Begin with a job: complete after the end, where nothing is counted, if that may be."""
        if np.isfinite(self._worth[i, -1]):
            self._add(i, float(self._worth[i, -1]))

    def completion(self, i: int, at: int) -> int:
        """A binary column: job i is complete at this slot, counted from the start."""
        return self._add(i, float(self._worth[i, at]))

    def _add(self, i: int, worth: float) -> int:
        column = self.column(cost=-worth)
        self._ends[i].append((column, worth))
        return column

    def solve(self, seconds: float) -> Solved:
        """To the optimum, or for so many seconds."""
        self._close()
        if not self.rows.columns:
            return Solved(0.0, 0.0, optimal=True)
        return self._read(self.rows.solve(seconds))

    def relax(self, seconds: float) -> Solved:
        """The bound of the linear relaxation, if that takes no longer. Instead of `solve`."""
        self._close()
        if not self.rows.columns:
            return Solved(0.0, 0.0, optimal=True)
        bound = self.rows.solve(seconds, whole=False).bound
        sign = 1.0 if self.question.most else -1.0
        return Solved(-sign * bound if np.isfinite(bound) else None, None, optimal=False)

    def _close(self) -> None:
        for i in range(len(self.question.bids)):
            low = 0.0 if self.question.most else 1.0
            self.rows.row([(column, 1.0) for column, _ in self._ends[i]], low=low, high=1.0)

    def _read(self, solution: Solution) -> Solved:
        sign = 1.0 if self.question.most else -1.0
        found = None if solution.values is None else self._total(solution.values)
        worth = -solution.bound
        if found is not None and solution.optimal:
            # The solver's objective is a sum of doubles times near-binaries; this is the schedule's own.
            worth = found
        bound = sign * worth if np.isfinite(worth) else None
        return Solved(bound, None if found is None else sign * found, solution.optimal)

    def _total(self, values: Floats) -> float:
        return sum(worth for ends in self._ends.values() for column, worth in ends if values[column] > 0.5)


class Cells:
    """What columns hold of each resource of each server in each slot, against what is free."""

    def __init__(self, programme: Programme) -> None:
        self._programme = programme
        self._free = programme.question.free()
        self._held: dict[tuple[int, int, int], list[tuple[int, float]]] = defaultdict(list)

    def hold(self, column: int, server: int, demand: Sequence[int], start: int, end: int) -> None:
        """A machine counted by this column holds `demand` in slots [start, end), counted from the start."""
        for r, units in enumerate(demand):
            if units:
                for t in range(start, end):
                    self._held[t, server, r].append((column, float(units)))

    def close(self) -> None:
        """Write the rows."""
        for (t, s, r), terms in self._held.items():
            self._programme.rows.row(terms, high=float(self._free[t, s, r]))
