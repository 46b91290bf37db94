"""Good schedules for welfare: jobs take their best response one after another, at prices that a bound was proved by."""

from collections.abc import Callable, Iterable
from itertools import product

import numpy as np

from scheduling.best_response.base import Response
from scheduling.best_response.elastic import kernel as elastic
from scheduling.best_response.elastic.kernel import ElasticIndex
from scheduling.best_response.rigid import kernel as rigid
from scheduling.best_response.rigid.kernel import RigidIndex
from scheduling.model.bid import Architecture, Bid
from scheduling.model.types import Floats, Ints
from scheduling.offline.problem import Covers, OfflineProblem
from scheduling.solvers.time_limit import Left

SCALES = (1.0, 0.5, 0.0)
"""Factors of the prices: full prices admit too little, and without prices late jobs find no room."""
CALLS = 1_000
"""Largest number of best responses for one order and its improvement."""

Kernel = Callable[[Bid, Ints, Floats], Response | None]


def greedy(problem: OfflineProblem, prices: Floats, left: Left) -> float | None:
    """Return the total value of the best schedule found, complete by the end, money; None if no time was left.

    Parameters
    ----------
    problem
        About welfare.
    prices
        T x R, money per unit: in the order of payoffs at these prices, and in the order given, jobs take the best
        response that has room; those who find none above their price try again at no price.

    Notes
    -----
    A schedule of whole machines, which the ledger of a market could hold; rigid or elastic as the problem has it,
    both where it covers any.
    """
    kernels: list[Kernel] = []
    if problem.covers in (Covers.ANY, Covers.RIGID):
        kernels.append(_rigid(problem))
    if problem.covers in (Covers.ANY, Covers.ELASTIC) and _can_be_elastic(problem):
        kernels.append(_elastic(problem))
    whole = np.repeat(prices[:, None, :], len(problem.inventory.servers), axis=1)
    best = None
    for kernel, scale in product(kernels, SCALES):
        offer = scale * whole
        payoffs = [_payoff(kernel(bid, _used(problem), offer)) for bid in problem.bids]
        for order in (np.argsort([-payoff for payoff in payoffs], kind="stable").tolist(), list(range(len(payoffs)))):
            if left() <= 0.0:
                return best
            earned = _improved(problem, kernel, order, offer, left)
            best = earned if best is None else max(best, earned)
    return best


def _improved(problem: OfflineProblem, kernel: Kernel, order: list[int], prices: Floats, left: Left) -> float:
    """Improve the order by moving each job in turn to the front, if the value rises; return the best value."""
    best = _pack(problem, kernel, order, prices, left)
    calls = len(order)
    for i in list(order):
        calls += len(order)
        if calls > CALLS or left() <= 0.0:
            break
        other = [i, *(j for j in order if j != i)]
        earned = _pack(problem, kernel, other, prices, left)
        if earned > best:
            best, order = earned, other
    return best


def _pack(problem: OfflineProblem, kernel: Kernel, order: Iterable[int], prices: Floats, left: Left) -> float:
    """Return the total value of jobs that take their best responses in this order."""
    used, earned = _used(problem), 0.0
    waiting = list(order)
    for offer in (prices, np.zeros_like(prices)):
        later = []
        for i in waiting:
            response = kernel(problem.bids[i], used, offer) if left() > 0.0 else None
            if response is None:
                later.append(i)
                continue
            earned += response.value
            for p in response.schedule.placements:
                used[p.start - problem.start : p.end - problem.start, p.server] += p.units(problem.inventory)
        waiting = later
    return earned


def _used(problem: OfflineProblem) -> Ints:
    shape = (problem.slots, *problem.inventory.capacity.shape)
    return np.zeros(shape, dtype=np.int64) if problem.used is None else problem.used.copy()


def _rigid(problem: OfflineProblem) -> Kernel:
    index = RigidIndex(problem.inventory, problem.slots)

    def best(bid: Bid, used: Ints, prices: Floats) -> Response | None:
        return rigid.best_response(
            bid, problem.inventory, start=problem.start, used=used, prices=prices, tail=problem.tail, index=index
        )

    return best


def _elastic(problem: OfflineProblem) -> Kernel:
    index = ElasticIndex(problem.inventory, problem.slots)

    def best(bid: Bid, used: Ints, prices: Floats) -> Response | None:
        return elastic.best_response(bid, problem.inventory, start=problem.start, used=used, prices=prices, index=index)

    return best


def _can_be_elastic(problem: OfflineProblem) -> bool:
    """Whether no resource is demanded by workers and PSs, and every job has PSs: what the elastic kernel needs."""
    inventory = problem.inventory
    shared = (inventory.worker_demand > 0).any(axis=0) & (inventory.ps_demand > 0).any(axis=0)
    return not shared.any() and all(bid.architecture is Architecture.PS for bid in problem.bids)


def _payoff(response: Response | None) -> float:
    return 0.0 if response is None else response.payoff
