"""OASiS's Algorithm 2, as literally as it can be: whole chunks, COST_t and DP_COST, one payoff for each completion."""

import math
from fractions import Fraction
from functools import cache

import numpy as np

from scheduling.best_response.base import slots_ahead
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.pricing.price_function import PriceFunction


def paper_payoff(bid: Bid, ledger: Ledger, prices: PriceFunction, worker: int = 0, ps: int = 0) -> float:
    """mu_i: the payoff of the best schedule with one worker type and one PS type, 0 if none is above 0."""
    inventory = ledger.inventory
    w, s = inventory.workers[worker], inventory.parameter_servers[ps]
    pace = bid.minibatches * (bid.worker_time[worker] + bid.ps_time[ps] + bid.transfer_time[worker])
    posted = prices.of(ledger.used, inventory.capacity, slots_ahead(len(ledger.used)))
    free = inventory.capacity - ledger.used

    def deploy(t: int, demand: tuple[int, ...], wanted: int, most: int) -> tuple[int, float]:
        """Machines deployed on the cheapest servers first, and their cost (lines 23-28 and 32-35)."""
        unit = [math.fsum(posted[t, h] * np.array(demand)) for h in range(len(inventory.servers))]
        placed, cost = 0, 0.0
        for h in sorted(range(len(unit)), key=lambda h: unit[h]):
            if ledger.start + t < bid.arrival + bid.delay[h]:
                continue
            room = min(int(free[t, h, r]) // units for r, units in enumerate(demand) if units)
            here = min(room, most - placed, wanted - placed)
            placed, cost = placed + here, cost + here * unit[h]
        return placed, cost

    @cache
    def cost_t(t: int, d: int) -> float:
        wanted = math.ceil(d * pace)
        workers, cost = deploy(t, w.demand, wanted, bid.chunks)
        if workers < wanted:
            return math.inf
        ratio = w.bandwidth_mbps / s.bandwidth_mbps
        pss, more = deploy(t, s.demand, math.ceil(workers * ratio), workers)
        return math.inf if Fraction(pss) < ratio * workers else cost + more

    @cache
    def dp_cost(t: int, d: int) -> float:
        if t < first:
            return 0.0 if d == 0 else math.inf
        return min(cost_t(t, k) + dp_cost(t - 1, d - k) for k in range(d + 1))

    first = max(0, bid.arrival - ledger.start)
    chunks = bid.epochs * bid.chunks
    payoffs = [
        bid.utility.at(ledger.start + t + 1 - bid.arrival) - dp_cost(t, chunks) for t in range(first, len(ledger.used))
    ]
    return max([0.0, *payoffs])
