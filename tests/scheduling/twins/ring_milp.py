"""The best response of a ring as integer programs, solved by HiGHS: an opinion independent of kernel and twin.

One program for each worker type, number of workers, start, and on one server or anywhere.
"""

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.scheduling.twins.rigid_exact import Problem, Window

INFEASIBLE = 2


def best_payoff(problem: Problem) -> float:
    """The greatest payoff of any schedule, minus infinity where none fits."""
    bid, end, best = problem.bid, problem.start + len(problem.used), -math.inf
    for w in range(len(problem.inventory.workers)):
        for n in range(1, bid.chunks + 1):
            for spread in (False, True):
                exchange = bid.reduce_time + (bid.transfer_time[w] if spread else 0)
                work = bid.work * (bid.worker_time[w] * n + exchange * (n - 1)) / Fraction(n * n)
                d = max(1, math.ceil(work))
                for a in range(max(problem.start, bid.arrival), end - d + 1):
                    value, window = bid.utility.at(a + d - bid.arrival), problem.window(a, d)
                    if window is not None and value > best:
                        best = max(best, value - _least_cost(problem, window, w, n, spread=spread))
    return best


def _least_cost(problem: Problem, window: Window, w: int, n: int, *, spread: bool) -> float:
    """Variables: y (workers) and x (is it the one server?), S each."""
    servers = len(window.free)
    demand = problem.inventory.worker_demand[w]
    one, none, eye = np.ones((1, servers)), np.zeros((1, servers)), np.eye(servers)
    able = (window.free >= 0).all(axis=1)
    rows = [LinearConstraint(np.hstack([one, none]), n, n)]
    rows += [
        LinearConstraint(np.hstack([units * eye, 0 * eye]), -np.inf, np.maximum(window.free[:, r], 0))
        for r, units in enumerate(demand)
    ]
    if not spread:
        rows.append(LinearConstraint(np.hstack([none, one]), 1, 1))
        rows.append(LinearConstraint(np.hstack([eye, -n * eye]), -np.inf, 0))
    cost = np.concatenate([window.price @ demand, np.zeros(servers)])
    answer = milp(
        cost,
        integrality=np.ones(2 * servers, dtype=np.int64),
        bounds=Bounds(0, np.concatenate([n * able, np.ones(servers)])),
        constraints=rows,
        options={"mip_rel_gap": 0.0},
    )
    if answer.status == INFEASIBLE:
        return math.inf
    if answer.status != 0:
        raise RuntimeError(answer.message)
    # The solver's integers are doubles: its schedule is priced again.
    return float(cost @ np.rint(answer.x))
