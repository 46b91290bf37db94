"""The bound of the linear program: the columns that may matter are found by their reduced costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from scheduling.model.types import Floats, Ints
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.columns import Columns
from scheduling.split_learning.instance import Flags, Instance
from scheduling.split_learning.interval_rows import TOLERANCE
from scheduling.split_learning.relaxation import Relaxation, minimised
from scheduling.split_learning.state import NOBODY

NEAR = 10
"""Number of helpers with the shortest paths, which each client may have at first and which the search always tries."""
MORE = 5
"""Number of helpers with the least reduced costs that are added at a time."""
KEPT_SHARE = 0.25
"""A column stays while its reduced cost, slots, is at most this part of a helper's share of the price of a slot."""
CLOSE = 1.0
"""Distance of a program from its bound, slots, below which there are enough columns and others may be removed."""
SETTLED = 4
"""Number of programs within which the bound has to rise by `RISES`."""
RISES = 0.01
"""Least rise of the bound, slots."""


@dataclass(frozen=True)
class Bounded:
    """The result of one more program."""

    low: int
    """No plan ends earlier, slots."""
    share: Floats
    """Part of each client that each helper has in the last program, I x J."""
    useful: Flags
    """Helpers that may matter for a client, I x J."""


class Prices:
    """Tests makespans: whether clients in parts fit, with a few of the columns, rows and columns found as needed.

    The program's makespan is elastic, so what it lacks is a number and not only a refusal. By its duals no solution
    with all columns ends before its optimum plus, for each client, the least reduced cost if that is negative
    (Lagrange): a bound while columns are still missing.
    """

    def __init__(self, relaxation: Relaxation, assignment: Ints) -> None:
        self.relaxation = relaxation
        path = np.where(relaxation.instance.fits, relaxation.instance.path, np.iinfo(np.int64).max)
        self._near: Flags = np.zeros(path.shape, dtype=np.bool_)
        np.put_along_axis(self._near, np.argsort(path, axis=0, kind="stable")[:NEAR], True, axis=0)
        self.active = self._near.copy()
        self.active[assignment, np.arange(len(assignment))] = True
        self._kept_cost = KEPT_SHARE / len(path)
        self.low = 0
        """Proven lower bound on the makespan, slots; also set where a program has no solution."""

    def rise(self, low: int, high: int, left: Left) -> Iterator[Bounded]:
        """Raise the bound: test `high` and then one makespan after another from the bound that this gave, until clients
        in parts fit or time is up.
        """
        test, best, since = high, -inf, 0
        while low <= high and left() > 0:
            allowed = self.relaxation.allowed(test)
            answer = self._program(allowed, low, test) if allowed.any(axis=0).all() else None
            if answer is None:
                low = self.low = test + 1
                test, best, since = low, -inf, 0
                continue
            span, bound, share, changed = answer
            since = 0 if bound > best + RISES or span > bound + CLOSE else since + 1
            best = max(best, bound)
            low = max(low, min(ceil(bound - TOLERANCE * test), test + 1))
            yield Bounded(low, share, self.active | self._near | (share > 0))
            if low > test or not changed or since >= SETTLED:
                if test == low:
                    break
                test, best, since = low, -inf, 0

    def _program(self, allowed: Flags, low: int, test: int) -> tuple[float, float, Floats, bool] | None:
        """Makespan and bound of one program, its solution, and whether rows or columns were missing; None if even all
        columns have no solution.
        """
        everything = Columns(allowed)
        chosen = allowed & self.active
        chosen |= allowed & ~chosen.any(axis=0)
        rows, right = self.relaxation.rows.matrix(everything, low, test, whole=False)
        columns = Columns(chosen)
        at = np.concatenate([everything.place.ravel()[columns.pairs], len(everything) + np.arange(2)])
        found = minimised(columns, rows[:, at], right, [(low, inf), (0, inf)])
        if found is None:
            # Memory: a plan's own columns may end later than this test allows.
            if chosen.sum() == allowed.sum():
                return None
            self.active |= allowed
            return self._program(allowed, low, test)
        cost = np.full(allowed.shape, inf)
        cost[allowed] = -(rows.T @ found.ineqlin.marginals)[:-2] - found.eqlin.marginals[everything.clients]
        bound = float(found.fun + np.minimum(cost.min(axis=0), 0).sum())
        if found.fun <= bound + CLOSE:
            self.active &= ~(np.isfinite(cost) & (cost > self._kept_cost))
        missing = self._price(cost)
        share = columns.share(found.x)
        broken = self.relaxation.rows.separate(share, float(found.x[-2]), test)
        return float(found.fun), bound, share, broken or missing

    def _price(self, cost: Floats) -> bool:
        """Let columns come by reduced costs, I x J; whether any was missing."""
        least = np.argsort(cost, axis=0, kind="stable")[:MORE]
        missing = np.take_along_axis(cost, least, axis=0) < -TOLERANCE
        here = np.take_along_axis(self.active, least, axis=0)
        np.put_along_axis(self.active, least, here | missing, axis=0)
        return bool((missing & ~here).any())


def mostly(instance: Instance, share: Floats) -> Ints:
    """The helper that has most of each client, J, as memory allows; -1 for the others. `share`: I x J."""
    assignment = np.full(share.shape[1], NOBODY, dtype=np.int64)
    room = instance.capacity.copy()
    for j in np.argsort(-share.max(axis=0), kind="stable"):
        part = np.where(room >= instance.demand[j], share[:, j], 0)
        i = int(part.argmax())
        if part[i] > 0:
            assignment[j] = i
            room[i] -= instance.demand[j]
    return assignment
