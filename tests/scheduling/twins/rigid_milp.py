"""Problem (21) of the DPS paper as integer programs, solved by HiGHS: an opinion independent of kernel and twin.

Any number of servers may host PSs, each of them with bandwidth for all workers elsewhere (eq. 12); the number of
workers is a variable. One program for each pair of types, start, duration, and together or spread.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from scheduling.model.types import Floats
from tests.scheduling.twins.rigid_exact import Problem, Window

INFEASIBLE = 2


def best_payoff(problem: Problem) -> float:
    """The greatest payoff of any schedule, minus infinity where none fits."""
    bid, end = problem.bid, problem.start + len(problem.used)
    offers = sorted(
        (
            (bid.utility.at(a + d - bid.arrival), a, d, w, p, spread)
            for w in range(len(problem.inventory.workers))
            for p in range(len(problem.inventory.parameter_servers))
            for spread in (False, True)
            for a in range(max(problem.start, bid.arrival), end)
            for d in _durations(problem, w, p, spread)
            if a + d <= end
        ),
        reverse=True,
    )
    best = -np.inf
    for value, a, d, w, p, spread in offers:
        if value <= best:  # no cost is negative
            break
        window = problem.window(a, d)
        if window is not None:
            best = max(best, value - _least_cost(problem, window, d, w, p, spread))
    return best


def _step(problem: Problem, w: int, p: int, spread: bool) -> Fraction:
    bid = problem.bid
    return bid.work * (bid.worker_time[w] + bid.ps_time[p] + (bid.transfer_time[w] if spread else 0))


def _durations(problem: Problem, w: int, p: int, spread: bool) -> Iterator[int]:
    work = _step(problem, w, p, spread)
    yield from {max(1, -(-work.numerator // (work.denominator * n))) for n in range(1, problem.bid.chunks + 1)}


def _least_cost(problem: Problem, window: Window, d: int, w: int, p: int, spread: bool) -> float:
    """Variables: y (workers), z (PSs), x (does it host PSs?), S each."""
    inventory, chunks = problem.inventory, problem.bid.chunks
    servers = len(inventory.servers)
    worker, ps = inventory.workers[w], inventory.parameter_servers[p]
    wd, pd = np.array(worker.demand), np.array(ps.demand)
    ratio = worker.bandwidth_mbps / ps.bandwidth_mbps
    work = _step(problem, w, p, spread)
    eye, none, one = np.eye(servers), np.zeros((servers, servers)), np.ones((1, servers))
    zero = np.zeros((1, servers))
    blank = np.where(window.free < 0, 0, window.free)
    most = int(blank.max(initial=0))
    rows: list[tuple[Floats, Any, Any]] = [
        (np.hstack([one, zero, zero]), max(1, -(-work.numerator // (work.denominator * d))), chunks),
        (np.hstack([zero, zero, one]), 1, np.inf if spread else 1),
        (np.hstack([none, eye, -eye]), 0, np.inf),
        (np.hstack([none, eye, -most * eye]), -np.inf, 0),
        # b_p z_s >= b_w (N - y_s) wherever x_s.
        (
            np.hstack(
                [
                    ratio.numerator * (eye - 1.0),
                    ratio.denominator * eye,
                    -float(ratio.numerator * chunks) * eye,
                ]
            ),
            -ratio.numerator * chunks,
            np.inf,
        ),
    ]
    rows += [(np.hstack([wd[r] * eye, pd[r] * eye, none]), -np.inf, blank[:, r]) for r in range(len(wd))]
    if not spread:
        rows.append((np.hstack([eye, none, -chunks * eye]), -np.inf, 0))
    able = (window.free >= 0).all(axis=1)
    cost = np.concatenate([window.price @ wd, window.price @ pd, np.zeros(servers)])
    answer = milp(
        cost,
        integrality=np.ones(3 * servers, dtype=np.int64),
        bounds=Bounds(0, np.concatenate([chunks * able, most * able, 1 * able])),
        constraints=[LinearConstraint(*row) for row in rows],
        options={"mip_rel_gap": 0.0},
    )
    if answer.status == INFEASIBLE:
        return float(np.inf)
    if answer.status != 0:
        raise RuntimeError(answer.message)
    # The solver's integers are doubles: its schedule is priced again.
    return float(cost @ np.rint(answer.x))
