"""The elastic best response, slow and obvious: a table of worker-slots, slot by slot, for each pair of types."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Floats, Ints


@dataclass(frozen=True)
class Problem:
    bid: Bid
    inventory: Inventory
    start: int
    used: Ints
    prices: Floats
    first_start: int | None = None


@dataclass(frozen=True)
class Found:
    """The least cost of one pair of types when complete by one slot."""

    payoff: float
    cost: float
    completion: int
    worker_type: int
    ps_type: int

    @property
    def order(self) -> tuple[float, ...]:
        return (-self.payoff, self.completion, self.worker_type, self.ps_type)


def worker_slots(bid: Bid, w: int, p: int) -> int:
    """Constraint (2): mini-batches times the slots of one."""
    return max(1, math.ceil(bid.work * (bid.worker_time[w] + bid.ps_time[p] + bid.transfer_time[w])))


def ps_count(n: int, worker: MachineType, ps: MachineType) -> int:
    """Constraint (7): the bandwidth of n workers."""
    return math.ceil(n * worker.bandwidth_mbps / ps.bandwidth_mbps)


def cheapest(problem: Problem, t: int, machine: MachineType) -> list[float]:
    """Cost of 0, 1, 2, ... machines in slot t of the ledger, as many as fit, cheapest first."""
    bid, capacity = problem.bid, problem.inventory.capacity
    prices: list[float] = []
    for s, row in enumerate(capacity - problem.used[t]):
        if problem.start + t < bid.arrival + bid.delay[s]:
            continue
        room = min(int(row[r]) // amount for r, amount in enumerate(machine.demand) if amount)
        unit = math.fsum(problem.prices[t, s, r] * amount for r, amount in enumerate(machine.demand) if amount)
        prices += [unit] * min(max(room, 0), bid.chunks)
    costs = [0.0]
    for price in sorted(prices):
        costs.append(costs[-1] + price)
    return costs


def slot_costs(problem: Problem, t: int, worker: MachineType, ps: MachineType) -> list[float]:
    """Cost of 0, 1, 2, ... workers with their PSs in slot t of the ledger."""
    workers, pss = cheapest(problem, t, worker), cheapest(problem, t, ps)
    counts = [(n, ps_count(n, worker, ps)) for n in range(min(problem.bid.chunks, len(workers) - 1) + 1)]
    return [workers[n] + pss[k] for n, k in counts if k < len(pss)]


def costs(problem: Problem, w: int, p: int) -> Iterator[tuple[int, float]]:
    """(completion, least cost) of every completion at which the work can be done, for one pair of types."""
    bid, worker, ps = problem.bid, problem.inventory.workers[w], problem.inventory.parameter_servers[p]
    if worker.bandwidth_mbps > ps.bandwidth_mbps:
        return
    wanted = worker_slots(bid, w, p)
    if wanted > bid.chunks * len(problem.used):
        return
    first = max(problem.start, bid.arrival, problem.start if problem.first_start is None else problem.first_start)
    table = np.full(wanted + 1, np.inf)
    table[0] = 0.0
    for t in range(max(0, first - problem.start), len(problem.used)):
        before = table.copy()
        for n, cost in enumerate(slot_costs(problem, t, worker, ps)):
            if n <= wanted:
                table[n:] = np.minimum(table[n:], before[: wanted + 1 - n] + cost)
        if table[wanted] < np.inf:
            yield problem.start + t + 1, float(table[wanted])


def every(problem: Problem) -> Iterator[Found]:
    """The least cost for every pair of types and completion."""
    inventory, bid = problem.inventory, problem.bid
    for w in range(len(inventory.workers)):
        for p in range(len(inventory.parameter_servers)):
            for completion, cost in costs(problem, w, p):
                payoff = bid.utility.at(completion - bid.arrival) - cost
                yield Found(payoff, cost, completion, w, p)


def best(problem: Problem, above: float = 0.0) -> Found | None:
    """The greatest payoff above `above`; ties to the earliest completion, then the first types."""
    found = [f for f in every(problem) if f.payoff > above]
    return min(found, key=lambda f: f.order) if found else None
