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
from scheduling.offline.question import Covers, Question
from scheduling.solvers.time_limit import Left

SCALES = (1.0, 0.5, 0.0)
"""Of the prices: at the full ones too little is admitted, at none those who come late find nothing."""
CALLS = 1_000
"""Of the kernel, for one order and what is made of it."""

Kernel = Callable[[Bid, Ints, Floats], Response | None]


def greedy(question: Question, prices: Floats, left: Left) -> float | None:
    """What the best schedule found earns, money, complete by the end; None where no time was left for one.

    Parameters
    ----------
    question
        About welfare.
    prices
        T x R, money per unit: in the order of payoffs at these prices, and in the order given, jobs take the best
        response that has room; those who find none above their price try again at no price.

    Notes
    -----
    A schedule of whole machines, which the ledger of a market could hold; rigid or elastic as the question has it,
    both where it covers any.
    """
    kernels: list[Kernel] = []
    if question.covers in (Covers.ANY, Covers.RIGID):
        kernels.append(_rigid(question))
    if question.covers in (Covers.ANY, Covers.ELASTIC) and _can_be_elastic(question):
        kernels.append(_elastic(question))
    whole = np.repeat(prices[:, None, :], len(question.inventory.servers), axis=1)
    best = None
    for kernel, scale in product(kernels, SCALES):
        offer = scale * whole
        payoffs = [_payoff(kernel(bid, _used(question), offer)) for bid in question.bids]
        for order in (np.argsort([-payoff for payoff in payoffs], kind="stable").tolist(), list(range(len(payoffs)))):
            if left() <= 0.0:
                return best
            earned = _improved(question, kernel, order, offer, left)
            best = earned if best is None else max(best, earned)
    return best


def _improved(question: Question, kernel: Kernel, order: list[int], prices: Floats, left: Left) -> float:
    """Also with each job in turn put first, where that is better."""
    best = _pack(question, kernel, order, prices, left)
    calls = len(order)
    for i in list(order):
        calls += len(order)
        if calls > CALLS or left() <= 0.0:
            break
        other = [i, *(j for j in order if j != i)]
        earned = _pack(question, kernel, other, prices, left)
        if earned > best:
            best, order = earned, other
    return best


def _pack(question: Question, kernel: Kernel, order: Iterable[int], prices: Floats, left: Left) -> float:
    """What jobs earn that take their best response in this order."""
    used, earned = _used(question), 0.0
    waiting = list(order)
    for offer in (prices, np.zeros_like(prices)):
        later = []
        for i in waiting:
            response = kernel(question.bids[i], used, offer) if left() > 0.0 else None
            if response is None:
                later.append(i)
                continue
            earned += response.value
            for p in response.schedule.placements:
                demand = np.array(p.machine(question.inventory).demand, dtype=np.int64)
                used[p.start - question.start : p.end - question.start, p.server] += p.count * demand
        waiting = later
    return earned


def _used(question: Question) -> Ints:
    shape = (question.slots, *question.inventory.capacity.shape)
    return np.zeros(shape, dtype=np.int64) if question.used is None else question.used.copy()


def _rigid(question: Question) -> Kernel:
    index = RigidIndex(question.inventory, question.slots)

    def best(bid: Bid, used: Ints, prices: Floats) -> Response | None:
        return rigid.best_response(
            bid, question.inventory, start=question.start, used=used, prices=prices, tail=question.tail, index=index
        )

    return best


def _elastic(question: Question) -> Kernel:
    index = ElasticIndex(question.inventory, question.slots)

    def best(bid: Bid, used: Ints, prices: Floats) -> Response | None:
        return elastic.best_response(
            bid, question.inventory, start=question.start, used=used, prices=prices, index=index
        )

    return best


def _can_be_elastic(question: Question) -> bool:
    """Whether no resource is demanded by workers and PSs, and every job has PSs: what the elastic kernel needs."""
    inventory = question.inventory
    shared = (inventory.worker_demand > 0).any(axis=0) & (inventory.ps_demand > 0).any(axis=0)
    return not shared.any() and all(bid.architecture is Architecture.PS for bid in question.bids)


def _payoff(response: Response | None) -> float:
    return 0.0 if response is None else response.payoff
