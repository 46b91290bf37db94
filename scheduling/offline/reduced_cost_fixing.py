"""Reduced-cost fixing: columns that no schedule better than the incumbent uses, by prices of the relaxation."""

from typing import Protocol

import numpy as np

from scheduling.best_response.divided.kernel import Modes, respond
from scheduling.model.types import Floats, Ints
from scheduling.offline.duality import Market, Proof
from scheduling.offline.fluid import Fluid, make_fluid
from scheduling.offline.problem import OfflineProblem

SLACK = 1e-7
"""Relative tolerance of comparisons, so that rounding does not remove a column that is equally good."""


class Filter(Protocol):
    """The columns that a program may have."""

    incumbent: float
    """Value of the incumbent; excluded columns lead to no better value. Larger is better for every objective."""

    def completes(self, i: int, at: int) -> bool:
        """Whether job i may be complete at this slot, counted from the start; T + 1: later than the end."""

    def holds(self, i: int, at: int, use: Ints, start: int, end: int) -> bool:
        """Whether it may also hold G resources and rounding cuts in all slots [start, end)."""


class ReducedCostFixing:
    """Whether a schedule with some column can be as good as the incumbent.

    With the bound B = sum_j best_j + capacity sold that prices prove, a schedule in which job j has a payoff of x at
    these prices has at most B - best_j + x.
    """

    def __init__(self, problem: OfflineProblem, proof: Proof, incumbent: float) -> None:
        self.incumbent = incumbent if problem.most else -incumbent
        """More is better, whatever the objective."""
        self._fluid = make_fluid(problem)
        market = Market(self._fluid)
        self._value = market.ask(proof.prices * self._fluid.supply).value
        self._best = market.best.copy()
        self._prices = proof.prices
        before = np.zeros((1, self._prices.shape[1]))
        self._sold = np.concatenate([before, np.cumsum(self._prices, axis=0)])
        self._by_slot = _payoffs(self._fluid, self._prices)

    def completes(self, i: int, at: int) -> bool:
        """Whether job i may be complete at this slot, counted from the start; T + 1: later than the end."""
        later = at > len(self._prices)
        return self._may(i, float(self._fluid.value_at[i, -1] if later else self._by_slot[i, at]))

    def holds(self, i: int, at: int, use: Ints, start: int, end: int) -> bool:
        """Whether it may also hold G resources and rounding cuts in all slots [start, end)."""
        cost = float(use @ (self._sold[end] - self._sold[start]))
        return self._may(i, float(self._fluid.value_at[i, at]) - cost)

    def _may(self, i: int, payoff: float) -> bool:
        slack = SLACK * (abs(self._value) + abs(self.incumbent) + abs(float(self._best[i])))
        return self._value - float(self._best[i]) + payoff >= self.incumbent - slack


def _payoffs(fluid: Fluid, prices: Floats) -> Floats:
    """Worth less the least cost of completion by slot 0..T, J x (T + 1); minus infinity where that cannot be."""
    slots = len(prices)
    found = np.full((len(fluid.value_at), slots + 1), -np.inf)
    for i, value_at in enumerate(fluid.value_at):
        rows = np.arange(fluid.modes.begin[i], fluid.modes.begin[i + 1])
        copies = np.tile(rows, slots + 1)
        # A job for each completion, which is worth something until then only.
        modes = Modes(
            np.arange(slots + 2) * len(rows),
            fluid.modes.speed[copies],
            fluid.modes.use[copies],
            fluid.modes.first[copies],
        )
        until = np.full((slots + 1, slots + 2), -np.inf)
        for at in range(slots + 1):
            until[at, : at + 1] = value_at[at]
        nobody = np.zeros(slots + 1, dtype=np.bool_)
        respond(modes, prices, until, nobody, found[i], np.zeros(slots + 1, np.int64), np.zeros_like(prices))
    return found
