"""Bounds by weak duality: prices for what all servers have together, and every job at its best at these prices."""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.divided.kernel import respond
from scheduling.model.errors import InvalidField
from scheduling.model.types import Floats
from scheduling.offline.fluid import Fluid, make_fluid
from scheduling.offline.problem import Answer, Covers, Kind, OfflineProblem
from scheduling.offline.subgradient import Reply, minimise
from scheduling.solvers.time_limit import Left

STEPS = 500
"""Largest number of steps, usually far more than necessary."""
BEYOND = 1e6
"""Price of a unit that does not exist, as a multiple of the largest value of a job."""
ROUNDING = 1e-11
"""Share of the sum of all terms that is added to a bound, so that rounding does not make it invalid."""


class Proof(NamedTuple):
    """A bound with the prices that prove it."""

    answer: Answer
    prices: Floats
    """Prices of a unit of each resource and rounding cut, T x G, R resources first: money, or the objective's unit."""


def lagrangian(problem: OfflineProblem, left: Left, *, steps: int = STEPS) -> Proof:
    """Return the best bound that prices of divided jobs prove, within this number of steps and the time that is left.

    Parameters
    ----------
    problem
        Which schedules are covered: ANY, ELASTIC or RIGID; QUEUED is looked at as ANY here.

    Raises
    ------
    InvalidField
        If a job has to be complete by the end and cannot be, even alone.

    Notes
    -----
    For prices p >= 0 of capacity c: welfare <= sum_j max(0, max_e value_j(e) - cost_j(e; p)) + sum p c, and e of a
    completion later than the end costs nothing. cost_j(e; p) is the least cost of the job's work in slots before e,
    divided at will (`best_response.divided`), which is no more than what any schedule covered costs (`fluid`). The
    same with value = -weight x completion, if no job may be rejected, bounds a sum that is minimised. All terms at
    once take O(J T log T) for one mode a job.
    """
    market = Market(make_fluid(problem))
    mu = np.zeros_like(market.fluid.supply)
    alone = market.ask(mu)
    if not np.isfinite(alone.value):
        late = problem.bids[int(np.flatnonzero(~np.isfinite(market.best))[0])]
        raise InvalidField(
            "end",
            f"expected an end by which each job alone can be complete, got {problem.end}, too early for job {late.id}",
        )
    known = problem.known
    floor = None if known is None else known if problem.most else -known
    found = minimise(market.ask, mu, left, known=floor, most=steps)
    value, kind = (alone.value, Kind.ALONE) if alone.value <= found.value else (found.value, Kind.LAGRANGIAN)
    answer = Answer(kind, _covered(problem.covers), market.fluid.total(value), known, found.steps)
    return Proof(answer, found.prices * market.per_unit)


def dual_at_prices(problem: OfflineProblem, prices: Floats) -> Answer:
    """Return the bound that given prices prove; otherwise as `lagrangian`.

    Parameters
    ----------
    prices
        Price of a unit in each slot, none negative: T x R, or with rounding cuts T x G.

    Raises
    ------
    InvalidField
        If the shape is another one, or a price is negative or not finite.
    """
    market = Market(make_fluid(problem))
    if prices.shape == (problem.slots, len(problem.inventory.resources)):
        prices = np.pad(prices, ((0, 0), (0, market.fluid.supply.shape[1] - prices.shape[1])))
    if prices.shape != market.fluid.supply.shape or not (np.isfinite(prices) & (prices >= 0.0)).all():
        raise InvalidField(
            "prices",
            f"expected {market.fluid.supply.shape} finite numbers of at least 0, got other values, {prices.shape}",
        )
    value = market.ask(prices * market.fluid.supply).value
    return Answer(Kind.DUAL_AT_PRICES, _covered(problem.covers), market.fluid.total(value), problem.known, 1)


def _covered(covers: Covers) -> Covers:
    """QUEUED schedules are looked at as any others."""
    return Covers.ANY if covers is Covers.QUEUED else covers


class Market:
    """Divided jobs and their answers to prices of the whole supply."""

    def __init__(self, fluid: Fluid) -> None:
        self.fluid = fluid
        jobs = len(fluid.problem.bids)
        self.best, self._until = np.zeros(jobs), np.zeros(jobs, np.int64)
        self._taken = np.zeros_like(fluid.supply)
        self._willing = np.full(jobs, fluid.willing)
        self.per_unit = np.divide(1.0, fluid.supply, out=np.zeros_like(fluid.supply), where=fluid.supply > 0)
        # What nobody can use is free and stays free; what is used up already is beyond price.
        self._scarce = (fluid.supply > 0) & (fluid.modes.use > 0).any(axis=0)
        gone = (fluid.supply <= 0) & (fluid.modes.use > 0).any(axis=0)
        values = fluid.value_at[np.isfinite(fluid.value_at)]
        self._beyond = np.where(gone, BEYOND * float(np.abs(values).max(initial=1.0)), 0.0)

    def ask(self, mu: Floats) -> Reply:
        """Return the value that prices of the whole supply prove, and a subgradient."""
        prices = np.where(self._scarce, mu * self.per_unit, self._beyond)
        fluid = self.fluid
        respond(fluid.modes, prices, fluid.value_at, self._willing, self.best, self._until, self._taken)
        spare = np.where(self._scarce, 1.0 - self._taken * self.per_unit, 0.0)
        earned, sold = float(self.best.sum()), float(mu[self._scarce].sum())
        return Reply(earned + sold + ROUNDING * (float(np.abs(self.best).sum()) + sold), spare)
