"""Capacity rows against trying everything, with many digits, and ratios with small denominators."""

from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.solvers.milp import FINEST, IntegerProgram, same_ceilings
from scheduling.solvers.time_limit import unlimited
from tests.draws import fresh_seed


@pytest.mark.parametrize("near", [10**3, 10**6, 10**9, 10**12, 10**16])
def test_room_is_kept_to_the_unit(near: int) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(20):
        most = rng.integers(1, 3, 5) if rng.random() < 0.5 else np.ones(5, dtype=np.int64)
        worth = rng.integers(1, 9, 5)
        sizes = near * rng.integers(1, 3, (2, 5)) + rng.integers(0, 4, (2, 5))
        filled = rng.integers(0, most + 1)
        there = sizes @ filled + rng.integers(-1, 2)
        rows = IntegerProgram()
        columns = [rows.column(0.0, float(n), cost=-float(w)) for n, w in zip(most, worth, strict=True)]
        for each, left in zip(sizes.tolist(), there.tolist(), strict=True):
            rows.capacity_row(zip(columns, each, strict=True), left)
        counts = np.array(list(product(*(range(n + 1) for n in most))))
        fits = (counts @ sizes.T <= there).all(axis=1)
        answer = rows.solve(unlimited)
        if not fits.any():
            assert not answer.feasible, seed
            continue
        assert answer.optimal, seed
        assert answer.values is not None, seed
        found = np.rint(answer.values[columns]).astype(np.int64)
        assert (sizes @ found <= there).all(), seed
        assert found @ worth == (counts @ worth)[fits].max() == -round(answer.bound), seed


def test_rows_whose_coefficients_are_nearly_multiples_of_each_other_have_their_optimum() -> None:
    """The presolve of HiGHS lost the optimum for some costs, with coefficients of 4,999 and 9,999."""
    rng = np.random.default_rng(1)
    few = np.array([[1, 2, 2, 1, 1], [2, 2, 1, 2, 1]])
    counts = np.array(list(product((0, 1), repeat=5)))
    for near in (5_000, 10**9):
        sizes, there = near * few - 1, near * np.array([3, 4]) - 1
        fits = (counts @ sizes.T <= there).all(axis=1)
        for worth in (np.array([8, 2, 2, 4, 2]), *rng.integers(1, 9, (60, 5))):
            rows = IntegerProgram()
            columns = [rows.column(cost=-float(w)) for w in worth]
            for each, left in zip(sizes.tolist(), there.tolist(), strict=True):
                rows.capacity_row(zip(columns, each, strict=True), left)
            assert round(-rows.solve(unlimited).bound) == (counts @ worth)[fits].max(), (near, worth)


def test_small_numbers_and_multiples_of_large_ones_are_reported_as_they_are() -> None:
    for unit in (1, 10**9):
        rows = IntegerProgram()
        column = rows.column(0.0, 1e6, cost=-1.0)
        rows.capacity_row([(column, FINEST * unit)], 7 * FINEST * unit + unit - 1)
        assert rows.relax().cost == -7


def test_time_that_is_up_before_all_fits_leaves_a_bound() -> None:
    rows = IntegerProgram()
    columns = [rows.column(cost=-1.0) for _ in range(4)]
    rows.capacity_row([(column, 10**9) for column in columns[:3]] + [(columns[3], 10**9 + 1)], 4 * 10**9)
    answer = rows.solve(lambda: 0.0)
    assert answer.values is None
    assert not answer.optimal
    assert rows.solve(unlimited).bound == -3


@given(ratio=st.fractions(min_value="1/1000000", max_value=5), most=st.integers(1, 60))
def test_a_ratio_with_a_small_denominator_stands_for_any(ratio: Fraction, most: int) -> None:
    small = same_ceilings(ratio, most)
    assert small.denominator <= most
    assert all(ceil(count * small) == ceil(count * ratio) for count in range(most + 1))
