"""The best response of a ring against its twin, which is itself held against every placement there is."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from scheduling.best_response.rigid import index as rigid_index
from scheduling.best_response.rigid.kernel import Response, RigidIndex
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture
from scheduling.model.progress import work_done
from scheduling.model.schedule import Role
from tests.draws import fresh_seed, rounds
from tests.scheduling.rigid_answers import answer
from tests.scheduling.tolerance import TOLERANCE
from tests.scheduling.twins import ring_exact, ring_milp
from tests.scheduling.twins.rigid_cases import random_problem
from tests.scheduling.twins.rigid_exact import Found, Problem


def ring_problem(rng: np.random.Generator) -> Problem:
    """As for parameter servers; sometimes exchanging gradients takes longer than all the rest."""
    problem = random_problem(rng)
    time = Fraction(int(rng.integers(0, 5)), int(rng.integers(1, 13))) * int(rng.choice([0, 1, 4]))
    return replace(problem, bid=replace(problem.bid, architecture=Architecture.RING, reduce_time=time))


def described(response: Response) -> tuple[object, ...]:
    schedule = response.schedule
    assert all(p.role is Role.WORKER for p in schedule.placements)
    counts = tuple(sorted((p.server, p.count) for p in schedule.placements))
    return schedule.completion, schedule.start, schedule.placements[0].type, counts


def expected(found: Found) -> tuple[object, ...]:
    return found.completion, found.start, found.worker_type, found.counts


@pytest.mark.parametrize(("hubs", "workers", "cases"), [(8, 4096, 100), (0, 4096, 60), (1, 2, 50)])
def test_the_kernel_equals_the_twin(hubs: int, workers: int, cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rigid_index, "HUBS", hubs)
    monkeypatch.setattr(rigid_index, "TABLED_WORKERS", workers)
    seed, answered = fresh_seed(), 0
    for case in range(rounds(cases)):
        rng = np.random.default_rng([seed, case])
        problem = ring_problem(rng)
        above = -np.inf if rng.random() < 0.3 else 0.0
        found, response = ring_exact.best(problem, above), answer(problem, above)
        where = f"seed {[seed, case]}: {found} but {response}"
        if found is None or response is None:
            either = found if response is None else response
            assert either is None or (above == 0.0 and either.payoff < TOLERANCE), where
            continue
        answered += 1
        assert abs(found.payoff - response.payoff) <= TOLERANCE * max(1.0, found.cost), where
        if (problem.prices == np.floor(problem.prices)).all():
            assert described(response) == expected(found), where
    assert answered > rounds(cases) // 6


def test_the_kernel_equals_an_integer_program() -> None:
    seed = fresh_seed()
    for case in range(rounds(8)):
        problem = ring_problem(np.random.default_rng([seed, case]))
        best, response = ring_milp.best_payoff(problem), answer(problem, -np.inf)
        payoff = -np.inf if response is None else response.payoff
        assert payoff == pytest.approx(best, rel=1e-7, abs=1e-7), f"seed {[seed, case]}"


def every_placement(problem: Problem) -> Iterator[float]:
    """Payoffs of all placements whatever, by enumeration of the workers on every server."""
    bid = problem.bid
    for w, worker in enumerate(problem.inventory.workers):
        for counts in itertools.product(range(bid.chunks + 1), repeat=len(problem.inventory.servers)):
            n = sum(counts)
            if not 1 <= n <= bid.chunks:
                continue
            d = ring_exact.duration(bid, w, n, spread=max(counts) < n)
            demand = np.outer(counts, worker.demand)
            for a in range(problem.start, problem.start + len(problem.used)):
                window = problem.window(a, d)
                if window is not None and ((demand <= window.free) | (demand == 0).all(axis=1)[:, None]).all():
                    yield bid.utility.at(a + d - bid.arrival) - float((demand * window.price).sum())


def test_the_twin_equals_every_placement_there_is() -> None:
    seed, compared = fresh_seed(), 0
    for case in range(rounds(75)):
        problem = ring_problem(np.random.default_rng([seed, case]))
        if problem.bid.chunks > 4 or len(problem.inventory.servers) > 3:
            continue
        compared += 1
        best = max(every_placement(problem), default=-np.inf)
        found = ring_exact.best(problem, -np.inf)
        payoff = -np.inf if found is None else found.payoff
        assert payoff == pytest.approx(best, rel=1e-9, abs=1e-9), f"seed {[seed, case]}"
    assert compared > rounds(5)


def test_one_index_answers_rings_and_parameter_servers_in_turn() -> None:
    seed = fresh_seed()
    for case in range(rounds(20)):
        rng = np.random.default_rng([seed, case])
        ring = ring_problem(rng)
        index = RigidIndex(ring.inventory, len(ring.used))
        for _ in range(4):
            problem = ring
            if rng.random() < 0.5:
                problem = replace(ring, bid=replace(ring.bid, architecture=Architecture.PS))
            assert answer(problem, -np.inf, index) == answer(problem, -np.inf), f"seed {[seed, case]}"


def test_its_schedules_fit_and_do_all_the_work() -> None:
    seed = fresh_seed()
    for case in range(rounds(50)):
        problem = ring_problem(np.random.default_rng([seed, case]))
        response = answer(problem, -np.inf)
        if response is None:
            continue
        schedule = response.schedule
        done = work_done(problem.bid, schedule.placements, until=schedule.completion)
        assert done == problem.bid.work, f"seed {[seed, case]}"
        ledger = Ledger(problem.inventory, start=problem.start, slots=len(problem.used))
        ledger.commit(schedule)
        assert (ledger.used + problem.used <= problem.inventory.capacity).all(), f"seed {[seed, case]}"


def test_durations_too_large_for_machine_integers_are_still_exact() -> None:
    seed, seen = fresh_seed(), 0
    for case in range(rounds(20)):
        problem = ring_problem(np.random.default_rng([seed, case]))
        fine = Fraction(1, 10**30)
        bid = replace(problem.bid, worker_time=tuple(x + fine for x in problem.bid.worker_time))
        problem = replace(problem, bid=bid)
        found, response = ring_exact.best(problem), answer(problem)
        assert (found is None) == (response is None), f"seed {[seed, case]}"
        if found is not None and response is not None:
            seen += 1
            assert abs(found.payoff - response.payoff) <= TOLERANCE * max(1.0, found.cost), f"seed {[seed, case]}"
    assert seen > rounds(1)


def test_one_worker_alone_exchanges_nothing() -> None:
    problem = ring_problem(np.random.default_rng(7))
    bid = replace(problem.bid, chunks=1, epochs=1, minibatches=2, reduce_time=Fraction(100))
    bid = replace(bid, worker_time=tuple(Fraction(1) for _ in bid.worker_time))
    for w in range(len(bid.worker_time)):
        assert ring_exact.duration(bid, w, 1, spread=True) == 2
