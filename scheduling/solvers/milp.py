"""Integer programs, built column by column and row by row, and solved by HiGHS."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import ceil, gcd, inf, isfinite
from typing import Any, NamedTuple

import numpy as np
import scipy

from scheduling.model.errors import SchedulingError
from scheduling.model.types import Floats
from scheduling.solvers.time_limit import Left

NEAR = 1e-6
"""Largest error of a bound that the solver returns."""
FINEST = 1_000
"""Largest coefficient of a capacity row as the solver gets it: from 5,000 on, presolve of HiGHS 1.12 has returned wrong
optima where coefficients differ from multiples of each other by one."""


class SolverFailed(SchedulingError):
    """The solver stopped for a reason that is neither the optimum, infeasibility nor the limit of time."""


@dataclass(frozen=True)
class Solution:
    """The result of a run of the solver."""

    values: Floats | None
    """Value of each column; None if no solution was found."""
    bound: float
    """Lower bound on the cost of every solution; inf if the program is infeasible."""
    optimal: bool

    @property
    def feasible(self) -> bool:
        """Whether there may be a solution."""
        return self.bound < inf

    @property
    def whole_bound(self) -> int:
        """The lower bound if all costs are whole numbers of at least 0; 0 if no bound is known."""
        return ceil(self.bound - NEAR) if isfinite(self.bound) else 0


@dataclass(frozen=True)
class Relaxed:
    """The optimum of a linear program."""

    values: Floats
    """Value of each column."""
    cost: float
    prices: Floats
    """Dual price of each row: the increase of the optimum for one more unit of the row's bound."""


class CapacityRow(NamedTuple):
    """A capacity and the columns that use it."""

    terms: list[tuple[int, int]]
    """Columns, each with the units that one of it uses."""
    capacity: int

    def use(self, values: Floats) -> int:
        """Return the units in use, exactly: integers of Python have no largest value."""
        return sum(value * int(values[column]) for column, value in self.terms)

    def cover(self, values: Floats) -> dict[int, int]:
        """Return a minimal cover: counts of columns that exceed the capacity, and no longer do with one less."""
        excess = self.use(values) - self.capacity
        left = {}
        # Columns of little use are left out first: a cover of few large ones gives a stronger cut.
        for column, value in sorted(self.terms, key=lambda term: term[1]):
            count = int(values[column])
            out = min(count, (excess - 1) // value)
            excess -= out * value
            if out < count:
                left[column] = count - out
        return left


class IntegerProgram:
    """Columns with costs and ranges, and rows with ranges.

    Examples
    --------
    Maximise x + y over whole numbers with 2 x + 2 y <= 3:

    >>> from scheduling.solvers.milp import IntegerProgram
    >>> from scheduling.solvers.time_limit import unlimited
    >>> program = IntegerProgram()
    >>> x, y = program.column(high=5, cost=-1.0), program.column(high=5, cost=-1.0)
    >>> program.row([(x, 2.0), (y, 2.0)], high=3.0)
    >>> solution = program.solve(unlimited)
    >>> solution.optimal, round(solution.bound, 6)
    (True, -1.0)
    """

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
        self._built: scipy.sparse.csr_array | None = None
        """The matrix of all rows and columns when it was last needed."""
        self._rounded: list[CapacityRow] = []
        """Capacity rows whose coefficients the solver gets rounded down."""

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self._cost)

    def column(self, low: float = 0.0, high: float = 1.0, *, cost: float = 0.0, whole: bool = True) -> int:
        """Add a column and return its number."""
        self._cost.append(cost)
        self._low.append(low)
        self._high.append(high)
        self._whole.append(int(whole))
        return len(self._cost) - 1

    def counts(self, most: Sequence[float], *, cost: float = 0.0) -> range:
        """Add a column of whole numbers from 0 to each of these, all at the same cost, and return their numbers."""
        first = len(self._cost)
        self._cost += [cost] * len(most)
        self._low += [0.0] * len(most)
        self._high += most
        self._whole += [1] * len(most)
        return range(first, len(self._cost))

    def most(self, column: int) -> float:
        """Return the upper end of a column's range."""
        return self._high[column]

    def fix(self, column: int, value: float) -> None:
        """Give a column one value."""
        self._low[column] = self._high[column] = value

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self._least)

    def row(self, terms: Iterable[tuple[int, float]], low: float = -inf, high: float = inf) -> None:
        """Add low <= sum of value x column <= high; terms of one column add up."""
        terms = list(terms)
        self._columns += [column for column, _ in terms]
        self._values += [value for _, value in terms]
        self._starts.append(len(self._columns))
        self._least.append(low)
        self._most.append(high)

    def capacity_row(self, terms: Iterable[tuple[int, int]], capacity: int) -> None:
        """Add sum of value x column <= capacity, exact to the unit, for whole columns and values of at least 0.

        Notes
        -----
        The solver's tolerance is relative: with large coefficients it has filled servers beyond their capacity, and has
        called a program infeasible that was feasible. So large coefficients are rounded down, which loses no solution;
        `solve` adds a cut for every solution that satisfies the rounded rows and exceeds a capacity.
        """
        room = CapacityRow([(column, value) for column, value in terms if value], capacity)
        common = gcd(*(value for _, value in room.terms)) or 1
        unit = common * max(1, ceil(max((value for _, value in room.terms), default=0) / common / FINEST))
        if unit > common:
            self._rounded.append(room)
        self.row([(column, value // unit) for column, value in room.terms if value >= unit], high=capacity // unit)

    def solve(self, left: Left, *, gap: float = 0.0, whole: bool = True) -> Solution:
        """Minimise the cost to a relative gap, or until no time is left.

        Parameters
        ----------
        left
            Returns the seconds that are left.
        gap
            Relative gap between cost and bound at which the solver may stop.
        whole
            False: solve the linear relaxation, in which columns may be fractional and capacity rows are rounded.

        Raises
        ------
        SolverFailed
            If the solver stops for a reason other than the optimum, infeasibility or the time limit.
        """
        while True:
            found = self._solve(left(), gap, whole)
            if found.values is None or not whole or not self._forbid(np.rint(found.values)):
                return found
            if left() <= 0:
                return Solution(None, found.bound, optimal=False)

    def _forbid(self, values: Floats) -> bool:
        """Add a cut for every capacity that these values exceed; return whether there is one."""
        broken = [room for room in self._rounded if room.use(values) > room.capacity]
        # Each cover once, in order: equal servers are often exceeded by the same sizes.
        too_much: dict[tuple[int, ...], None] = {}
        for room in broken:
            cover = room.cover(values)
            if all(self.most(column) <= 1 for column in cover):
                self._not_all(room, cover)
                continue
            size = dict(room.terms)
            too_much[tuple(sorted((size[c] for c, count in cover.items() for _ in range(count)), reverse=True))] = None
        for sizes, room in product(too_much, self._rounded):
            self._fewer(room, sizes)
        return bool(broken)

    def _not_all(self, room: CapacityRow, cover: Collection[int]) -> None:
        """Add the extended cover inequality: fewer of these columns and of larger ones than the cover has."""
        largest = max(value for column, value in room.terms if column in cover)
        alike = [c for c, value in room.terms if c in cover or (value >= largest and self.most(c) <= 1)]
        self.row([(column, 1.0) for column in alike], high=len(cover) - 1)

    def _fewer(self, room: CapacityRow, sizes: Sequence[int]) -> None:
        """Forbid as many columns of each of these sizes or larger, if they exceed the capacity and can occur."""
        least = {size: n for n, size in enumerate(sizes, 1)}
        larger = {size: [column for column, value in room.terms if value >= size] for size in least}
        most = {size: sum(self.most(column) for column in columns) for size, columns in larger.items()}
        if sum(sizes) <= room.capacity or any(most[size] < n for size, n in least.items()):
            return
        reached = []
        for size, n in least.items():
            reached.append((self.column(), 1.0))
            # 1 where there are n or more.
            some = [(column, 1.0) for column in larger[size]]
            self.row([*some, (reached[-1][0], n - 1 - most[size])], high=n - 1)
        self.row(reached, high=len(reached) - 1)

    def _solve(self, seconds: float, gap: float, whole: bool) -> Solution:
        matrix = self._matrix()
        result = scipy.optimize.milp(
            np.array(self._cost),
            integrality=np.array(self._whole) * whole,
            bounds=scipy.optimize.Bounds(np.array(self._low), np.array(self._high)),
            constraints=scipy.optimize.LinearConstraint(matrix, np.array(self._least), np.array(self._most)),
            options={"mip_rel_gap": gap, "time_limit": max(0.0, seconds)},
        )
        if result.status == 2:
            return Solution(None, inf, optimal=True)
        if result.status not in (0, 1):
            raise SolverFailed(f"HiGHS: {result.message}")
        values = None if result.x is None else np.asarray(result.x, dtype=np.float64)
        if not whole:
            # A linear program that was stopped before the optimum gives no bound.
            return Solution(values, float(result.fun) if result.status == 0 else -inf, optimal=result.status == 0)
        bound = result.mip_dual_bound
        return Solution(values, -inf if bound is None else float(bound), optimal=result.status == 0)

    def relax(self) -> Relaxed:
        """Solve the linear relaxation and return the dual price of each row; raises SolverFailed."""
        matrix, least, most = self._matrix(), np.array(self._least), np.array(self._most)
        same, low, high = least == most, np.isfinite(least) & (least < most), np.isfinite(most) & (least < most)
        # The stubs know no sparse matrices here; the solver does.
        equal: Any = matrix[same]
        unequal: Any = scipy.sparse.vstack([matrix[high], -matrix[low]], format="csr")
        result = scipy.optimize.linprog(
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

    def _matrix(self) -> "scipy.sparse.csr_array":
        shape = self.count, self.columns
        if self._built is None or self._built.shape != shape:
            self._built = scipy.sparse.csr_array((self._values, self._columns, self._starts), shape=shape)
            self._built.sum_duplicates()
        return self._built


@lru_cache(maxsize=1000)
def same_ceilings(ratio: Fraction, most: int) -> Fraction:
    """Return a number of denominator `most` or less whose multiples, up to `most`, have the same ceilings as those of
    `ratio`.

    With small denominators no multiple is so close to a whole number that the solver would take it for one.

    Examples
    --------
    >>> from fractions import Fraction
    >>> same_ceilings(Fraction(333, 1000), 4)
    Fraction(1, 3)
    """
    return min(Fraction(ceil(count * ratio), count) for count in range(1, most + 1))
