"""The elastic best response against its twin and against integer programmes."""

import secrets

import numpy as np
import pytest

from scheduling.elastic import Response, best_response
from tests.scheduling.twins import elastic_exact, elastic_milp
from tests.scheduling.twins.elastic_cases import random_problem
from tests.scheduling.twins.elastic_exact import Problem

TOLERANCE = 1e-9


def answer(problem: Problem, above: float = 0.0) -> Response | None:
    return best_response(
        problem.bid,
        problem.inventory,
        start=problem.start,
        used=problem.used,
        prices=problem.prices,
        above=above,
        first_start=problem.first_start,
    )


def fresh_seed() -> int:
    return secrets.randbelow(2**32)


def test_the_kernel_equals_the_twin() -> None:
    seed = fresh_seed()
    for case in range(300):
        rng = np.random.default_rng([seed, case])
        problem = random_problem(rng)
        above = -np.inf if rng.random() < 0.3 else 0.0
        found, response = elastic_exact.best(problem, above), answer(problem, above)
        where = f"seed {[seed, case]}: {found} but {response}"
        if found is None or response is None:
            either = found if response is None else response
            assert either is None or (above == 0.0 and either.payoff < TOLERANCE), where
            continue
        assert found.payoff == pytest.approx(response.payoff, rel=TOLERANCE, abs=TOLERANCE), where
        if (problem.prices == np.floor(problem.prices)).all():
            assert found.completion == response.schedule.completion, where


def test_the_twin_equals_an_integer_programme() -> None:
    seed = fresh_seed()
    for case in range(40):
        problem = random_problem(np.random.default_rng([seed, case]))
        found = elastic_exact.best(problem, -np.inf)
        payoff = -np.inf if found is None else found.payoff
        assert payoff == pytest.approx(elastic_milp.best_payoff(problem), rel=1e-7, abs=1e-7), f"seed {[seed, case]}"
