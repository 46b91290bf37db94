"""Integer programs row by row, solved by HiGHS."""

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
"""By how much a bound of the solver may be off."""
FINEST = 10_000
"""Largest coefficient that capacity rows pass to the solver."""


class SolverFailed(SchedulingError):
    """The solver stopped for a reason that is neither the optimum, infeasibility nor the limit of time."""


@dataclass(frozen=True)
class Solution:
    """What the solver found."""

    values: Floats | None
    """Of each column; None if nothing was found."""
    bound: float
    """Lower bound on the cost of every solution; inf if the program is infeasible."""
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
    """The optimum of a linear program."""

    values: Floats
    """Of each column."""
    cost: float
    prices: Floats
    """Of each row: what the optimum costs more for one more of its bound."""


class Room(NamedTuple):
    """What columns take of something, and how much of it there is."""

    terms: list[tuple[int, int]]
    """Columns, and what one takes."""
    there: int

    def taken(self, values: Floats) -> int:
        """In Python's whole numbers, which have no end."""
        return sum(value * int(values[column]) for column, value in self.terms)

    def fewest(self, values: Floats) -> dict[int, int]:
        """Of what takes too much: as little of each column as still does."""
        spare = self.taken(values) - self.there
        left = {}
        # Small ones are left out first: few large ones say more.
        for column, value in sorted(self.terms, key=lambda term: term[1]):
            count = int(values[column])
            out = min(count, (spare - 1) // value)
            spare -= out * value
            if out < count:
                left[column] = count - out
        return left


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
        self._rooms: list[Room] = []
        """Those that rows tell rounded."""

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

    def room(self, terms: Iterable[tuple[int, int]], there: int) -> None:
        """Add sum of value x column <= there, to the unit: of whole columns from 0 up, and no value below 0.

        Notes
        -----
        Numbers that are a millionth apart are the same to a solver in one place and not in the next: it has filled
        servers beyond their capacity, and called too small what was enough. So it is told large ones rounded down, by
        which nothing that fits is lost; what keeps them and does not fit, `solve` forbids.
        """
        room = Room([(column, value) for column, value in terms if value], there)
        common = gcd(*(value for _, value in room.terms)) or 1
        unit = common * max(1, ceil(max((value for _, value in room.terms), default=0) / common / FINEST))
        if unit > common:
            self._rooms.append(room)
        self.row([(column, value // unit) for column, value in room.terms if value >= unit], high=there // unit)

    def solve(self, left: Left, *, gap: float = 0.0, whole: bool = True) -> Solution:
        """Minimise the cost, to this relative gap or for as long as there is time; raises SolverFailed.

        Not `whole`: of the linear relaxation, whose values need not be whole numbers, nor keep room but as rounded.
        """
        while True:
            found = self._solve(left(), gap, whole)
            if found.values is None or not whole or not self._forbid(np.rint(found.values)):
                return found
            if left() <= 0:
                return Solution(None, found.bound, optimal=False)

    def _forbid(self, values: Floats) -> bool:
        """Rule out what takes more room than there is; whether anything does."""
        broken = [room for room in self._rooms if room.taken(values) > room.there]
        # Once each, in order: equal rooms are often broken by the same.
        too_much: dict[tuple[int, ...], None] = {}
        for room in broken:
            few = room.fewest(values)
            if all(self.most(column) <= 1 for column in few):
                self._not_all(room, few)
                continue
            size = dict(room.terms)
            too_much[tuple(sorted((size[c] for c, count in few.items() for _ in range(count)), reverse=True))] = None
        for sizes, room in product(too_much, self._rooms):
            self._fewer(room, sizes)
        return bool(broken)

    def _not_all(self, room: Room, few: Collection[int]) -> None:
        """Not all of these columns, nor as many of them and larger ones."""
        largest = max(value for column, value in room.terms if column in few)
        alike = [c for c, value in room.terms if c in few or (value >= largest and self.most(c) <= 1)]
        self.row([(column, 1.0) for column in alike], high=len(few) - 1)

    def _fewer(self, room: Room, sizes: Sequence[int]) -> None:
        """Not as many of each of these sizes or larger, where that is too much and there may be so many."""
        least = {size: n for n, size in enumerate(sizes, 1)}
        larger = {size: [column for column, value in room.terms if value >= size] for size in least}
        most = {size: sum(self.most(column) for column in columns) for size, columns in larger.items()}
        if sum(sizes) <= room.there or any(most[size] < n for size, n in least.items()):
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
            # Stopped before the optimum, a linear program says nothing of what is left.
            return Solution(values, float(result.fun) if result.status == 0 else -inf, optimal=result.status == 0)
        bound = result.mip_dual_bound
        return Solution(values, -inf if bound is None else float(bound), optimal=result.status == 0)

    def relax(self) -> Relaxed:
        """The linear relaxation with what each row costs; raises SolverFailed."""
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
        matrix = scipy.sparse.csr_array((self._values, self._columns, self._starts), shape=(self.count, self.columns))
        matrix.sum_duplicates()
        return matrix


@lru_cache(maxsize=1000)
def same_ceilings(ratio: Fraction, most: int) -> Fraction:
    """A number of denominator `most` or less whose multiples, up to `most`, have the same ceilings as those of `ratio`.

    With small denominators no multiple is so close to a whole number that the solver would take it for one.
    """
    return min(Fraction(ceil(count * ratio), count) for count in range(1, most + 1))
