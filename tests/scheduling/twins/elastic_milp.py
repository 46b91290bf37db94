"""Problem (27) of the OASiS paper as integer programs, solved by HiGHS: independent of kernel and twin.

Any servers may host any number of workers and of PSs in every slot; one program for each pair of types and
completion.
"""

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from scheduling.model.types import Floats
from tests.scheduling.twins.elastic_exact import Problem, worker_slots

INFEASIBLE = 2


def best_payoff(problem: Problem) -> float:
    """The greatest payoff of any schedule, minus infinity where none fits."""
    bid, slots = problem.bid, len(problem.used)
    best = -np.inf
    for w in range(len(problem.inventory.workers)):
        for p in range(len(problem.inventory.parameter_servers)):
            for last in range(slots):
                value = bid.utility.at(problem.start + last + 1 - bid.arrival)
                if value > best and problem.start + last >= bid.arrival:
                    best = max(best, value - least_cost(problem, w, p, last + 1))
    return best


def least_cost(problem: Problem, w: int, p: int, slots: int) -> float:
    """Variables: y (workers) and z (PSs), slots x S each; constraints (2), (3), (6), (7), (4) and (5) of the paper."""
    bid, inventory = problem.bid, problem.inventory
    worker, ps = inventory.workers[w], inventory.parameter_servers[p]
    servers = len(inventory.servers)
    size = slots * servers
    prices = problem.prices[:slots].reshape(size, -1)
    free = (inventory.capacity - problem.used[:slots]).reshape(size, -1)
    first = max(bid.arrival, problem.start if problem.first_start is None else problem.first_start)
    times = np.repeat(problem.start + np.arange(slots), servers)
    able = (times >= first) & (times >= bid.arrival + np.tile(np.array(bid.delay), slots))
    per_slot = np.kron(np.eye(slots), np.ones((1, servers)))
    none = np.zeros_like(per_slot)
    ratio = worker.bandwidth_mbps / ps.bandwidth_mbps
    rows: list[tuple[Floats, Any, Any]] = [
        (np.hstack([np.ones((1, size)), np.zeros((1, size))]), worker_slots(bid, w, p), np.inf),
        (np.hstack([per_slot, none]), -np.inf, bid.chunks),
        (np.hstack([per_slot, -per_slot]), 0, np.inf),
        (np.hstack([ratio.numerator * per_slot, -ratio.denominator * per_slot]), -np.inf, 0),
    ]
    rows += [
        (np.hstack([worker.demand[r] * np.eye(size), ps.demand[r] * np.eye(size)]), -np.inf, free[:, r])
        for r in range(len(inventory.resources))
    ]
    cost = np.concatenate([prices @ np.array(worker.demand), prices @ np.array(ps.demand)])
    answer = milp(
        cost,
        integrality=np.ones(2 * size, dtype=np.int64),
        bounds=Bounds(0, np.tile(bid.chunks * able, 2)),
        constraints=[LinearConstraint(*row) for row in rows],
        options={"mip_rel_gap": 0.0},
    )
    if answer.status == INFEASIBLE:
        return float(np.inf)
    if answer.status != 0:
        raise RuntimeError(answer.message)
    return float(cost @ np.rint(answer.x))
