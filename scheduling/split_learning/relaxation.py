"""Programs over who goes where: in parts a bound that holds for every plan, in whole clients candidates for plans."""

from typing import Any, Literal, cast

import numpy as np
import scipy

from scheduling.model.types import Floats, Ints
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.columns import Columns
from scheduling.split_learning.cuts import Cut, overbooked
from scheduling.split_learning.instance import Flags, Instance
from scheduling.split_learning.interval_rows import IntervalRows

METHOD: Literal["highs-ds"] = "highs-ds"


class Relaxation:
    """Makespan over assignments under the rows found so far (interval_rows.py)."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.rows = IntervalRows(instance)
        self._path = instance.path
        self._fits = instance.fits
        self._covers: list[Cut] = []
        """Sets of clients that are too large together for some helpers."""

    def allowed(self, makespan: int) -> Flags:
        """Return the helpers that each client may have if the makespan is at most this, I x J flags."""
        able: Flags = self._fits & (self._path <= makespan)
        return able

    def whole(self, makespan: int, cuts: list[Cut], left: Left) -> Ints | bool | None:
        """A helper for each client within memory, the rows so far and cuts, J; None if there is none; False if time is
        up.
        """
        while True:
            found = self._whole(makespan, [*cuts, *self._covers], left())
            if found is None or isinstance(found, bool):
                return found
            covers = overbooked(self.instance, found)
            if not covers:
                return found
            self._covers += covers
            if left() <= 0:
                return False

    def _whole(self, makespan: int, cuts: list[Cut], seconds: float) -> Ints | bool | None:
        """The same, with memory as the solver keeps it."""
        able = self.allowed(makespan)
        if not able.any(axis=0).all():
            return None
        columns = Columns(able)
        rows, right = self.rows.matrix(columns, makespan, makespan, whole=True)
        if cuts:
            matrix, most = _cut_rows(cuts, columns)
            rows, right = scipy.sparse.vstack([rows, matrix], format="csr"), np.concatenate([right, most])
        found = _integers(columns, rows, right, (makespan, makespan), seconds)
        if found.status == 2:
            return None
        return False if found.x is None else columns.assignment(found.x)

    def add_broken(self, assignment: Ints, makespan: int) -> bool:
        """Add rows that an assignment breaks; whether there were any."""
        share = np.zeros_like(self._path, dtype=np.float64)
        share[assignment, np.arange(len(assignment))] = 1.0
        return self.rows.separate(share, makespan, makespan)


def minimised(
    columns: Columns, rows: "scipy.sparse.csr_array", right: Floats, ranges: list[tuple[float, float]]
) -> "scipy.optimize.OptimizeResult | None":
    """Return the least makespan of clients in parts, and additional slots (IntervalRows.matrix), within these ranges.

    None if there is none. Raises RuntimeError if the solver fails.
    """
    cost = np.zeros(len(columns) + 2)
    cost[-2:] = 1.0
    limits = np.zeros((len(columns) + 2, 2))
    limits[:-2, 1] = np.inf
    limits[-2:] = ranges
    # The stubs know no sparse matrices here; milp does, and takes several times as long over a linear program.
    equal, unequal = cast(Any, columns.once()), cast(Any, rows)
    ones = np.ones(columns.allowed.shape[1])
    found = scipy.optimize.linprog(
        cost, A_ub=unequal, b_ub=right, A_eq=equal, b_eq=ones, bounds=cast(Any, limits), method=METHOD
    )
    if found.status == 2:
        return None
    if found.x is None or found.fun is None:
        raise RuntimeError(f"the solver gave up: {found.message}")
    return found


def _integers(
    columns: Columns, rows: "scipy.sparse.csr_array", right: Floats, span: tuple[int, int], seconds: float
) -> "scipy.optimize.OptimizeResult":
    """The least makespan in this range of whole clients."""
    low = np.append(np.zeros(len(columns)), [span[0], 0])
    high = np.append(np.ones(len(columns)), [span[1], 0])
    return scipy.optimize.milp(
        np.append(np.zeros(len(columns)), [1.0, 0.0]),
        integrality=np.append(np.ones(len(columns), dtype=np.int64), [0, 0]),
        bounds=scipy.optimize.Bounds(low, high),
        constraints=[
            scipy.optimize.LinearConstraint(rows, -np.inf, right),
            scipy.optimize.LinearConstraint(columns.once(), 1, 1),
        ],
        options={"time_limit": max(0.05, seconds)},
    )


def _cut_rows(cuts: list[Cut], columns: Columns) -> "tuple[scipy.sparse.csr_array, Floats]":
    at: list[Ints] = []
    row: list[Ints] = []
    most: list[float] = []
    for helpers, who, limit in cuts:
        for i in helpers:
            mine = columns.place[i][who]
            at.append(mine[mine >= 0])
            row.append(np.full(len(at[-1]), len(most)))
            most.append(float(limit))
    where = (np.concatenate(row), np.concatenate(at))
    matrix = scipy.sparse.coo_array((np.ones(len(where[0])), where), shape=(len(most), len(columns) + 2))
    return scipy.sparse.csr_array(matrix), np.array(most)
