"""Answers of the rigid kernel in a form that is compared with its twin, and markets that ask for them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduling.best_response.base import slots_ahead
from scheduling.best_response.rigid.kernel import Response, RigidIndex, RigidKernel, best_response
from scheduling.book.ledger import Ledger
from scheduling.model.schedule import Role
from scheduling.model.types import Floats, Ints
from scheduling.pricing.price_function import eta_prices
from tests.scheduling.twins.prices_slow import random_reserve_prices
from tests.scheduling.twins.rigid_cases import random_bid, random_inventory
from tests.scheduling.twins.rigid_exact import Found, Problem


def answer(problem: Problem, above: float = 0.0, index: RigidIndex | None = None) -> Response | None:
    return best_response(
        problem.bid,
        problem.inventory,
        start=problem.start,
        used=problem.used,
        prices=problem.prices,
        above=above,
        first_start=problem.first_start,
        tail=problem.tail,
        index=index,
    )


def described(response: Response) -> tuple[object, ...]:
    workers = [p for p in response.schedule.placements if p.role is Role.WORKER]
    (ps,) = (p for p in response.schedule.placements if p.role is Role.PS)
    counts = tuple(sorted((p.server, p.count) for p in workers))
    schedule = response.schedule
    number = sum(count for _, count in counts)
    return schedule.completion, schedule.start, number, workers[0].type, ps.type, ps.server, ps.count, counts


def expected(found: Found) -> tuple[object, ...]:
    kinds = found.worker_type, found.ps_type
    return found.completion, found.start, found.workers, *kinds, found.host, found.pss, found.counts


def a_market(rng: np.random.Generator) -> RigidKernel:
    inventory = random_inventory(rng)
    ledger = Ledger(inventory, start=0, slots=10)
    count = len(inventory.resources)
    functions = [
        eta_prices([float(x) for x in 1 + 5 * rng.random(count)]),
        random_reserve_prices(rng, count, high=4.0),
    ]
    return RigidKernel(ledger, functions[int(rng.integers(2))], tail=int(rng.integers(2)))


def as_problem(market: RigidKernel, rng: np.random.Generator) -> Problem:
    ledger = market.ledger
    prices: Floats = market.prices.of(ledger.used, ledger.inventory.capacity, slots_ahead(len(ledger.used)))
    bid = random_bid(rng, ledger.inventory, start=ledger.start, slots=10)
    return Problem(bid, ledger.inventory, ledger.start, ledger.used, prices, tail=market.tail)


@dataclass(frozen=True, eq=False)
class Fixed:
    """The same prices whatever is used."""

    rises_ahead: ClassVar[bool] = False
    prices: Floats

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        return np.where(capacity > 0, self.prices, 0.0)
