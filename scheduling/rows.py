"""Integer programmes row by row, solved by HiGHS."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, inf, isfinite
from typing import Any, cast

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, vstack

from scheduling.arrays import Floats
from scheduling.errors import SchedulingError

NEAR = 1e-6
"""By how much a bound of the solver may be off."""


class SolverFailed(SchedulingError):
    """The solver stopped for a reason that is neither the optimum, infeasibility nor the limit of time."""


@dataclass(frozen=True)
class Solution:
    """What the solver found."""

    values: Floats | None
    """Of each column; None if nothing was found."""
    bound: float
    """No solution costs less; inf if there is none at all."""
    optimal: bool

    @property
    def feasible(self) -> bool:
        """Whether there may be a solution."""
        return self.bound < inf

    @property
    def whole_bound(self) -> int:
        """The bound where costs are whole numbers, 0 or more; 0 while there is none."""
        return ceil(self.bound - NEAR) if isfinite(self.bound) else 0


@dataclass(frozen=True)
class Relaxed:
    """The optimum of a linear programme."""

    values: Floats
    """Of each column."""
    cost: float
    prices: Floats
    """Of each row: what the optimum costs more for one more of its bound."""


class Rows:
    """Columns with costs and ranges, and rows with ranges."""

    def __init__(self) -> None:
        self._cost: list[float] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._whole: list[int] = []
        self._columns: list[int] = []
        self._values: list[float] = []
        self._starts = [0]
        self._least: list[float] = []
        self._most: list[float] = []

    @property
    def columns(self) -> int:
        """How many there are."""
        return len(self._cost)

    def column(self, low: float = 0.0, high: float = 1.0, *, cost: float = 0.0, whole: bool = True) -> int:
        """Add a column and return its number."""
        self._cost.append(cost)
        self._low.append(low)
        self._high.append(high)
        self._whole.append(int(whole))
        return len(self._cost) - 1

    def most(self, column: int) -> float:
        """The high end of a column's range."""
        return self._high[column]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._least)

    def row(self, terms: Iterable[tuple[int, float]], low: float = -inf, high: float = inf) -> None:
        """Add low <= sum of value x column <= high; terms of one column add up."""
        for column, value in terms:
            self._columns.append(column)
            self._values.append(value)
        self._starts.append(len(self._columns))
        self._least.append(low)
        self._most.append(high)

    def solve(self, seconds: float, *, gap: float = 0.0, whole: bool = True) -> Solution:
        """Minimise the cost, to this relative gap or for so many seconds; raises SolverFailed.

        Not `whole`: of the linear relaxation, whose values need not be whole numbers.
        """
        matrix = self._matrix()
        result = milp(
            np.array(self._cost),
            integrality=np.array(self._whole) * whole,
            bounds=Bounds(np.array(self._low), np.array(self._high)),
            constraints=LinearConstraint(matrix, np.array(self._least), np.array(self._most)),
            options={"mip_rel_gap": gap, "time_limit": max(0.0, seconds)},
        )
        if result.status == 2:
            return Solution(None, inf, optimal=True)
        if result.status not in (0, 1):
            raise SolverFailed(f"HiGHS: {result.message}")
        values = None if result.x is None else np.asarray(result.x, dtype=np.float64)
        if not whole:
            # Stopped before the optimum, a linear programme says nothing of what is left.
            return Solution(values, float(result.fun) if result.status == 0 else -inf, optimal=result.status == 0)
        bound = result.mip_dual_bound
        return Solution(values, -inf if bound is None else float(bound), optimal=result.status == 0)

    def relax(self) -> Relaxed:
        """The linear relaxation with what each row costs; raises SolverFailed."""
        matrix, least, most = self._matrix(), np.array(self._least), np.array(self._most)
        same, low, high = least == most, np.isfinite(least) & (least < most), np.isfinite(most) & (least < most)
        # The stubs know no sparse matrices here; the solver does.
        equal, unequal = cast(Any, matrix[same]), cast(Any, vstack([matrix[high], -matrix[low]], format="csr"))
        result = linprog(
            np.array(self._cost),
            A_ub=unequal,
            b_ub=np.concatenate([most[high], -least[low]]),
            A_eq=equal,
            b_eq=most[same],
            bounds=list(zip(self._low, self._high, strict=True)),
            method="highs",
        )
        if result.status != 0:
            raise SolverFailed(f"HiGHS: {result.message}")
        prices = np.zeros(self.count)
        prices[same] = result.eqlin.marginals
        above, below = np.split(result.ineqlin.marginals, [int(high.sum())])
        prices[high] += above
        prices[low] -= below
        values = np.asarray(result.x, dtype=np.float64)
        return Relaxed(values, float(np.array(self._cost) @ values), prices)

    def _matrix(self) -> csr_array:
        matrix = csr_array((self._values, self._columns, self._starts), shape=(self.count, self.columns))
        matrix.sum_duplicates()
        return matrix
