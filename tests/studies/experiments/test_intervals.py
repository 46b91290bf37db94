"""Intervals of means over seeds are Student's, and one seed has none."""

import numpy as np
import pytest

from studies.experiments.intervals import half_width


def test_the_interval_of_three_is_that_of_the_table() -> None:
    # 4.303 is the 97.5 % quantile with two degrees of freedom; the deviation of 1, 2, 3 is 1.
    half = half_width(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]))
    assert half is not None
    assert half.tolist() == pytest.approx([4.302653 / 3**0.5, 0.0])


def test_one_seed_has_no_interval() -> None:
    assert half_width(np.ones((4, 1))) is None


def test_19_of_20_intervals_of_ten_cover_the_mean() -> None:
    samples = np.random.default_rng(7).normal(3.0, 2.0, (4000, 10))
    half = half_width(samples)
    assert half is not None
    assert np.mean(np.abs(samples.mean(axis=1) - 3.0) <= half) == pytest.approx(0.95, abs=0.005)
