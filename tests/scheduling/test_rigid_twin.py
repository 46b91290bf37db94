"""The twin of the rigid kernel against every placement there is."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from scheduling.model.types import Ints
from tests.draws import fresh_seed, rounds
from tests.scheduling.twins import rigid_exact
from tests.scheduling.twins.rigid_cases import random_problem
from tests.scheduling.twins.rigid_exact import Problem, Window


def every_placement(problem: Problem) -> Iterator[float]:
    """Payoffs of all placements whatever, by enumeration of workers on every server and the PS host."""
    bid, inventory = problem.bid, problem.inventory
    servers = range(len(inventory.servers))
    pairs = itertools.product(enumerate(inventory.workers), enumerate(inventory.parameter_servers))
    for (w, worker), (p, ps) in pairs:
        step = bid.worker_time[w] + bid.ps_time[p]
        for counts in itertools.product(range(bid.chunks + 1), repeat=len(servers)):
            n = sum(counts)
            if not 1 <= n <= bid.chunks:
                continue
            for host in servers:
                central = counts[host] == n
                k = step if central else step + bid.transfer_time[w]
                pss = rigid_exact.ps_count(n - counts[host], worker.bandwidth_mbps / ps.bandwidth_mbps)
                d = rigid_exact.duration(bid.work, k, n)
                demand = np.outer(counts, worker.demand)
                demand[host] += pss * np.array(ps.demand)
                for a in range(problem.start, problem.start + len(problem.used)):
                    window = problem.window(a, d)
                    if window is not None and fits(window, demand):
                        yield bid.utility.at(a + d - bid.arrival) - float((demand * window.price).sum())


def fits(window: Window, demand: Ints) -> bool:
    return bool(((demand <= window.free) | ((demand == 0).all(axis=1)[:, None])).all())


def test_the_twin_equals_every_placement_there_is() -> None:
    seed = fresh_seed()
    compared = 0
    for case in range(rounds(100)):
        problem = random_problem(np.random.default_rng([seed, case]))
        if problem.bid.chunks > 4 or len(problem.inventory.servers) > 3:
            continue
        compared += 1
        best = max(every_placement(problem), default=-np.inf)
        found = rigid_exact.best(problem, -np.inf)
        payoff = -np.inf if found is None else found.payoff
        assert payoff == pytest.approx(best, rel=1e-9, abs=1e-9), f"seed {[seed, case]}"
    assert compared > rounds(6)
